"""Integrals of elementary functions, differentiable in the argument to any order.

Values are SciPy's, but Ci(-inf), which is 0. Derivatives come from `kernels/integrals.c`, which says how.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .nth import nth, nth_source
from .sources import lent, lent_outputs

FILE = "integrals.c"
LENT = {"scipy_expn": "__pyx_fuse_0expn", "scipy_dawsn": "__pyx_fuse_1dawsn"}

# -- derivatives ----------------------------------------------------------------------------------------------------

exp1_nth = nth(FILE, "exp1_nth", "exp1_derivative(x, n)", LENT)
expi_nth = nth(FILE, "expi_nth", "expi_derivative(x, n)", LENT)
spence_nth = nth(FILE, "spence_nth", "spence_derivative(x, n)", LENT)
dawsn_nth = nth(FILE, "dawsn_nth", "dawsn_derivative(x, n)", LENT)
erfi_nth = nth(FILE, "erfi_nth", "erfi_derivative(x, n)", LENT)
erfcx_nth = nth(FILE, "erfcx_nth", "erfcx_derivative(x, n)", LENT)
si_nth = nth(FILE, "si_nth", "sici_derivative(x, n, false)", LENT)
ci_nth = nth(FILE, "ci_nth", "sici_derivative(x, n, true)", LENT)
shi_nth = nth(FILE, "shi_nth", "shichi_derivative(x, n, false)", LENT)
chi_nth = nth(FILE, "chi_nth", "shichi_derivative(x, n, true)", LENT)
fresnel_s_nth = nth(FILE, "fresnel_s_nth", "fresnel_derivative(x, n, false)", LENT)
fresnel_c_nth = nth(FILE, "fresnel_c_nth", "fresnel_derivative(x, n, true)", LENT)


@tg.op(kernel=nth_source(FILE, "T expn_nth(T order, T x, int64_t n)", "expn_derivative(order, x, n)", LENT))
def expn_nth(order: Real[Tensor, "..."], x: Real[Tensor, "..."], n: int) -> Float[Tensor, "..."]:
    """The derivative of order `n` of E_order in x."""


@expn_nth.partial("x")
def _(order: Tensor, x: Tensor, n: int) -> Any:
    return expn_nth(order, x, n + 1)


INTEGER = "the order is an integer"
expn_nth.nondifferentiable("order", reason=INTEGER)

# -- functions ------------------------------------------------------------------------------------------------------


@tg.op(kernel=lent("exp1", 1, "__pyx_fuse_1exp1"))
@tg.domain(z="positive")
def exp1(z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The exponential integral E_1(z) (DLMF 6.2.1).

    Args:
        z: positive argument.

    Returns:
        In the shape of the argument; NaN outside of the domain, as in SciPy.

    Example:
        >>> exp1(torch.tensor(1.0))
        tensor(0.2194)
    """


@exp1.partial("z")
def _(z: Tensor) -> Any:
    """-exp(-z) / z (DLMF 6.2.1 differentiated; `kernels/integrals.c`)."""
    return exp1_nth(z, 1)


@tg.op(kernel=lent("expi", 1, "__pyx_fuse_1expi"))
@tg.domain(x="nonzero")
def expi(x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The exponential integral Ei(x), a principal value where x > 0 (DLMF 6.2.5, 6.2.6).

    Args:
        x: argument other than 0, where the value is -inf.

    Returns:
        In the shape of the argument.

    Example:
        >>> expi(torch.tensor(1.0))
        tensor(1.8951)
    """


@expi.partial("x")
def _(x: Tensor) -> Any:
    """exp(x) / x (DLMF 6.2.5 differentiated; `kernels/integrals.c`)."""
    return expi_nth(x, 1)


@tg.op(kernel=lent("expn", 2, "__pyx_fuse_0expn"))
@tg.domain(n={0, 1, 2, 3, 10}, x="positive")
def expn(n: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The generalised exponential integral E_n(x) (DLMF 8.19.3; derivative 8.19.13).

    Args:
        n: order, an integer that is not negative; SciPy drops what a number has behind the point.
        x: argument, not negative.

    Returns:
        In the shape to which the arguments broadcast; outside of the domain what SciPy gives, without a gradient (NaN).

    Raises:
        DerivativeError: a derivative in `n` is asked for.

    Example:
        >>> expn(2, torch.tensor(1.0))
        tensor(0.1485)
    """


@expn.partial("x")
def _(n: Tensor, x: Tensor) -> Any:
    """-E_(n-1)(x) (DLMF 8.19.13; `kernels/integrals.c`)."""
    return expn_nth(n, x, 1)


expn.nondifferentiable("n", reason=INTEGER)


@tg.op(kernel=lent_outputs("sici", 2, "__pyx_fuse_1sici", "if (x == -INFINITY) f1 = 0;"))
@tg.domain(x="nonzero")
def sici(x: Real[Tensor, "..."]) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
    """The sine and cosine integrals Si(x) and Ci(abs(x)) (DLMF 6.2.9, 6.2.13).

    Args:
        x: argument, any real number.

    Returns:
        The two, each in the shape of the argument.

    Example:
        >>> sici(torch.tensor(1.0))
        (tensor(0.9461), tensor(0.3374))
    """


@sici.partial("x")
def _(x: Tensor) -> Any:
    """sin(x) / x and cos(x) / x (DLMF 6.2.9 and 6.2.13, differentiated; `kernels/integrals.c`)."""
    return si_nth(x, 1), ci_nth(x, 1)


@tg.op(kernel=lent_outputs("shichi", 2, "__pyx_fuse_1shichi"))
@tg.domain(x="nonzero")
def shichi(x: Real[Tensor, "..."]) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
    """The hyperbolic sine and cosine integrals Shi(x) and Chi(abs(x)) (DLMF 6.2.15, 6.2.16).

    Args:
        x: argument, any real number.

    Returns:
        The two, each in the shape of the argument.

    Example:
        >>> shichi(torch.tensor(1.0))
        (tensor(1.0573), tensor(0.8379))
    """


@shichi.partial("x")
def _(x: Tensor) -> Any:
    """sinh(x) / x and cosh(x) / x (DLMF 6.2.15 and 6.2.16, differentiated; `kernels/integrals.c`)."""
    return shi_nth(x, 1), chi_nth(x, 1)


@tg.op(kernel=lent_outputs("fresnel", 2, "__pyx_fuse_1fresnel"))
@tg.domain(z="real")
def fresnel(z: Real[Tensor, "..."]) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
    """The Fresnel integrals S(z) and C(z), in this order (DLMF 7.2.8, 7.2.7).

    Args:
        z: argument, any real number.

    Returns:
        The two, each in the shape of the argument.

    Example:
        >>> fresnel(torch.tensor(1.0))
        (tensor(0.4383), tensor(0.7799))
    """


@fresnel.partial("z")
def _(z: Tensor) -> Any:
    """sin(pi z^2 / 2) and cos(pi z^2 / 2) (DLMF 7.2.8 and 7.2.7, differentiated; `kernels/integrals.c`)."""
    return fresnel_s_nth(z, 1), fresnel_c_nth(z, 1)


@tg.op(kernel=lent("spence", 1, "__pyx_fuse_1spence"))
@tg.domain(z="nonnegative")
def spence(z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Spence's function, the dilogarithm Li_2(1 - z) (DLMF 25.12.1).

    Args:
        z: argument, not negative.

    Returns:
        In the shape of the argument; NaN outside of the domain, as in SciPy.

    Example:
        >>> spence(torch.tensor(0.5))
        tensor(0.5822)
    """


@spence.partial("z")
def _(z: Tensor) -> Any:
    """log(z) / (1 - z) (DLMF 25.12.2 differentiated; `kernels/integrals.c`)."""
    return spence_nth(z, 1)


@tg.op(kernel=lent("dawsn", 1, "__pyx_fuse_1dawsn"))
@tg.domain(x="real")
def dawsn(x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Dawson's integral F(x) (DLMF 7.2.5).

    Args:
        x: argument, any real number.

    Returns:
        In the shape of the argument.

    Example:
        >>> dawsn(torch.tensor(1.0))
        tensor(0.5381)
    """


@dawsn.partial("x")
def _(x: Tensor) -> Any:
    """1 - 2 x F(x) (DLMF 7.2.5 differentiated; `kernels/integrals.c`)."""
    return dawsn_nth(x, 1)


@tg.op(kernel=lent("erfi", 1, "__pyx_fuse_1erfi"))
@tg.domain(z="real")
def erfi(z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The imaginary error function -i erf(iz) (DLMF 7.2.1).

    Args:
        z: argument, any real number.

    Returns:
        In the shape of the argument.

    Example:
        >>> erfi(torch.tensor(1.0))
        tensor(1.6504)
    """


@erfi.partial("z")
def _(z: Tensor) -> Any:
    """2 exp(z^2) / sqrt(pi) (DLMF 7.2.1 differentiated; `kernels/integrals.c`)."""
    return erfi_nth(z, 1)


@tg.op(kernel=lent("erfcx", 1, "__pyx_fuse_1erfcx"))
@tg.domain(x="real")
def erfcx(x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The scaled complementary error function exp(x^2) erfc(x) (DLMF 7.2.2).

    Args:
        x: argument, any real number.

    Returns:
        In the shape of the argument.

    Example:
        >>> erfcx(torch.tensor(1.0))
        tensor(0.4276)
    """


@erfcx.partial("x")
def _(x: Tensor) -> Any:
    """2 x erfcx(x) - 2 / sqrt(pi) (DLMF 7.2.2 differentiated; `kernels/integrals.c`)."""
    return erfcx_nth(x, 1)
