"""A target proved: its cases, the battery on them, the report."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._errors import ArgumentError
from .battery import chosen, run
from .clock import Clock
from .contract import CONTRACTS, Contract
from .prepare import prepare
from .report.report import Report
from .target import make_target


def prove(
    target: Any,
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    contracts: Sequence[Contract],
    *,
    name: str | None,
    seed: int,
    budget: float | None,
    progress: Callable[[str], None],
) -> Report:
    """What `check` does, with the contracts that are `wanted`."""
    prepared = prepare(make_target(target, name=name), inputs, kwargs, seed=seed, clock=Clock(budget))
    ran = run(contracts, prepared.cases, prepared.clock, progress) if prepared.cases else ()
    return Report(prepared.target.name, prepared.target.kind, [*prepared.results, *ran], seed)


def wanted(only: str | Iterable[str] = (), skip: str | Iterable[str] = (), *, inductor: bool = False) -> list[Contract]:
    """The contracts to run.

    Raises:
        ArgumentError: there is no contract of a name.
    """
    only, skip = ([names] if isinstance(names, str) else list(names) for names in (only, skip))
    try:
        return chosen(only, skip, inductor=inductor)
    except KeyError as error:
        name = str(error.args[0])
        near = difflib.get_close_matches(name, CONTRACTS, n=3, cutoff=0.4)
        raise ArgumentError(
            "there is no such check",
            argument="only, skip",
            expected=", ".join(CONTRACTS),
            got=name,
            hint=f"perhaps {' or '.join(near)}" if near else None,
        ) from None
