"""A target proved: its cases, the battery on them, the report."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._errors import ArgumentError
from .battery import chosen, run
from .case import Case
from .clock import Clock
from .contract import CONTRACTS
from .finding import Finding, Verdict
from .generate.inputs import Inputs, attempt, make_case
from .report import Report, Result
from .target import Target, make_target

CASES = 24
"""Generated cases of one target."""


def prove(
    target: Any,
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    name: str | None,
    seed: int,
    budget: float | None,
    only: Iterable[str],
    skip: Iterable[str],
    inductor: bool,
    progress: Callable[[str], None],
) -> Report:
    """What `check` does, with its arguments."""
    made = make_target(target, name=name)
    try:
        wanted = chosen(only, skip, inductor=inductor)
    except KeyError as error:
        raise ArgumentError(
            "there is no such check", argument="only, skip", expected=", ".join(CONTRACTS), got=str(error.args[0])
        ) from None
    clock = Clock(budget)
    watched = clock.watch(made)
    report = Report(made.name, made.kind, seed=seed)
    if inputs or kwargs:
        cases, results = _given(make_case(watched, inputs, kwargs, seed=seed))
    else:
        cases, results = _generated(watched, seed)
    report.results = [*results, *(run(wanted, cases, clock, progress) if cases else ())]
    return report


def _given(case: Case) -> tuple[list[Case], list[Result]]:
    """The case that the caller gave, if the target takes it."""
    refused = attempt(case)
    return ([case], []) if refused is None else ([], [_refused(case.label, refused)])


def _generated(target: Target, seed: int) -> tuple[list[Case], list[Result]]:
    """Cases from annotations, and what is to be said about them."""
    inputs = Inputs(target, seed=seed)
    cases = list(itertools.islice(inputs, CASES))
    broken = [refusal for refusal in inputs.refused if not refusal.deliberate]
    results = [_refused(refusal.label, refusal.error) for refusal in broken[:1]]
    if not cases:
        note = f"the target took none of {len(inputs.refused)} generated calls; declare its domain, or samples"
        results.append(Result("samples", _SAMPLES, Verdict.INCONCLUSIVE, note=note))
    elif inputs.note:
        results.append(Result("samples", _SAMPLES, Verdict.SKIPPED, note=inputs.note))
    return cases, results


_SAMPLES = "The target takes the arguments that its annotations and domain admit."


def _refused(label: str, error: Exception) -> Result:
    finding = Finding(
        "raises", Verdict.FAIL, f"The target raises {type(error).__name__}", where=label,
        cause=str(error).partition("\n")[0], hint="pass arguments that it takes, or declare its domain: @tg.domain",
    )  # fmt: skip
    return Result("samples", _SAMPLES, Verdict.FAIL, label, findings=(finding,))
