"""`gradcheck` and `gradgradcheck`: torch's signatures, this checker behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor


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
    overwritten, and nothing kept from call to call.

    Args:
        func: a function on tensors that returns a tensor, or several. A module's parameters are checked too.
        inputs: its arguments. Those that require grad are differentiated, of any floating or complex dtype.
        eps: not needed; steps are chosen where they are most exact.
        atol: excuses lost digits only, with `rtol`, as it does in torch's: a gradient that is right, to fewer digits
            than its dtype has. A wrong gradient is wrong, however small the difference: one that numerics do not
            explain, and that is more than lost digits.
        rtol: see `atol`.
        raise_exception: raise where a check does not pass; else return False.
        nondet_tol: by how much the same call may differ from itself.
        check_undefined_grad: whether outputs without an upstream gradient are treated as if it were zero.
        check_grad_dtypes: whether a backward returns gradients of its inputs' shapes and dtypes, before the engine
            makes them fit.
        check_batched_grad: several upstream gradients at once, under `vmap`.
        check_batched_forward_grad: several tangents at once, under `vmap`.
        check_forward_ad: forward mode.
        check_backward_ad: all that is above, of the backward pass.
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
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    from .dropin import Tolerance, first_order, settle  # costs an import; most programs check nothing

    results = first_order(
        func, inputs, masked=masked, backward=check_backward_ad, undefined=check_undefined_grad,
        dtypes=check_grad_dtypes, batched=check_batched_grad, forward=check_forward_ad,
        batched_forward=check_batched_forward_grad,
    )  # fmt: skip
    return settle(results, Tolerance(atol, rtol, nondet_tol), raises=raise_exception)


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
        eps: not needed.
        atol: excuses lost digits only.
        rtol: see `atol`.
        gen_non_contig_grad_outputs: not needed; `gradcheck` looks at layouts.
        raise_exception: raise where a check does not pass; else return False.
        nondet_tol: by how much the same call may differ from itself.
        check_undefined_grad: whether gradients without an upstream gradient of their own are treated as if it were
            zero.
        check_grad_dtypes: shapes and dtypes before the engine makes them fit.
        check_batched_grad: several at once, under `vmap`.
        check_fwd_over_rev: forward mode over the backward pass.
        check_rev_over_rev: the backward pass over the backward pass.
        fast_mode: not needed.
        masked: as for `gradcheck`.

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
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    from .dropin import Tolerance, second_order, settle

    results = second_order(
        func, inputs, reverse=check_rev_over_rev, undefined=check_undefined_grad, dtypes=check_grad_dtypes,
        batched=check_batched_grad, forward=check_fwd_over_rev,
    )  # fmt: skip
    return settle(results, Tolerance(atol, rtol, nondet_tol), raises=raise_exception)
