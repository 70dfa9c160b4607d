"""The incomplete gamma functions and their inverses, differentiable in the parameter and in the argument.

Values are SciPy's, but in far tails and of large parameters, where these lose digits. Those there and derivatives in
the parameter come from `kernels/gamma.c`, which says how; derivatives and the density are operators themselves, so
that second derivatives follow where there are any.
"""

import torch
from torch import Tensor

from .docstrings import BROADCAST, LEVEL
from .sources import ours
from .table import Input, function, second_of

FILE = "gamma.c"

# -- derivatives ----------------------------------------------------------------------------------------------------

psi_of = function(
    "psi_of", ours(FILE, "digamma_of(x)"), "The digamma function for positive x (DLMF 5.2.2), also next to its zero.",
    x=None,
)  # fmt: skip

gamma_density = function(
    "gamma_density", ours(FILE, "density_of_gamma(a, x)"),
    "dP/dx = x^(a-1) exp(-x) / Gamma(a) (DLMF 8.8.13), the density of the gamma distribution.",
    a=lambda a, x: gamma_density(a, x) * (x.log() - psi_of(a)),
    x=lambda a, x: gamma_density(a, x) * ((a - 1) / x - 1),
)  # fmt: skip

gammainc_by_a = function(
    "gammainc_by_a", ours(FILE, "gammainc_da(a, x)"), "The derivative dP/da of P(a, x).",
    a=second_of("gammainc"),
    x=lambda a, x: gamma_density(a, x) * (x.log() - psi_of(a)),
)  # fmt: skip

gammainc_slope = function(
    "gammainc_slope", ours(FILE, "gammainc_da_over_density(a, x)"), "(dP/da) / (dP/dx), which underflows nowhere.",
    a=second_of("gammaincinv"),
    x=lambda a, x: slope_by_x(a, x),
)  # fmt: skip


def slope_by_x(a: Tensor, x: Tensor) -> Tensor:
    """Return the derivative of (dP/da) / (dP/dx) in x; 0 where x has become 0.

    There it is infinite, and only multiplied by a dx/dp that has become 0 too, which makes 0 of both.
    """
    zero = x == 0
    x = torch.where(zero, 1, x)
    return torch.where(zero, 0, x.log() - psi_of(a) - gammainc_slope(a, x) * ((a - 1) / x - 1))


def over_x(out: Tensor, x: Tensor, at_zero: Tensor) -> Tensor:
    """Return dx/dp over x, whose limit is 1 / (a p) where x has become 0 (DLMF 8.7.1)."""
    zero = x == 0
    return torch.where(zero, at_zero, out / torch.where(zero, 1, x))


# As functions of a and x alone, which they are where p = P(a, x), these do not depend on p.
gammaincinv_by_p = function(
    "gammaincinv_by_p", ours(FILE, "gammaincinv_dp(a, x, p, 1 - (double)p)"),
    "dx/dp where p = P(a, x): 1 / density, without the error of x, which the density multiplies by |a - 1 - x|.",
    a=lambda a, x, out: out * psi_of(a) - torch.xlogy(out, x),
    x=lambda a, x, p, out: out - (a - 1) * over_x(out, x, 1 / (a * p)),
    p=lambda p: p.new_zeros(()),
)  # fmt: skip

gammainccinv_by_q = function(
    "gammainccinv_by_q", ours(FILE, "-gammaincinv_dp(a, x, 1 - (double)q, q)"), "dx/dq where q = Q(a, x).",
    a=lambda a, x, out: out * psi_of(a) - torch.xlogy(out, x),
    x=lambda a, x, q, out: out - (a - 1) * over_x(out, x, 1 / (a * (q - 1))),
    q=lambda q: q.new_zeros(()),
)  # fmt: skip

# -- functions ------------------------------------------------------------------------------------------------------

SECOND = "a second derivative in `a`"

gammainc = function(
    "gammainc", ours(FILE, "gammainc_value(a, x, SCIPY(gammainc))"),
    "The regularised lower incomplete gamma function P(a, x) (DLMF 8.2.4).",
    a=Input(
        "positive parameter.", "positive", lambda a, x: gammainc_by_a(a, x),
        "dP/da (DLMF 8.2.4 and 8.7.1, differentiated in a; `kernels/gamma.c`).",
    ),
    x=Input(
        "argument, not negative.", "nonnegative", lambda a, x: gamma_density(a, x),
        "dP/dx, the density (DLMF 8.8.13; `kernels/gamma.c`).",
    ),
    returns=f"{LEVEL} Where x < 0.6 a and a > 100, or a > 3e4, by quadrature if SciPy's has lost digits; where "
    "a < 1e-6 and x < 1.1, by series.",
    raises=SECOND, cuda_by_c=ours(FILE, "gammainc_alone(a, x)"),
    example=("gammainc(torch.tensor(2.5), torch.tensor(1.3))", "tensor(0.2386)"),
)  # fmt: skip

gammaincc = function(
    "gammaincc", ours(FILE, "gammaincc_value(a, x, SCIPY(gammaincc))"),
    "The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x) (DLMF 8.2.4).",
    a=Input(
        "positive parameter.", "positive", lambda a, x: -gammainc_by_a(a, x),
        "dQ/da = -dP/da (DLMF 8.2.5 and 8.7.1, differentiated in a; `kernels/gamma.c`).",
    ),
    x=Input(
        "argument, not negative.", "nonnegative", lambda a, x: -gamma_density(a, x),
        "dQ/dx = -dP/dx (DLMF 8.8.13; `kernels/gamma.c`).",
    ),
    returns=f"{LEVEL} Where x > 1.4 a and x > 100, or a > 3e4, by quadrature if SciPy's has lost digits.",
    raises=SECOND, cuda_by_c=ours(FILE, "gammaincc_alone(a, x)"),
    example=("gammaincc(torch.tensor(2.5), torch.tensor(1.3))", "tensor(0.7614)"),
)  # fmt: skip

gammaincinv = function(
    "gammaincinv", ours(FILE, "gammaincinv_value(a, y, 1 - (double)y, SCIPY(gammaincinv))"),
    "The x for which P(a, x) is y; derivatives by the implicit function theorem.",
    a=Input(
        "positive parameter.", "positive", lambda a, out: -gammainc_slope(a, out),
        "-(dP/da) / (dP/dx), by the implicit function theorem (`kernels/gamma.c`).",
    ),
    y=Input(
        "between 0 and 1.", "(0, 1)", lambda a, y, out: gammaincinv_by_p(a, out, y),
        "1 / (dP/dx), by the implicit function theorem (`kernels/gamma.c`).",
    ),
    returns=f"{BROADCAST} Where a > 3e4, by Newton's method if SciPy's has lost digits.", raises=SECOND,
    example=("gammaincinv(torch.tensor(2.5), torch.tensor(0.5))", "tensor(2.1757)"),
)  # fmt: skip

gammainccinv = function(
    "gammainccinv", ours(FILE, "gammaincinv_value(a, 1 - (double)y, y, SCIPY(gammainccinv))"),
    "The x for which Q(a, x) is y; derivatives by the implicit function theorem.",
    a=Input(
        "positive parameter.", "positive", lambda a, out: -gammainc_slope(a, out),
        "-(dQ/da) / (dQ/dx), by the implicit function theorem (`kernels/gamma.c`).",
    ),
    y=Input(
        "between 0 and 1.", "(0, 1)", lambda a, y, out: gammainccinv_by_q(a, out, y),
        "1 / (dQ/dx), by the implicit function theorem (`kernels/gamma.c`).",
    ),
    returns=f"{BROADCAST} Where a > 3e4, by Newton's method if SciPy's has lost digits.", raises=SECOND,
    example=("gammainccinv(torch.tensor(2.5), torch.tensor(0.5))", "tensor(2.1757)"),
)  # fmt: skip
