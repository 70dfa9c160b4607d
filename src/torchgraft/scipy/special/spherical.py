"""Spherical Bessel functions, differentiable in the argument to the third order.

Values are SciPy's where it has them. Derivatives come from `kernels/spherical.c`, which says how.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from ..._build.source import Source, c
from .nth import nth_source, refuse_order
from .sources import kernel_text

FILE = "spherical.c"
INTEGER = "the order is an integer"

# -- derivatives ----------------------------------------------------------------------------------------------------


def _derivatives(kind: str) -> tg.Op[..., Any]:
    """An operator of n, z and d: the derivative of order `d` of a function in `FILE`, j, y, i or k."""
    name = f"spherical_{kind}n"

    def derivative(n: Real[Tensor, "..."], z: Real[Tensor, "..."], d: int) -> Float[Tensor, "..."]: ...

    kernel = nth_source(FILE, f"T {name}_nth(T n, T z, int64_t d)", f"spherical_{kind}(n, z, d)")
    nth = tg.op(name=f"{name}_nth", kernel=kernel)(derivative)

    @nth.partial("z")
    def _(n: Tensor, z: Tensor, d: int) -> Any:
        return nth(n, z, d + 1) if d < 3 else refuse_order(name, "z", 3)

    nth.nondifferentiable("n", reason=INTEGER)
    return nth


def _value(kind: str, where: str) -> Source:
    """SciPy's function and derivative, of negative arguments as well by parity; ours where it has 0 or nothing finite.

    Args:
        kind: j, y, i or k.
        where: SciPy's is to be used, in C.
    """
    name = f"spherical_{kind}n"
    options = f"struct __pyx_fuse_1__pyx_opt_args_5scipy_7special_14cython_special_{name}"
    sign = "-" if kind == "y" else ""
    return c(
        f"""{kernel_text(FILE)}
{options} {{ int count, derivative; }};
typedef ptrdiff_t Py_ssize_t;
TG_IMPORT(double, scipy_{name}, (Py_ssize_t, double, int, {options} *))
T {name}(T n, T z, bool derivative) {{
    double f = 0;
    if (n >= 0 && n <= MANY && z != 0 && ({where})) {{
        {options} options = {{1, derivative}};
        f = scipy_{name}((Py_ssize_t)n, fabs(z), 0, &options);
        if (z < 0) f *= {sign}sign_of(trunc(n)) * sign_of(derivative);
        if (derivative && fabs(f) < 1e-290) f = 0; /* it is a difference, of which few digits are left */
    }}
    return (T)(f == 0 || !isfinite(f) ? spherical_{kind}(n, z, derivative) : f);
}}""",
        flags=["-ffp-contract=off"],
        imports={f"scipy_{name}": f"scipy.special.cython_special:__pyx_fuse_1{name}"},
    )


BEYOND_SERIES = "!derivative || !few_terms(n, z)"  # within, SciPy's derivatives lose their digits

spherical_jn_nth = _derivatives("j")
spherical_yn_nth = _derivatives("y")
spherical_in_nth = _derivatives("i")
spherical_kn_nth = _derivatives("k")

# -- functions ------------------------------------------------------------------------------------------------------


@tg.op(kernel=_value("j", BEYOND_SERIES))
@tg.domain(n={0, 1, 2, 7}, z="positive")
def spherical_jn(n: Real[Tensor, "..."], z: Real[Tensor, "..."], derivative: bool = False) -> Float[Tensor, "..."]:
    """The spherical Bessel function of the first kind j_n(z) (DLMF 10.47.3; derivative 10.51.2).

    Args:
        n: order, an integer that is not negative; SciPy drops what a number has behind the point.
        z: any real number.
        derivative: whether to give the derivative instead, which is differentiable as well.

    Returns:
        In the shape to which the arguments broadcast; NaN where `n` is negative, as in SciPy.

    Raises:
        DerivativeError: a derivative in `n`, or one of an order above three in `z`, is asked for.

    Example:
        >>> spherical_jn(2, torch.tensor(2.0))
        tensor(0.1984)
    """


@spherical_jn.partial("z")
def _(n: Tensor, z: Tensor, derivative: bool) -> Any:
    """dj/dz (DLMF 10.51.2; 10.53.1 for small z, differentiated; `kernels/spherical.c`)."""
    return spherical_jn_nth(n, z, 1 + derivative)


spherical_jn.nondifferentiable("n", reason=INTEGER)


@tg.op(kernel=_value("y", "true"))
@tg.domain(n={0, 1, 2, 7}, z="positive")
def spherical_yn(n: Real[Tensor, "..."], z: Real[Tensor, "..."], derivative: bool = False) -> Float[Tensor, "..."]:
    """The spherical Bessel function of the second kind y_n(z) (DLMF 10.47.4; derivative 10.51.2).

    Args:
        n: order, an integer that is not negative; SciPy drops what a number has behind the point.
        z: any real number; at 0 the function is taken from the right.
        derivative: whether to give the derivative instead, which is differentiable as well.

    Returns:
        In the shape to which the arguments broadcast; NaN where `n` is negative, as in SciPy.

    Raises:
        DerivativeError: a derivative in `n`, or one of an order above three in `z`, is asked for.

    Example:
        >>> spherical_yn(2, torch.tensor(2.0))
        tensor(-0.7340)
    """


@spherical_yn.partial("z")
def _(n: Tensor, z: Tensor, derivative: bool) -> Any:
    """dy/dz (DLMF 10.51.2; `kernels/spherical.c`)."""
    return spherical_yn_nth(n, z, 1 + derivative)


spherical_yn.nondifferentiable("n", reason=INTEGER)


@tg.op(kernel=_value("i", BEYOND_SERIES))
@tg.domain(n={0, 1, 2, 7}, z="positive")
def spherical_in(n: Real[Tensor, "..."], z: Real[Tensor, "..."], derivative: bool = False) -> Float[Tensor, "..."]:
    """The modified spherical Bessel function of the first kind i_n(z) (DLMF 10.47.7; derivative 10.51.5).

    Args:
        n: order, an integer that is not negative; SciPy drops what a number has behind the point.
        z: any real number.
        derivative: whether to give the derivative instead, which is differentiable as well.

    Returns:
        In the shape to which the arguments broadcast; NaN where `n` is negative, as in SciPy.

    Raises:
        DerivativeError: a derivative in `n`, or one of an order above three in `z`, is asked for.

    Example:
        >>> spherical_in(2, torch.tensor(2.0))
        tensor(0.3519)
    """


@spherical_in.partial("z")
def _(n: Tensor, z: Tensor, derivative: bool) -> Any:
    """di/dz (DLMF 10.51.5; 10.53.3 for small z, differentiated; `kernels/spherical.c`)."""
    return spherical_in_nth(n, z, 1 + derivative)


spherical_in.nondifferentiable("n", reason=INTEGER)


@tg.op(kernel=_value("k", "!derivative && z > 0"))
@tg.domain(n={0, 1, 2, 7}, z="positive")
def spherical_kn(n: Real[Tensor, "..."], z: Real[Tensor, "..."], derivative: bool = False) -> Float[Tensor, "..."]:
    """The modified spherical Bessel function of the second kind k_n(z) (DLMF 10.47.9; derivative 10.51.5).

    Args:
        n: order, an integer that is not negative; SciPy drops what a number has behind the point.
        z: any real number; at 0 the function is taken from the right.
        derivative: whether to give the derivative instead, which is differentiable as well.

    Returns:
        In the shape to which the arguments broadcast; NaN where `n` is negative, as in SciPy.

    Raises:
        DerivativeError: a derivative in `n`, or one of an order above three in `z`, is asked for.

    Example:
        >>> spherical_kn(2, torch.tensor(2.0))
        tensor(0.3454)
    """


@spherical_kn.partial("z")
def _(n: Tensor, z: Tensor, derivative: bool) -> Any:
    """dk/dz (DLMF 10.51.5; `kernels/spherical.c`)."""
    return spherical_kn_nth(n, z, 1 + derivative)


spherical_kn.nondifferentiable("n", reason=INTEGER)
