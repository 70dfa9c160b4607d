"""Hypergeometric functions 0F1, 1F1 and 2F1, differentiable in the argument to any order.

Values are SciPy's where they are right, and ours elsewhere. These and derivatives come from `kernels/hyper.c`, which
says how.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .nth import nth_source

FILE = "hyper.c"
LENT = {
    "scipy_hyp0f1": "__pyx_fuse_1hyp0f1",
    "scipy_hyp1f1": "__pyx_fuse_1hyp1f1",
    "scipy_hyp2f1": "__pyx_fuse_1hyp2f1",
}
REASON = "the derivative in a parameter of a hypergeometric function is a series of its own, which is not there"

# -- derivatives ----------------------------------------------------------------------------------------------------


@tg.op(kernel=nth_source(FILE, "T hyp0f1_nth(T v, T z, int64_t n)", "hyp0f1_derivative(v, z, n)", LENT))
def hyp0f1_nth(v: Real[Tensor, "..."], z: Real[Tensor, "..."], n: int) -> Float[Tensor, "..."]:
    """The derivative of order `n` in z."""


@hyp0f1_nth.partial("z")
def _(v: Tensor, z: Tensor, n: int) -> Any:
    return hyp0f1_nth(v, z, n + 1)


@tg.op(kernel=nth_source(FILE, "T hyp1f1_nth(T a, T b, T x, int64_t n)", "hyp1f1_derivative(a, b, x, n)", LENT))
def hyp1f1_nth(a: Real[Tensor, "..."], b: Real[Tensor, "..."], x: Real[Tensor, "..."], n: int) -> Float[Tensor, "..."]:
    """The derivative of order `n` in x."""


@hyp1f1_nth.partial("x")
def _(a: Tensor, b: Tensor, x: Tensor, n: int) -> Any:
    return hyp1f1_nth(a, b, x, n + 1)


@tg.op(kernel=nth_source(FILE, "T hyp2f1_nth(T a, T b, T c, T z, int64_t n)", "hyp2f1_derivative(a, b, c, z, n)", LENT))
def hyp2f1_nth(
    a: Real[Tensor, "..."], b: Real[Tensor, "..."], c: Real[Tensor, "..."], z: Real[Tensor, "..."], n: int
) -> Float[Tensor, "..."]:
    """The derivative of order `n` in z."""


@hyp2f1_nth.partial("z")
def _(a: Tensor, b: Tensor, c: Tensor, z: Tensor, n: int) -> Any:
    return hyp2f1_nth(a, b, c, z, n + 1)


hyp0f1_nth.nondifferentiable("v", reason=REASON)
hyp1f1_nth.nondifferentiable("a", "b", reason=REASON)
hyp2f1_nth.nondifferentiable("a", "b", "c", reason=REASON)

# -- functions ------------------------------------------------------------------------------------------------------


@tg.op(kernel=nth_source(FILE, "T hyp0f1(T v, T z)", "hyp0f1_value(v, z)", LENT))
@tg.domain(v="positive", z="real")
def hyp0f1(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The confluent hypergeometric limit function 0F1(; v; z) (DLMF 16.2.1; derivative 16.3.1).

    Values are SciPy's, and ours where it has nothing finite, or may have nothing right: abs(z) > 1e4, abs(v) > 1000,
    z < 0 and v > 150, v < -165 or abs(v - 1) log(-z) > 1300, and v < 0 next to an integer. They are NaN where neither
    is right, as may be for v < -300 and z < -2e5, and for z < -1e39, where nobody knows the phase.

    Args:
        v: parameter, any real number but 0, -1, -2, ...
        z: argument, any real number.

    Returns:
        In the shape to which the arguments broadcast.

    Raises:
        DerivativeError: a derivative in `v` is asked for.

    Example:
        >>> hyp0f1(2.5, torch.tensor(1.0))
        tensor(1.4616)
    """


@hyp0f1.partial("z")
def _(v: Tensor, z: Tensor) -> Any:
    """0F1(; v + 1; z) / v (DLMF 16.3.1; `kernels/hyper.c`)."""
    return hyp0f1_nth(v, z, 1)


@tg.op(kernel=nth_source(FILE, "T hyp1f1(T a, T b, T x)", "hyp1f1_derivative(a, b, x, 0)", LENT))
@tg.domain(a="real", b="positive", x="real")
def hyp1f1(a: Real[Tensor, "..."], b: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Kummer's confluent hypergeometric function 1F1(a; b; x) (DLMF 13.2.2; derivative 13.3.16).

    Values are SciPy's, and ours where these are wrong or may be: for -3 < x < 0 unless a < b, for b < 0 unless both
    parameters are of moderate size, and where a, b or b - a is next to an integer. They are NaN where that would take
    too long, as may be for ``|x|`` > 1000 there. SciPy's, which does not return at many points with parameters or
    arguments above 1e4 or below 1e-250, is not called with these.

    Args:
        a: parameter, any real number.
        b: parameter, any real number but 0, -1, -2, ...
        x: argument, any real number.

    Returns:
        In the shape to which the arguments broadcast.

    Raises:
        DerivativeError: a derivative in `a` or `b` is asked for.

    Example:
        >>> hyp1f1(0.5, 2.5, torch.tensor(1.0))
        tensor(1.2523)
    """


@hyp1f1.partial("x")
def _(a: Tensor, b: Tensor, x: Tensor) -> Any:
    """(a / b) 1F1(a + 1; b + 1; x) (DLMF 13.3.15; `kernels/hyper.c`)."""
    return hyp1f1_nth(a, b, x, 1)


@tg.op(kernel=nth_source(FILE, "T hyp2f1(T a, T b, T c, T z)", "hyp2f1_value(a, b, c, z)", LENT))
@tg.domain(a="positive", b="positive", c="positive", z="(-2, 0.5)")
def hyp2f1(
    a: Real[Tensor, "..."], b: Real[Tensor, "..."], c: Real[Tensor, "..."], z: Real[Tensor, "..."]
) -> Float[Tensor, "..."]:
    """Gauss' hypergeometric function 2F1(a, b; c; z) (DLMF 15.2.1; derivative 15.5.1).

    Values are SciPy's for a and b from -6 to 6, c > 0.1 and z from -2 to 0.9, unless one of them is next to an integer
    or to 0. Elsewhere SciPy's has few right digits or none at many points, and values are ours, which take some 20
    microseconds, and up to milliseconds where large terms cancel. Values and derivatives are NaN where that would take
    too long, as may be with parameters above 1000.

    Args:
        a: parameter, any real number.
        b: parameter, any real number.
        c: parameter, any real number but 0, -1, -2, ...
        z: argument, below 1.

    Returns:
        In the shape to which the arguments broadcast; outside of the domain what SciPy gives.

    Raises:
        DerivativeError: a derivative in `a`, `b` or `c` is asked for.

    Example:
        >>> hyp2f1(0.5, 1.5, 2.5, torch.tensor(0.5))
        tensor(1.2108)
    """


@hyp2f1.partial("z")
def _(a: Tensor, b: Tensor, c: Tensor, z: Tensor) -> Any:
    """(a b / c) 2F1(a + 1, b + 1; c + 1; z) (DLMF 15.5.1; `kernels/hyper.c`)."""
    return hyp2f1_nth(a, b, c, z, 1)


hyp0f1.nondifferentiable("v", reason=REASON)
hyp1f1.nondifferentiable("a", "b", reason=REASON)
hyp2f1.nondifferentiable("a", "b", "c", reason=REASON)
