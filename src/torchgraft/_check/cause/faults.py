"""Faults of C functions, such as memory that is not theirs: the debug mode finds them, and they cause all else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from ..._build.debug import debug
from ...errors import KernelError, RuleError
from ..case import Case
from ..checks.table import Look
from ..clock import Clock, OutOfTime
from ..finding import Finding
from ..report.result import Result

CALLS = 200
"""Calls in which a fault is looked for that ended a check: each takes two processes."""


def nothing(case: Case) -> Iterator[Finding]:
    """Make no further calls of a case."""
    yield from ()


def with_faults(case: Case, result: Result, look: Look = nothing) -> Result:
    """Return a result, whose findings have the fault that a call of the case shows, or else one of those of `look`."""
    return replace(result, findings=tuple(with_fault(case, finding, look) for finding in result.findings))


def with_fault(case: Case, finding: Finding, look: Look = nothing) -> Finding:
    """Return a finding with the fault as its cause that is found in a call and its backward; as it is if there is none.

    C functions are those of a torchgraft operator. They run in a process of their own, which may crash.

    Args:
        case: what is called.
        finding: of the case.
        look: makes further calls of the case that it is given.
    """
    operator = case.target.operator
    if operator is None or not operator._record.natives():
        return finding
    found: list[KernelError | RuleError] = []
    clock = Clock(calls=CALLS)
    with debug(), contextlib.suppress(Exception, OutOfTime):  # Another refusal is a finding of its own.
        try:
            made = case.linearize()
            made.vjp([torch.ones_like(output) for output in made.outputs])
            list(look(clock.watch_case(case.calling(_stopping_at(found, case.target.function, clock)))))
        except (KernelError, RuleError) as fault:
            found.append(fault)
    if not found:
        return finding
    first = found[0]
    told = f"{first.operator}: {first.problem}" + (f" ({first.got})" if first.got else "")
    steps = [(first.hint or "").partition("\n")[0], f"mend it in C: under tg.debug(), {operator.__name__} says more"]
    return finding.but(cause=told, hint="; ".join(filter(None, steps)))


def _stopping_at(
    found: list[KernelError | RuleError], function: Callable[..., Any], clock: Clock
) -> Callable[..., Any]:
    """The function, whose first fault ends everything: a check would go on after it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (KernelError, RuleError) as fault:
            found.append(fault)
            raise OutOfTime(clock) from fault

    return call
