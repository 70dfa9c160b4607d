"""Roots of several equations, found by SciPy and differentiated by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.optimize
import torch
from torch import Tensor

import torchgraft as tg

from ... import _torch
from .exchange import ConvergenceError, as_array, as_tensor, eager, lent, real_start, real_values
from .implicit import Equations

FLAT = ("hybr", "lm")
"""Methods that give the function a flat x, whatever the shape of the start, and use a Jacobian."""


@eager
def root(
    fun: Callable[..., Any],
    x0: Tensor | Sequence[Any] | float,
    args: Any = (),
    method: str = "hybr",
    jac: bool | Callable[..., Any] | None = None,
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> scipy.optimize.OptimizeResult:
    """A root of several equations in as many unknowns, differentiable in every tensor that they use.

    With f(x, p) = 0, dx/dp = -(df/dx)^-1 df/dp, to any order (Krantz and Parks, The Implicit Function Theorem, 2013).
    The tensors p may be passed in `args`, closed over, or be parameters of modules; `fun` is run once more to find
    them, and again for derivatives. These are as near to those of the root as x is to the root. The Jacobian is dense.

    Args:
        fun: takes x and `args`, and returns a tensor of the shape of x, or a sequence of tensors with one element. It
            is made of torch functions and operators and has no side effects.
        x0: the start. Its dtype is that of x; numbers are double precision. The root does not depend on it.
        args: further arguments of `fun`.
        method: one of SciPy's.
        jac: for the solver: a function that returns the Jacobian, or True if `fun` returns it beside the values. Else
            SciPy takes differences; in less than double precision, and under transforms, torch's Jacobian is used.
        tol: of the solver. In less than double precision the default for ``hybr`` and ``lm`` is, as SciPy's for double,
            the square root of the precision.
        callback: takes x and the values, after each step.
        options: of the solver.

    Returns:
        What SciPy returns, with tensors for arrays; `x` has a derivative. Under `torch.vmap`, which runs the solver for
        each sample, there are only `x`, `success` and `method`.

    Raises:
        ArgumentError: `fun` returns no tensor, or `jac` none.
        ConvergenceError: no root was found, with SciPy's message.
        DerivativeError: a derivative is asked for, and the Jacobian is singular at the root, or what SciPy calls a
            success is no root, which for ``lm`` may be a least square.
        DeviceError: `x0` is not on the CPU.
        DtypeError: `x0`, or a tensor that `fun` uses, is complex.
        ShapeError: `fun` has not as many values as unknowns.
        UnsupportedError: in an exported graph.

    Example:
        >>> a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        >>> found = root(lambda x: x**2 - a, [1.0])
        >>> found.x.detach()
        tensor([1.4142], dtype=torch.float64)
        >>> torch.autograd.grad(found.x.sum(), a)
        (tensor(0.3536, dtype=torch.float64),)
    """
    start = real_start("root", "x0", x0)
    arguments = args if isinstance(args, tuple) else (args,)
    slopes = _slopes(fun, jac, arguments)
    flat, low = method.lower() in FLAT, start.dtype != torch.float64
    settings = dict(options or {})
    if tol is None and flat and low:
        settings.setdefault("xtol", torch.finfo(start.dtype).eps ** 0.5)
    found: list[scipy.optimize.OptimizeResult] = []

    def values(x: Tensor, *given: Any) -> Tensor:
        returned = fun(x, *given)
        return real_values("root", _pair(returned)[0] if jac is True else returned, x)

    def solve(begin: Tensor, function: Callable[[Tensor], Tensor]) -> tuple[Tensor, str | None]:
        jacobian = slopes or (torch.func.jacrev(function) if jac or (flat and low) else None)
        with (
            lent(lambda x: as_array(function(as_tensor(x, begin)))) as called,
            lent(jacobian and (lambda x: as_array(jacobian(as_tensor(x, begin))))) as slope,
            lent(callback and (lambda x, f: callback(as_tensor(x, begin), as_tensor(f, begin)))) as told,
        ):
            result = scipy.optimize.root(called, as_array(begin), (), method, slope, tol, told, settings)
        if not result.success:
            raise ConvergenceError(
                str(result.message), operator="root", expected="a root",
                got=f"values of {np.abs(result.fun).max(initial=0):.3g} after {result.nfev} calls of fun",
            )  # fmt: skip
        found.append(result)
        return as_tensor(result.x, begin), None

    x = Equations("root", values, start.flatten() if flat else start, arguments, solve).solved()
    if len(found) != 1:
        return scipy.optimize.OptimizeResult(x=x, success=True, method=method)
    arrays = {name: torch.from_numpy(np.array(value)) for name, value in found[0].items() if np.ndim(value) > 0}
    return scipy.optimize.OptimizeResult(found[0] | arrays | {"x": x})


def _slopes(fun: Callable[..., Any], jac: Any, args: Sequence[Any]) -> Callable[[Tensor], Tensor] | None:
    """The Jacobian that the user gave; None for none, and under transforms, where it would see what they wrap."""
    if not jac or _torch.functorch_active():
        return None

    def slopes(x: Tensor) -> Tensor:
        found = _pair(fun(x, *args))[1] if jac is True else jac(x, *args)
        if not isinstance(found, Tensor):
            raise tg.ArgumentError(
                "the Jacobian is no tensor", operator="root", argument="jac", expected="a tensor",
                got=type(found).__name__,
            )  # fmt: skip
        return found

    return slopes


def _pair(returned: Any) -> tuple[Any, Any]:
    """Values and their Jacobian, of a function that is said to return both."""
    if not isinstance(returned, (list, tuple)) or len(returned) != 2:
        raise tg.ArgumentError(
            "the function does not return its Jacobian beside its values", operator="root", argument="jac",
            expected="a pair, where jac is True", got=type(returned).__name__,
        )  # fmt: skip
    return returned[0], returned[1]
