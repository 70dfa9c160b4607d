"""What stands behind `gradcheck`: which checks it asks for, and which of their verdicts it excuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from .._errors import CheckError, UnsupportedError
from .baseline import baseline
from .case import Case
from .checks.orders import backward_case
from .checks.table import NAMED, Check
from .checks.vmap import batched_gradients, batched_tangents
from .claims import Refused
from .clock import Clock
from .finding import Finding, Inconclusive, Skip, Verdict
from .generate.inputs import make_case
from .report.report import Report, Result
from .runner import run
from .target import make_target

BACKWARD = (
    "gradient", "linearity", "determinism", "subsets", "mutation", "state", "layouts of gradients",
)  # fmt: skip
"""The checks that concern the gradient at given inputs."""


@dataclass(frozen=True)
class Tolerance:
    """What the caller excuses.

    Attributes:
        atol: of digits that are lost, the absolute part.
        rtol: the part of the derivative's size.
        nondet: of calls that differ from themselves.
    """

    atol: float
    rtol: float
    nondet: float

    def excuses(self, finding: Finding) -> bool:
        """Whether a finding is no failure."""
        if finding.code.startswith("nondeterministic-"):
            return finding.error is not None and finding.error <= self.nondet
        if finding.severity is Verdict.LOSES_DIGITS:
            size = torch.as_tensor(0.0 if finding.numeric is None else finding.numeric).abs()
            largest = float(size.max()) if size.numel() else 0.0
            return finding.error is not None and finding.error <= self.atol + self.rtol * largest
        return finding.severity is Verdict.PASS


class Failed(CheckError, GradcheckError):
    """What `gradcheck` raises: torch's error, with the report."""


def first_order(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    masked: bool | None,
    backward: bool,
    undefined: bool,
    dtypes: bool,
    batched: bool,
    forward: bool,
    batched_forward: bool,
) -> Report:
    """The checks that `gradcheck` asks for.

    Raises:
        ValueError: no input requires grad.
        UnsupportedError: unspecified elements of sparse inputs are to be checked.
    """
    case = _case(func, inputs, masked=masked)
    names = [*BACKWARD, *(["outputs"] if undefined else [])] if backward else []
    names += ["returned"] if dtypes and backward else []
    checks = [NAMED[name] for name in names]
    checks += [_asked(NAMED["forward mode"])] if forward else []
    checks += [_BATCHED] if batched else []
    checks += [_BATCHED_FORWARD] if batched_forward else []
    return _report(case, checks)


def second_order(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    reverse: bool,
    undefined: bool,
    dtypes: bool,
    batched: bool,
    forward: bool,
) -> Report:
    """The checks that `gradgradcheck` asks for, of the gradient as a function.

    Raises:
        ValueError: no input requires grad.
    """
    case = _case(func, inputs, masked=None)
    report = _report(case, [_asked(NAMED["second order"])] if reverse else [])
    names = [*(["outputs"] if undefined else []), *(["returned"] if dtypes else [])]
    checks = [NAMED[name] for name in names]
    checks += [_asked(NAMED["forward mode"])] if forward else []
    checks += [_BATCHED] if batched else []
    if report.ok or not reverse:
        derived = _report(_keeping_tangents(backward_case(baseline(case))), checks)
        report.results = [*report.results, *derived.results]
    return report


def _keeping_tangents(case: Case) -> Case:
    """The same for forward mode: its primals are made to require grad, for to detach them would drop their tangents."""
    function = case.target.function

    def call(*primals: Tensor) -> Any:
        return function(*(primal.requires_grad_() if primal.is_leaf else primal for primal in primals))

    args, kwargs = case.arguments(case.primals)
    return Case(replace(case.target, function=call), args, kwargs, seed=case.seed, traits=case.traits)


def settle(report: Report, tolerance: Tolerance, *, raises: bool) -> bool:
    """Whether all passed.

    Raises:
        Failed: it did not, and the caller wants an exception.
    """
    left = [_excused(result, tolerance) for result in report.results]
    judged = Report(report.target, report.kind, left, report.seed)
    if not judged.ok and raises:
        raise Failed(judged.to_text(), report=judged)
    return judged.ok


def _excused(result: Result, tolerance: Tolerance) -> Result:
    """The result without what the caller excuses, and with the notices that he does not."""
    wrong = [finding for finding in result.findings if not tolerance.excuses(finding)]
    strict = [f.but(severity=Verdict.FAIL) if f.severity is Verdict.PASS else f for f in wrong]
    if not result.findings:
        return result
    verdict = max((finding.severity for finding in strict), key=list(Verdict).index, default=Verdict.PASS)
    return Result(result.check, result.title, verdict, result.case, result.note, tuple(strict), result.seconds)


def _case(func: Callable[..., Any], inputs: Tensor | Sequence[Any], *, masked: bool | None) -> Case:
    given = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
    wanted = [value for value in given if isinstance(value, Tensor) and value.requires_grad]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    if masked is False and not all(_is_specified(value) for value in wanted):
        raise UnsupportedError(
            "the unspecified elements of a sparse input are not checked", argument="masked", got="False",
            expected="True, or None", hint="check the function of a dense tensor that calls to_sparse()",
        )  # fmt: skip
    func(*given)  # what it raises is its own
    return make_case(make_target(func), given, {}, seed=0)


def _is_specified(value: Tensor) -> bool:
    """Whether all elements are: then there is none that a mask leaves out."""
    if value.layout == torch.strided:
        return True
    values = value.detach().coalesce().values() if value.layout == torch.sparse_coo else value.values()
    return values.numel() == value.numel()


def _report(case: Case, checks: Sequence[Check]) -> Report:
    results = list(run(checks, [case], Clock()))
    return Report(case.target.name, case.target.kind, results, case.seed)


# -- what was asked for must not be skipped -------------------------------------------------------------------------


def _asked(check: Check) -> Check:
    """The check, for which there is no excuse: what it cannot do for a target, the caller wants to have."""

    def look(case: Case) -> Iterator[Finding]:
        try:
            yield from check.look(case)
        except Skip as why:
            raise Inconclusive(f"it was asked for, and cannot be done: {why}") from why
        except Refused as why:
            yield Finding("refused", Verdict.FAIL, "The target does not do what was asked for", cause=str(why))

    return Check(check.name, check.title, look)


def _batched(case: Case) -> Iterator[Finding]:
    return batched_gradients(baseline(case), ())


def _batched_forward(case: Case) -> Iterator[Finding]:
    return batched_tangents(baseline(case), ())


_BATCHED = _asked(Check("batched gradients", "Several upstream gradients at once are as each alone.", _batched))
_BATCHED_FORWARD = _asked(Check("batched tangents", "Several tangents at once are as each alone.", _batched_forward))
