"""The incomplete gamma functions and their inverses, differentiable in the parameter and in the argument.

Values are SciPy's, but in far tails of large parameters and arguments, where these lose digits. Those there and
derivatives in the parameter come from `kernels/gamma.c`, which says how; derivatives and the density are operators
themselves, so that second derivatives follow where there are any.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .refusals import no_second_derivative
from .sources import lent, mended, ours

FILE = "gamma.c"

# -- derivatives ----------------------------------------------------------------------------------------------------


@tg.op(kernel=ours(FILE, "psi_of", "digamma_of(x)", "x"))
def psi_of(x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The digamma function for positive x (DLMF 5.2.2), also next to its zero."""


@tg.op(kernel=ours(FILE, "gamma_density", "density_of_gamma(a, x)", "a x"))
def gamma_density(a: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """dP/dx = x^(a-1) exp(-x) / Gamma(a) (DLMF 8.8.13), the density of the gamma distribution."""


@gamma_density.partial("a")
def _(a: Tensor, x: Tensor) -> Any:
    return gamma_density(a, x) * (x.log() - psi_of(a))


@gamma_density.partial("x")
def _(a: Tensor, x: Tensor) -> Any:
    return gamma_density(a, x) * ((a - 1) / x - 1)


@tg.op(kernel=ours(FILE, "gammainc_by_a", "gammainc_da(a, x)", "a x"))
def gammainc_by_a(a: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The derivative dP/da of P(a, x)."""


@gammainc_by_a.partial("x")
def _(a: Tensor, x: Tensor) -> Any:
    return gamma_density(a, x) * (x.log() - psi_of(a))


@tg.op(kernel=ours(FILE, "gammainc_slope", "gammainc_da_over_density(a, x)", "a x"))
def gammainc_slope(a: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """(dP/da) / (dP/dx), which underflows nowhere."""


@gammainc_slope.partial("x")
def _(a: Tensor, x: Tensor) -> Any:
    return x.log() - psi_of(a) - gammainc_slope(a, x) * ((a - 1) / x - 1)


@tg.op(kernel=ours(FILE, "gammaincinv_by_p", "gammaincinv_dp(a, x, p, 1 - (double)p)", "a x p"))
def gammaincinv_by_p(a: Real[Tensor, "..."], x: Real[Tensor, "..."], p: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """dx/dp where p = P(a, x): 1 / density, without the error of x, which the density multiplies by |a - 1 - x|."""


@tg.op(kernel=ours(FILE, "gammainccinv_by_q", "-gammaincinv_dp(a, x, 1 - (double)q, q)", "a x q"))
def gammainccinv_by_q(a: Real[Tensor, "..."], x: Real[Tensor, "..."], q: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """dx/dq where q = Q(a, x)."""


@gammaincinv_by_p.partial("x")
def _(a: Tensor, x: Tensor, out: Tensor) -> Any:
    return out * (1 - (a - 1) / x)


@gammainccinv_by_q.partial("x")
def _(a: Tensor, x: Tensor, out: Tensor) -> Any:
    return out * (1 - (a - 1) / x)


# As functions of a and x alone, which they are where p = P(a, x), they do not depend on p.
gammaincinv_by_p.partial("p")(lambda p: p.new_zeros(()))
gammainccinv_by_q.partial("q")(lambda q: q.new_zeros(()))


@gammaincinv_by_p.partial("a")
def _(a: Tensor, x: Tensor, out: Tensor) -> Any:
    return out * (psi_of(a) - x.log())


@gammainccinv_by_q.partial("a")
def _(a: Tensor, x: Tensor, out: Tensor) -> Any:
    return out * (psi_of(a) - x.log())


no_second_derivative(gammainc_by_a, "gammainc", "a")
no_second_derivative(gammainc_slope, "gammaincinv", "a")

# -- functions ------------------------------------------------------------------------------------------------------


@tg.op(kernel=mended(FILE, "gammainc", "gammainc_value(a, x, SCIPYS)", "a x"))
@tg.domain(a="positive", x="nonnegative")
def gammainc(a: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The regularised lower incomplete gamma function P(a, x) (DLMF 8.2.4).

    Args:
        a: positive parameter.
        x: argument, not negative.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where x < 0.6 a and a > 100, by quadrature if SciPy's has lost digits; where a < 1e-6 and x < 1.1, by series.

    Raises:
        DerivativeError: a second derivative in `a` is asked for.

    Example:
        >>> gammainc(torch.tensor(2.5), torch.tensor(1.3))
        tensor(0.2386)
    """


@gammainc.partial("a")
def _(a: Tensor, x: Tensor) -> Any:
    """dP/da (DLMF 8.2.4 and 8.7.1, differentiated in a; `kernels/gamma.c`)."""
    return gammainc_by_a(a, x)


@gammainc.partial("x")
def _(a: Tensor, x: Tensor) -> Any:
    """dP/dx, the density (DLMF 8.8.13; `kernels/gamma.c`)."""
    return gamma_density(a, x)


@tg.op(kernel=mended(FILE, "gammaincc", "gammaincc_value(a, x, SCIPYS)", "a x"))
@tg.domain(a="positive", x="nonnegative")
def gammaincc(a: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x) (DLMF 8.2.4).

    Args:
        a: positive parameter.
        x: argument, not negative.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where x > 1.4 a and x > 100, by quadrature if SciPy's has lost digits.

    Raises:
        DerivativeError: a second derivative in `a` is asked for.

    Example:
        >>> gammaincc(torch.tensor(2.5), torch.tensor(1.3))
        tensor(0.7614)
    """


@gammaincc.partial("a")
def _(a: Tensor, x: Tensor) -> Any:
    """dQ/da = -dP/da (DLMF 8.2.5 and 8.7.1, differentiated in a; `kernels/gamma.c`)."""
    return -gammainc_by_a(a, x)


@gammaincc.partial("x")
def _(a: Tensor, x: Tensor) -> Any:
    """dQ/dx = -dP/dx (DLMF 8.8.13; `kernels/gamma.c`)."""
    return -gamma_density(a, x)


@tg.op(kernel=lent("gammaincinv", 2))
@tg.domain(a="positive", y="(0, 1)")
def gammaincinv(a: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The x for which P(a, x) is y; derivatives by the implicit function theorem.

    Args:
        a: positive parameter.
        y: between 0 and 1.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a second derivative in `a` is asked for.

    Example:
        >>> gammaincinv(torch.tensor(2.5), torch.tensor(0.5))
        tensor(2.1757)
    """


@gammaincinv.partial("a")
def _(a: Tensor, out: Tensor) -> Any:
    """-(dP/da) / (dP/dx), by the implicit function theorem (`kernels/gamma.c`)."""
    return -gammainc_slope(a, out)


@gammaincinv.partial("y")
def _(a: Tensor, y: Tensor, out: Tensor) -> Any:
    """1 / (dP/dx), by the implicit function theorem (`kernels/gamma.c`)."""
    return gammaincinv_by_p(a, out, y)


@tg.op(kernel=lent("gammainccinv", 2))
@tg.domain(a="positive", y="(0, 1)")
def gammainccinv(a: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The x for which Q(a, x) is y; derivatives by the implicit function theorem.

    Args:
        a: positive parameter.
        y: between 0 and 1.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a second derivative in `a` is asked for.

    Example:
        >>> gammainccinv(torch.tensor(2.5), torch.tensor(0.5))
        tensor(2.1757)
    """


@gammainccinv.partial("a")
def _(a: Tensor, out: Tensor) -> Any:
    """-(dQ/da) / (dQ/dx), by the implicit function theorem (`kernels/gamma.c`)."""
    return -gammainc_slope(a, out)


@gammainccinv.partial("y")
def _(a: Tensor, y: Tensor, out: Tensor) -> Any:
    """1 / (dQ/dx), by the implicit function theorem (`kernels/gamma.c`)."""
    return gammainccinv_by_q(a, out, y)
