"""Integrals of elementary functions, differentiable in the argument to any order.

Values are SciPy's, but Ci(-inf), which is 0; expi, shichi and erfi where SciPy's are infinite too early; fresnel beyond
36, where its phase loses digits; spence(inf) and expn of orders that are no int. Those come from `kernels/integrals.h`,
derivatives from `kernels/integrals.c`, which say how.
"""

import torch

from .docstrings import NAN, SHAPE
from .sources import lent, ours, whole
from .table import Input, Refused, function, nth

FILE, VALUES = "integrals.c", "integrals.h"

# -- derivatives ----------------------------------------------------------------------------------------------------

exp1_nth = nth("exp1", ours(FILE, "exp1_derivative(x, n)"))
expi_nth = nth("expi", ours(FILE, "expi_derivative(x, n)"))
spence_nth = nth("spence", ours(FILE, "spence_derivative(x, n)"))
dawsn_nth = nth("dawsn", ours(FILE, "dawsn_derivative(x, n)"))
erfi_nth = nth("erfi", ours(FILE, "erfi_derivative(x, n)"))
erfcx_nth = nth("erfcx", ours(FILE, "erfcx_derivative(x, n)"))
si_nth = nth("si", ours(FILE, "sici_derivative(x, n, false)"))
ci_nth = nth("ci", ours(FILE, "sici_derivative(x, n, true)"))
shi_nth = nth("shi", ours(FILE, "shichi_derivative(x, n, false)"))
chi_nth = nth("chi", ours(FILE, "shichi_derivative(x, n, true)"))
fresnel_s_nth = nth("fresnel_s", ours(FILE, "fresnel_derivative(x, n, false)"))
fresnel_c_nth = nth("fresnel_c", ours(FILE, "fresnel_derivative(x, n, true)"))

INTEGER = Refused("the order is an integer")

expn_nth = function(
    "expn_nth", ours(FILE, "expn_derivative(order, x, n)"), "The derivative of order `n` of E_order in x.",
    order=INTEGER, x=lambda order, x, n: expn_nth(order, x, n + 1), n=int,
)  # fmt: skip

# -- functions ------------------------------------------------------------------------------------------------------

ARGUMENT = "In the shape of the argument."
TWO = "The two, each in the shape of the argument."

exp1 = function(
    "exp1", lent("exp1"), "The exponential integral E_1(z) (DLMF 6.2.1).",
    z=Input(
        "positive argument.", "positive", lambda z: exp1_nth(z, 1),
        "-exp(-z) / z (DLMF 6.2.1 differentiated; `kernels/integrals.c`).",
    ),
    cuda_by_c=ours(VALUES, "exp1_value(z)"),
    returns=f"In the shape of the argument; {NAN}", example=("exp1(torch.tensor(1.0))", "tensor(0.2194)"),
)  # fmt: skip

expi = function(
    "expi", ours(VALUES, "double f = SCIPY(expi); return (T)(x > 0 && isinf(f) ? expi_value(x) : f);")
   , "The exponential integral Ei(x), a principal value where x > 0 (DLMF 6.2.5, 6.2.6).",
    x=Input(
        "argument other than 0, where the value is -inf.", "nonzero", lambda x: expi_nth(x, 1),
        "exp(x) / x (DLMF 6.2.5 differentiated; `kernels/integrals.c`).",
    ),
    cuda_by_c=ours(VALUES, "expi_value(x)"),
    returns=ARGUMENT, example=("expi(torch.tensor(1.0))", "tensor(1.8951)"),
)  # fmt: skip

expn = function(
    "expn", ours(VALUES, "n > 2e9 ? expn_value(n, x) : SCIPY(expn)")
   , "The generalised exponential integral E_n(x) (DLMF 8.19.3; derivative 8.19.13).",
    n=Input(
        "order, an integer that is not negative; SciPy drops what a number has behind the point.", {0, 1, 2, 3, 10},
        INTEGER,
    ),
    x=Input(
        "argument, not negative.", "positive", lambda n, x: expn_nth(n, x, 1),
        "-E_(n-1)(x) (DLMF 8.19.13; `kernels/integrals.c`).",
    ),
    cuda_by_c=ours(VALUES, "expn_value(n, x)"),
    returns=f"{SHAPE}; outside of the domain what SciPy gives, without a gradient (NaN).",
    raises="a derivative in `n`", example=("expn(2, torch.tensor(1.0))", "tensor(0.1485)"),
)  # fmt: skip

sici = function(
    "sici", whole("pairs.c"), "The sine and cosine integrals Si(x) and Ci(abs(x)) (DLMF 6.2.9, 6.2.13).",
    x=Input(
        "argument, any real number.", "nonzero", lambda x: (si_nth(x, 1), ci_nth(x, 1)),
        "sin(x) / x and cos(x) / x (DLMF 6.2.9 and 6.2.13, differentiated; `kernels/integrals.c`).",
    ),
    outputs=2, returns=TWO, example=("sici(torch.tensor(1.0))", "(tensor(0.9461), tensor(0.3374))"),
)  # fmt: skip

shichi = function(
    "shichi", whole("pairs.c"),
    "The hyperbolic sine and cosine integrals Shi(x) and Chi(abs(x)) (DLMF 6.2.15, 6.2.16).",
    x=Input(
        "argument, any real number.", "nonzero", lambda x: (shi_nth(x, 1), chi_nth(x, 1)),
        "sinh(x) / x and cosh(x) / x (DLMF 6.2.15 and 6.2.16, differentiated; `kernels/integrals.c`).",
    ),
    outputs=2, returns=TWO, example=("shichi(torch.tensor(1.0))", "(tensor(1.0573), tensor(0.8379))"),
)  # fmt: skip

fresnel = function(
    "fresnel", whole("pairs.c"), "The Fresnel integrals S(z) and C(z), in this order (DLMF 7.2.8, 7.2.7).",
    z=Input(
        "argument, any real number.", "real", lambda z: (fresnel_s_nth(z, 1), fresnel_c_nth(z, 1)),
        "sin(pi z^2 / 2) and cos(pi z^2 / 2) (DLMF 7.2.8 and 7.2.7, differentiated; `kernels/integrals.c`).",
    ),
    outputs=2, returns=TWO, example=("fresnel(torch.tensor(1.0))", "(tensor(0.4383), tensor(0.7799))"),
)  # fmt: skip

spence = function(
    "spence", ours(VALUES, "z > 1e300 ? spence_value(z) : SCIPY(spence)")
   , "Spence's function, the dilogarithm Li_2(1 - z) (DLMF 25.12.1).",
    z=Input(
        "argument, not negative.", "nonnegative", lambda z: spence_nth(z, 1),
        "log(z) / (1 - z) (DLMF 25.12.2 differentiated; `kernels/integrals.c`).",
    ),
    cuda_by_c=ours(VALUES, "spence_value(z)"),
    returns=f"In the shape of the argument; {NAN}", example=("spence(torch.tensor(0.5))", "tensor(0.5822)"),
)  # fmt: skip

dawsn = function(
    "dawsn", lent("dawsn"), "Dawson's integral F(x) (DLMF 7.2.5).",
    x=Input(
        "argument, any real number.", "real", lambda x: dawsn_nth(x, 1),
        "1 - 2 x F(x) (DLMF 7.2.5 differentiated; `kernels/integrals.c`).",
    ),
    cuda_by_c=ours(VALUES, "dawsn_value(x)"),
    returns=ARGUMENT, example=("dawsn(torch.tensor(1.0))", "tensor(0.5381)"),
)  # fmt: skip

erfi = function(
    "erfi", ours(VALUES, "double f = SCIPY(erfi); return (T)(isinf(f) ? erfi_value(z) : f);")
   , "The imaginary error function -i erf(iz) (DLMF 7.2.1).",
    z=Input(
        "argument, any real number.", "real", lambda z: erfi_nth(z, 1),
        "2 exp(z^2) / sqrt(pi) (DLMF 7.2.1 differentiated; `kernels/integrals.c`).",
    ),
    cuda_by_c=ours(VALUES, "erfi_value(z)"),
    returns=ARGUMENT, example=("erfi(torch.tensor(1.0))", "tensor(1.6504)"),
)  # fmt: skip

erfcx = function(
    "erfcx", lent("erfcx"), "The scaled complementary error function exp(x^2) erfc(x) (DLMF 7.2.2).",
    x=Input(
        "argument, any real number.", "real", lambda x: erfcx_nth(x, 1),
        "2 x erfcx(x) - 2 / sqrt(pi) (DLMF 7.2.2 differentiated; `kernels/integrals.c`).",
    ),
    cuda_by_torch=torch.special.erfcx,
    returns=ARGUMENT, example=("erfcx(torch.tensor(1.0))", "tensor(0.4276)"),
)  # fmt: skip
