"""`check`: prove a derivative."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
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


def check(
    target: Any,
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    seed: int = 0,
    budget: float | None = None,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    inductor: bool = False,
    progress: Callable[[str], None] = lambda name: None,
) -> Report:
    """Prove that a derivative is right, or say what is wrong with it.

    The backward pass is compared with differences of the forward pass, whose errors are estimated, so that there is
    no tolerance to choose; then come the contracts that PyTorch expects everyone to keep: layouts, subsets of inputs
    that require grad, mutation, aliasing, forward mode, second order, `vmap`, compilers, threads, leaks, and more.

    Args:
        target: an operator, a Function or its ``apply``, an operator of `torch.library`, a module, or a function on
            tensors.
        inputs: its positional arguments, of any types. Tensors that require grad are differentiated; if none does,
            all floating and complex ones. Parameters of a module always are. Without inputs they are generated from
            the annotations of an operator, in its declared domain.
        kwargs: its keyword arguments.
        name: for the report.
        seed: of all random numbers.
        budget: seconds; what was not tried then is listed in the report. A call that has begun is not interrupted.
        only: names of the checks to run, such as ``["gradient", "layouts"]``; all by default.
        skip: names of checks to leave out.
        inductor: run the checks that need `torch.compile`'s default backend too, which take seconds each.
        progress: is told the name of each check before it begins.

    Returns:
        What was tried, and what was found.

    Raises:
        ArgumentError: the target cannot be checked, or is no operator and has no inputs, or a check does not exist.

    Example:
        >>> report = tg.check(linear)
        >>> report.ok
        True
        >>> print(tg.check(Sin.apply, torch.randn(4, dtype=torch.float64)))
    """
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
        cases, results = _given(make_case(watched, inputs, kwargs or {}, seed=seed))
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
