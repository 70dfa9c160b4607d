"""The root of one equation, found by SciPy and differentiated by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
import torch
from torch import Tensor

import torchgraft as tg

from .exchange import ConvergenceError, as_tensor, eager, lent, real_start, real_values
from .implicit import Equations

XTOL, RTOL, MAXITER = 2e-12, 4 * float(np.finfo(float).eps), 100  # SciPy's


@eager
def brentq(
    f: Callable[..., Any],
    a: float | Tensor,
    b: float | Tensor,
    args: Any = (),
    xtol: float = XTOL,
    rtol: float = RTOL,
    maxiter: int = MAXITER,
    full_output: bool = False,
    disp: bool = True,
) -> Tensor | tuple[Tensor, Any]:
    """The root of one equation in an interval, by Brent's method, differentiable in every tensor that it uses.

    With f(x, p) = 0, dx/dp = -(df/dp) / (df/dx), to any order, as for `root`. The ends of the interval have no part in
    it.

    Args:
        f: takes x, a tensor without axes, and `args`, and returns a tensor with one element.
        a: one end of the interval.
        b: the other end, where f has the other sign. The dtype of x is that of the tensors among `a` and `b`, else
            double precision.
        args: further arguments of `f`.
        xtol: absolute tolerance.
        rtol: relative tolerance.
        maxiter: most iterations.
        full_output: whether to return SciPy's `RootResults` beside the root.
        disp: whether it raises where it does not converge; else what it returns has no derivative, and says so.

    Returns:
        A tensor without axes.

    Raises:
        ArgumentError: `f` returns no tensor.
        ConvergenceError: there was no convergence, with SciPy's message.
        DerivativeError: a derivative is asked for, and df/dx is zero at the root, there was no convergence, or f
            jumps where it changes sign.
        DeviceError: an end is not on the CPU.
        DtypeError: an end, or a tensor that `f` uses, is complex.
        ShapeError: `f` has several values, or an end has.
        UnsupportedError: under `torch.vmap`, if `full_output` or where it maps an end; in an exported graph.
        ValueError: f(a) and f(b) have the same sign, or a value is NaN.

    Example:
        >>> a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        >>> x = brentq(lambda x: x**2 - a, 0, 2)
        >>> x.detach()
        tensor(1.4142, dtype=torch.float64)
        >>> torch.autograd.grad(x, a)
        (tensor(0.3536, dtype=torch.float64),)
    """
    ends, start = _interval(a, b)
    found: list[Any] = []

    def values(x: Tensor, *given: Any) -> Tensor:
        return real_values("brentq", f(x, *given), x)

    def solve(begin: Tensor, function: Callable[[Tensor], Tensor]) -> tuple[Tensor, str | None]:
        with lent(lambda x: function(as_tensor(x, begin)).item()) as value:
            x, result = scipy.optimize.brentq(value, *ends, (), xtol, rtol, maxiter, full_output=True, disp=False)
        failure = None if result.converged else f"Failed to converge after {result.iterations} iterations."
        if failure is not None and disp:
            raise ConvergenceError(failure, operator="brentq", expected="a root", got=f"{x} so far")
        found.append(result)
        return as_tensor(x, begin), failure

    x = Equations("brentq", values, start, args if isinstance(args, tuple) else (args,), solve).solved()
    if not full_output:
        return x
    if len(found) != 1:
        raise tg.UnsupportedError(
            "there are several results under vmap", operator="brentq", argument="full_output", expected=False, got=True
        )
    found[0].root = x
    return x, found[0]


def _interval(a: float | Tensor, b: float | Tensor) -> tuple[list[float], Tensor]:
    """The ends as numbers, and the first one as a tensor of the dtype of the root."""
    ends = [real_start("brentq", name, end).detach() for name, end in (("a", a), ("b", b))]
    for name, end in zip("ab", ends, strict=True):
        if end.numel() != 1:
            raise tg.ShapeError(
                "is no number", operator="brentq", argument=name, expected="one element", got=tuple(end.shape)
            )
    dtypes = [end.dtype for end, given in zip(ends, (a, b), strict=True) if isinstance(given, Tensor)]
    widest = max(dtypes, key=lambda dtype: dtype.itemsize, default=torch.float64)
    try:
        numbers = [end.double().item() for end in ends]
    except RuntimeError as error:
        raise tg.UnsupportedError(
            "an end that torch.vmap maps is no number", operator="brentq", argument="a or b",
            expected="the same interval for all samples", hint="take one that has all roots in it",
        ) from error  # fmt: skip
    return numbers, torch.tensor(numbers[0], dtype=widest)
