"""The logarithms of the gamma and beta functions, and the polygamma functions, differentiable to any order.

Values are SciPy's, but for polygamma, of which SciPy lends no C function, betaln where it has lost digits, and gammaln
next to 0, where SciPy's is infinite below 5.6e-309.
Polygamma and the derivatives come from `kernels/polygamma.c`, which says how.
"""

import torch

from .docstrings import SHAPE
from .sources import lent, ours
from .table import ELEMENT, Input, Refused, function

FILE = "polygamma.c"

# -- derivatives ----------------------------------------------------------------------------------------------------

psi_at = function(
    "psi_at", ours(FILE, "digamma_real(x)"),
    "The digamma function of any real number (DLMF 5.2.2), also next to its zeros.",
    x=lambda x: polygamma(1, x),
)  # fmt: skip

betaln_by_a_a = function(
    "betaln_by_a_a", ours(FILE, "betaln_da_da(a, b)"), "The second derivative of log B(a, b) in a.",
    a=lambda a, b: polygamma(2, a) - polygamma(2, a + b),
    b=lambda a, b: -polygamma(2, a + b),
)  # fmt: skip

betaln_by_a = function(
    "betaln_by_a", ours(FILE, "betaln_da(a, b)"),
    "d/da of log B(a, b): the digamma function at a less that at a + b.",
    a=lambda a, b: betaln_by_a_a(a, b),
    b=lambda a, b: -polygamma(1, a + b),
)  # fmt: skip

# -- functions ------------------------------------------------------------------------------------------------------

gammaln = function(
    "gammaln", ours("gammabeta.h", "fabs(x) < 1e-290 && x != 0 ? -log(fabs(x)) : SCIPY(gammaln)"),
    "The logarithm of the absolute value of the gamma function (DLMF 5.2.1; derivative 5.2.2).",
    x=Input(
        "any real number; at 0, -1, -2, ... the value is inf.", "real except nonpositive integers",
        lambda x: psi_at(x), "The digamma function (DLMF 5.2.2; `kernels/polygamma.c`).",
    ),
    returns="In the shape of `x`. The derivative is NaN at the poles, but for 0, where it is that of the side of its "
    "sign.",
    cuda_by_torch=lambda x: torch.where(x == -torch.inf, x, torch.lgamma(x)),
    example=("gammaln(torch.tensor([0.5, 10.0]))", "tensor([ 0.5724, 12.8018])"),
)  # fmt: skip

betaln = function(
    "betaln", ours("gammabeta.h", "betaln_value(a, b, SCIPY(betaln))"),
    "The logarithm of the absolute value of the beta function (DLMF 5.12.1).",
    a=Input(
        "a positive number; negative ones as in SciPy.", "positive", lambda a, b: betaln_by_a(a, b),
        "psi(a) - psi(a + b) (DLMF 5.12.1 differentiated, 5.2.2; `kernels/polygamma.c`).",
    ),
    b=Input(
        "likewise.", "positive", lambda a, b: betaln_by_a(b, a),
        "psi(b) - psi(a + b) (DLMF 5.12.1 differentiated, 5.2.2; `kernels/polygamma.c`).",
    ),
    returns=f"{SHAPE}. By Stirling's formula (DLMF 5.11.1) where a + b > 171, but where one is 1e6 times the other, "
    "and where one is next to 0; next to the zero at (1, 1) by a series (DLMF 5.7.3).",
    cuda_by_c=ours("gammabeta.h", "betaln_alone(a, b)"),
    example=("betaln(torch.tensor(2.0), torch.tensor(3.0))", "tensor(-2.4849)"),
)  # fmt: skip

digamma = function(
    "digamma", lent("psi"), "The digamma function (DLMF 5.2.2).",
    z=Input(
        "any real number; at 0 the value is an infinity, at -1, -2, ... NaN.", "real except nonpositive integers",
        lambda z: polygamma(1, z), "The trigamma function (DLMF 5.15.1; `kernels/polygamma.c`).",
    ),
    returns="In the shape of `z`.", cuda_by_c=ours(FILE, "digamma_real(z)"),
    example=("digamma(torch.tensor([1.0, 10.0]))", "tensor([-0.5772,  2.2518])"),
)  # fmt: skip

polygamma = function(
    "polygamma", ours(FILE, "polygamma_real(n, x)"),
    "The n-th derivative of the digamma function (DLMF 5.15; by Hurwitz's function, 25.11.12).",
    n=Input(
        "order, an integer that is not negative.", {0, 1, 2, 3},
        Refused("the order of a derivative is an integer"), type=ELEMENT | float,
    ),
    x=Input(
        "any real number; at 0, -1, -2, ... the value is inf or -inf.", "positive", lambda n, x: polygamma(n + 1, x),
        "The next polygamma function, by definition (DLMF 5.15; `kernels/polygamma.c`).",
    ),
    returns=f"{SHAPE}; NaN where `n` is no order.", raises="a derivative in `n`",
    example=("polygamma(1, torch.tensor([2.0, 3.0, 25.5]))", "tensor([0.6449, 0.3949, 0.0400])"),
)  # fmt: skip
