"""The incomplete beta functions and their inverses, differentiable in both parameters and in the argument.

Values are SciPy's, but those that are wrong: for tiny parameters, and of inverses for tiny y or x. Those there and
derivatives in the parameters come from `kernels/beta.c`, which says how; derivatives and the density are operators
themselves, so that second derivatives follow where there are any.

Next to 1, the inverse x has lost the digits of 1 - x. What depends on them is computed from y = 1 - x, which is the
inverse of the exchanged function: y = betainccinv(b, a, p) where x = betaincinv(a, b, p).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .docstrings import LEVEL
from .incomplete_gamma import psi_of
from .sources import Kernel, ours
from .table import Input, function, second_of

FILE = "beta.c"


def _log_gap(a: Tensor, b: Tensor, x: Tensor) -> Any:
    """D log(density) / da."""
    return x.log() + psi_of(a + b) - psi_of(a)


def _slope(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """D log(density) / dx, where x + y = 1."""
    return (a - 1) / x - (b - 1) / y


def _times(weight: Tensor, value: Tensor, level: Tensor) -> Tensor:
    """The product; 0 where the weight has underflowed, though the value be infinite. At a range's end it is NaN."""
    return torch.where((weight == 0) & (level > 0) & (level < 1), 0, weight * value)


# -- derivatives of the functions -----------------------------------------------------------------------------------

beta_pdf = function(
    "beta_pdf", ours(FILE, "beta_density(a, b, x)"),
    "dI/dx = x^(a-1) (1-x)^(b-1) / B(a, b) (DLMF 8.17.1), the density of the beta distribution.",
    a=lambda a, b, x: beta_pdf(a, b, x) * _log_gap(a, b, x),
    b=lambda a, b, x: beta_pdf(a, b, x) * _log_gap(b, a, 1 - x),
    x=lambda a, b, x: beta_pdf(a, b, x) * _slope(a, b, x, 1 - x),
)  # fmt: skip

betainc_by_a = function(
    "betainc_by_a", ours(FILE, "betainc_da(a, b, x)"), "The derivative dI/da of I_x(a, b).",
    a=second_of("betainc"), b=second_of("betainc"),
    x=lambda a, b, x: beta_pdf(a, b, x) * _log_gap(a, b, x),
)  # fmt: skip

betainc_by_b = function(
    "betainc_by_b", ours(FILE, "betainc_db(a, b, x)"), "The derivative dI/db of I_x(a, b).",
    a=second_of("betainc"), b=second_of("betainc"),
    x=lambda a, b, x: beta_pdf(a, b, x) * _log_gap(b, a, 1 - x),
)  # fmt: skip

# -- derivatives of the inverses, as functions of x and y = 1 - x ---------------------------------------------------
#
# As functions of a, b and x alone, which they are at this level, they do not depend on it; y moves with x, and is there
# for its digits alone.


def _inverse(near_0: str, near_1: str) -> Kernel:
    """The kernel of what is to be known at x, and at y = 1 - x of the exchanged function."""
    first, second = (f"{near_0}(a, b, x, level, 1 - (double)level)", f"{near_1}(b, a, y, 1 - (double)level, level)")
    return ours(FILE, f"x <= 0.5 ? {first} : {second}")


def _still(out: Tensor) -> Tensor:
    """The derivative in what an operator does not depend on."""
    return out.new_zeros(())


def _moving(change: Tensor, a: Tensor, b: Tensor, x: Tensor, y: Tensor, level: Tensor) -> Tensor:
    """A change of x with its level; 0 where x has underflowed, and does not move."""
    return _times(inverse_by_level(a, b, x, y, level) != 0, change, level)


inverse_by_a = function(
    "inverse_by_a", _inverse("betaincinv_da", "-betaincinv_db"), "dx/da at the level I: -(dI/da) / (dI/dx).",
    a=second_of("betaincinv"), b=second_of("betaincinv"),
    x=lambda a, b, x, y, level, out: _moving(
        -_log_gap(a, b, x) - _times(out, _slope(a, b, x, y), level), a, b, x, y, level
    ),
    y=_still, level=_still,
)  # fmt: skip

inverse_by_b = function(
    "inverse_by_b", _inverse("betaincinv_db", "-betaincinv_da"), "dx/db at the level I.",
    a=second_of("betaincinv"), b=second_of("betaincinv"),
    x=lambda a, b, x, y, level, out: _moving(
        -_log_gap(b, a, y) - _times(out, _slope(a, b, x, y), level), a, b, x, y, level
    ),
    y=_still, level=_still,
)  # fmt: skip

inverse_by_level = function(
    "inverse_by_level", _inverse("betaincinv_dp", "betaincinv_dp"),
    "dx/dI at the level I: 1 / density, without the error of x, which the density multiplies.",
    a=lambda a, b, x, level, out: -_times(out, _log_gap(a, b, x), level),
    b=lambda a, b, y, level, out: -_times(out, _log_gap(b, a, y), level),
    x=lambda a, b, x, y, level, out: -_times(out, _slope(a, b, x, y), level),
    y=_still, level=_still,
)  # fmt: skip

# -- functions ------------------------------------------------------------------------------------------------------

SECOND = "a second derivative in a parameter"
NEWTON = (
    f"{LEVEL} By Newton's method where SciPy's is NaN within it or below the least normal number, or has lost digits "
    "for a y below 1e-50."
)

betainc = function(
    "betainc", ours(FILE, "betainc_value(a, b, x, SCIPY(betainc))"),
    "The regularised incomplete beta function I_x(a, b) (DLMF 8.17.2).",
    a=Input(
        "positive parameter.", "positive", lambda a, b, x: betainc_by_a(a, b, x),
        "dI/da (DLMF 8.17.2 and 8.17.7, differentiated in a; `kernels/beta.c`).",
    ),
    b=Input(
        "positive parameter.", "positive", lambda a, b, x: betainc_by_b(a, b, x),
        "dI/db (DLMF 8.17.2 and 8.17.7, differentiated in b; `kernels/beta.c`).",
    ),
    x=Input(
        "from 0 to 1.", "[0, 1]", lambda a, b, x: beta_pdf(a, b, x),
        "dI/dx, the density (DLMF 8.17.1 differentiated; `kernels/beta.c`).",
    ),
    returns=f"{LEVEL} Where a b < 1e-290, by series or quadrature if SciPy's has lost digits.", raises=SECOND,
    example=("betainc(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(0.4))", "tensor(0.5248)"),
)  # fmt: skip

betaincc = function(
    "betaincc", ours(FILE, "betaincc_value(a, b, x, SCIPY(betaincc), x < 1e-8 ? SCIPY(betainc) : 1)"),
    "The complement 1 - I_x(a, b) of the regularised incomplete beta function (DLMF 8.17.4).",
    a=Input(
        "positive parameter.", "positive", lambda a, b, x: -betainc_by_a(a, b, x),
        "-dI/da (DLMF 8.17.2 and 8.17.7, differentiated in a; `kernels/beta.c`).",
    ),
    b=Input(
        "positive parameter.", "positive", lambda a, b, x: -betainc_by_b(a, b, x),
        "-dI/db (DLMF 8.17.2 and 8.17.7, differentiated in b; `kernels/beta.c`).",
    ),
    x=Input(
        "from 0 to 1.", "[0, 1]", lambda a, b, x: -beta_pdf(a, b, x),
        "-dI/dx, less the density (DLMF 8.17.1 differentiated; `kernels/beta.c`).",
    ),
    returns=f"{LEVEL} Where x < 1e-8, of which SciPy's has lost 1 - x, by the function itself; where a b < 1e-290, as "
    "`betainc`.",
    raises=SECOND, example=("betaincc(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(0.4))", "tensor(0.4752)"),
)  # fmt: skip

betaincinv = function(
    "betaincinv", ours(FILE, "betaincinv_value(a, b, y, SCIPY(betaincinv))"),
    "The x for which I_x(a, b) is y; derivatives by the implicit function theorem.",
    a=Input(
        "positive parameter.", "positive", lambda a, b, y, out: inverse_by_a(a, b, out, betainccinv(b, a, y), y),
        "-(dI/da) / (dI/dx), by the implicit function theorem (`kernels/beta.c`).",
    ),
    b=Input(
        "positive parameter.", "positive", lambda a, b, y, out: inverse_by_b(a, b, out, betainccinv(b, a, y), y),
        "-(dI/db) / (dI/dx), by the implicit function theorem (`kernels/beta.c`).",
    ),
    y=Input(
        "between 0 and 1.", "(0, 1)", lambda a, b, y, out: inverse_by_level(a, b, out, betainccinv(b, a, y), y),
        "1 / (dI/dx), by the implicit function theorem (`kernels/beta.c`).",
    ),
    returns=NEWTON, raises=SECOND,
    example=("betaincinv(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(0.5))", "tensor(0.3857)"),
)  # fmt: skip

betainccinv = function(
    "betainccinv", ours(FILE, "betainccinv_value(a, b, y, SCIPY(betainccinv))"),
    "The x for which 1 - I_x(a, b) is y; derivatives by the implicit function theorem.",
    a=Input(
        "positive parameter.", "positive", lambda a, b, y, out: -inverse_by_b(b, a, betaincinv(b, a, y), out, y),
        "-(dI/da) / (dI/dx), by the implicit function theorem (`kernels/beta.c`).",
    ),
    b=Input(
        "positive parameter.", "positive", lambda a, b, y, out: -inverse_by_a(b, a, betaincinv(b, a, y), out, y),
        "-(dI/db) / (dI/dx), by the implicit function theorem (`kernels/beta.c`).",
    ),
    y=Input(
        "between 0 and 1.", "(0, 1)", lambda a, b, y, out: -inverse_by_level(b, a, betaincinv(b, a, y), out, y),
        "-1 / (dI/dx), by the implicit function theorem (`kernels/beta.c`).",
    ),
    returns=NEWTON, raises=SECOND,
    example=("betainccinv(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(0.5))", "tensor(0.3857)"),
)  # fmt: skip
