"""`gradcheck` and `gradgradcheck`: torch's signatures, this checker behind them.

The modules of the checks are imported in functions: most programs check nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from ..errors import CheckError, UnsupportedError
from .finding import Finding, Verdict
from .report.report import Report
from .report.result import Result

if TYPE_CHECKING:
    from .case import Case
    from .checks.table import Check


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check gradients at some inputs: `torch.autograd.gradcheck` for which there is no tolerance to choose.

    A test suite that calls torch's calls this one after a change of its import. Behind it are the checks of `check`
    that concern the gradient at these very inputs: the derivative itself, linearity in the upstream gradient, the
    same gradient again, whatever else requires grad, however the upstream gradient lies in memory; nothing is
    overwritten, and nothing kept from call to call. Arguments that are not named here mean what they mean in torch's.

    Args:
        func: a function on tensors that returns a tensor, or several. A module's parameters are checked too.
        inputs: its arguments. Those that require grad are differentiated, of any floating or complex dtype.
        eps: not needed; steps are chosen where they are most exact.
        atol: excuses lost digits only, with `rtol`: a gradient that is right, to fewer digits than its dtype has. A
            wrong gradient is wrong, however small the difference: one that numerics do not explain.
        rtol: see `atol`.
        fast_mode: not needed; it is always fast, and never misses what the slow one sees.
        masked: of sparse inputs, the specified elements are checked; False, which asks for the others as well, is
            refused where there are others.

    Returns:
        True if all passed; what could not be told has not.

    Raises:
        torch.autograd.gradcheck.GradcheckError: something is wrong, or could not be told. It is a `CheckError` too:
            ``error.report`` is the report.
        ValueError: no input requires grad.
        UnsupportedError: `masked` is False, and elements of an input are not specified.

    Example:
        >>> x = torch.randn(3, dtype=torch.float64, requires_grad=True)
        >>> tg.gradcheck(torch.sin, (x,))
        True
    """
    _require("at least one of check_forward_ad or check_backward_ad to be True", check_forward_ad or check_backward_ad)
    _require_of("check_batched_grad", check_batched_grad, "check_backward_ad", check_backward_ad)
    _require_of("check_batched_forward_grad", check_batched_forward_grad, "check_forward_ad", check_forward_ad)
    case = _case(func, inputs, masked=masked)
    names = dict.fromkeys(_BACKWARD, check_backward_ad)
    names |= {
        "outputs": check_backward_ad and check_undefined_grad,
        "returned": check_backward_ad and check_grad_dtypes,
    }
    asked = {
        "forward mode": check_forward_ad, "batched gradients": check_batched_grad,
        "batched tangents": check_batched_forward_grad,
    }  # fmt: skip
    return _settle(case, _run(case, names, asked), atol, rtol, nondet_tol, raises=raise_exception)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check gradients of gradients at some inputs: `torch.autograd.gradgradcheck`, as `gradcheck` is torch's.

    The gradient is taken as a function of the inputs and of the upstream gradients, and is differentiated by both. A
    gradient that is detached does not pass.

    Args:
        func: as for `gradcheck`, as are all arguments that are not named here.
        inputs: its arguments.
        grad_outputs: not needed; a gradient is linear in them, so that drawn ones show all that any do.
        gen_non_contig_grad_outputs: not needed; `gradcheck` looks at layouts.

    Returns:
        True if all passed; what could not be told has not.

    Raises:
        torch.autograd.gradcheck.GradcheckError: something is wrong, or could not be told.
        ValueError: no input requires grad.

    Example:
        >>> x = torch.randn(3, dtype=torch.float64, requires_grad=True)
        >>> tg.gradgradcheck(torch.sin, (x,))
        True
    """
    from .baseline import baseline
    from .checks.orders import backward_case

    reverse = check_rev_over_rev
    _require("at least one of check_fwd_over_rev or check_rev_over_rev to be True", check_fwd_over_rev or reverse)
    _require_of("check_undefined_grad", check_undefined_grad, "check_rev_over_rev", reverse)
    _require_of("check_batched_grad", check_batched_grad, "check_rev_over_rev", reverse)
    case = _case(func, inputs, masked=None)
    results = _run(case, {}, {"second order": reverse})
    if all(result.verdict is Verdict.PASS for result in results):
        names = {"outputs": check_undefined_grad, "returned": check_grad_dtypes}
        asked = {"forward mode": check_fwd_over_rev, "batched gradients": check_batched_grad}
        results += _run(_keeping_tangents(backward_case(baseline(case))), names, asked)
    return _settle(case, results, atol, rtol, nondet_tol, raises=raise_exception)


# -- what torch's signatures ask for ----------------------------------------------------------------------------------

_BACKWARD = ("gradient", "linearity", "determinism", "subsets", "mutation", "state", "layouts of gradients")


def _require(expected: str, given: bool) -> None:
    if not given:
        raise AssertionError(f"Expected {expected}")


def _require_of(option: str, chosen: bool, other: str, given: bool) -> None:
    if chosen and not given:
        raise AssertionError(f"Setting {option}=True requires {other} to be True")


def _case(func: Callable[..., Any], inputs: Tensor | Sequence[Any], *, masked: bool | None) -> Case:
    from .generate.inputs import make_case
    from .target import make_target

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
    func(*given)  # Its errors stay as they are.
    return make_case(make_target(func), given, {}, seed=0)


def _is_specified(value: Tensor) -> bool:
    """Return True if a mask leaves out no element."""
    if value.layout == torch.strided:
        return True
    values = value.detach().coalesce().values() if value.layout == torch.sparse_coo else value.values()
    return values.numel() == value.numel()


def _keeping_tangents(case: Case) -> Case:
    """Return the case for forward mode: its primals require grad, for to detach them would drop their tangents."""
    function = case.target.function

    def call(*primals: Tensor) -> Any:
        return function(*(primal.requires_grad_() if primal.is_leaf else primal for primal in primals))

    args, kwargs = case.arguments(case.primals)
    return type(case)(replace(case.target, function=call), args, kwargs, seed=case.seed, traits=case.traits)


def _run(case: Case, names: Mapping[str, bool], asked: Mapping[str, bool]) -> list[Result]:
    """Run the checks that are True; those that were asked for by an option of their own must not be skipped."""
    from .baseline import baseline
    from .checks.table import NAMED, Check
    from .checks.vmap import batched_gradients, batched_tangents
    from .clock import Clock
    from .endless import GUARD
    from .runner import run

    extra = (
        Check("batched gradients", "Several upstream gradients at once are as each alone.",
              lambda case: batched_gradients(baseline(case))),
        Check("batched tangents", "Several tangents at once are as each alone.",
              lambda case: batched_tangents(baseline(case))),
    )  # fmt: skip
    known = NAMED | {check.name: check for check in extra}
    checks = [known[name] for name, chosen in names.items() if chosen]
    checks += [_unskipped(known[name]) for name, chosen in asked.items() if chosen]
    # What differs from call to call is compared with the tolerance that the caller gave.
    with GUARD.installed(first=False):
        return list(run([replace(check, despite_noise=True) for check in checks], [case], Clock()))


def _unskipped(check: Check) -> Check:
    """Return the check without an excuse: what it cannot do for a target, the caller wants to have."""
    from .checks.ways import Refused
    from .finding import Inconclusive, Skip

    def look(case: Case) -> Iterator[Finding]:
        try:
            yield from check.look(case)
        except Skip as why:
            raise Inconclusive(f"it was asked for, and cannot be done: {why}") from why
        except Refused as why:
            yield Finding("refused", Verdict.FAIL, "The target does not do what was asked for", cause=str(why))

    return type(check)(check.name, check.title, look)


# -- which verdicts are excused ---------------------------------------------------------------------------------------


class Failed(CheckError, GradcheckError):
    """The error of `gradcheck`: torch's, with the report."""


def _settle(
    case: Case, results: Sequence[Result], atol: float, rtol: float, nondet_tol: float, *, raises: bool
) -> bool:
    """Return True if all passed but for what tolerances excuse.

    Raises:
        Failed: not all did, and the caller wants an exception.
    """

    def excused(finding: Finding) -> bool:
        error = float("inf") if finding.error is None else finding.error
        if error <= nondet_tol or finding.code.startswith("nondeterministic-"):
            # Any two calls may differ so much, made alike or not.
            return error <= nondet_tol
        if finding.severity is Verdict.LOSES_DIGITS:
            size = torch.as_tensor(0.0 if finding.numeric is None else finding.numeric).abs()
            return error <= atol + rtol * (float(size.max()) if size.numel() else 0.0)
        return finding.severity is Verdict.PASS

    def judged(result: Result) -> Result:
        if result.verdict is Verdict.INCONCLUSIVE and not any(primal.numel() for primal in case.primals):
            return replace(result, verdict=Verdict.SKIPPED)  # For torch that is a pass.
        wrong = [finding for finding in result.findings if not excused(finding)]
        wrong = [f.but(severity=Verdict.FAIL) if f.severity is Verdict.PASS else f for f in wrong]
        verdict = max((finding.severity for finding in wrong), key=list(Verdict).index, default=Verdict.PASS)
        return replace(result, verdict=verdict, findings=tuple(wrong)) if result.findings else result

    report = Report(case.target.name, case.target.kind, [judged(result) for result in results], case.seed)
    if raises and not report.ok:
        raise Failed(report.to_text(), report=report)
    return report.ok
