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
from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from ..._build.source import Source
from .gamma import psi_of
from .refusals import no_second_derivative
from .sources import mended, ours

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


@tg.op(kernel=ours(FILE, "beta_pdf", "beta_density(a, b, x)", "a b x"))
def beta_pdf(a: Real[Tensor, "..."], b: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """dI/dx = x^(a-1) (1-x)^(b-1) / B(a, b) (DLMF 8.17.1), the density of the beta distribution."""


@beta_pdf.partial("a")
def _(a: Tensor, b: Tensor, x: Tensor) -> Any:
    return beta_pdf(a, b, x) * _log_gap(a, b, x)


@beta_pdf.partial("b")
def _(a: Tensor, b: Tensor, x: Tensor) -> Any:
    return beta_pdf(a, b, x) * _log_gap(b, a, 1 - x)


@beta_pdf.partial("x")
def _(a: Tensor, b: Tensor, x: Tensor) -> Any:
    return beta_pdf(a, b, x) * _slope(a, b, x, 1 - x)


@tg.op(kernel=ours(FILE, "betainc_by_a", "betainc_da(a, b, x)", "a b x"))
def betainc_by_a(a: Real[Tensor, "..."], b: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The derivative dI/da of I_x(a, b)."""


@tg.op(kernel=ours(FILE, "betainc_by_b", "betainc_db(a, b, x)", "a b x"))
def betainc_by_b(a: Real[Tensor, "..."], b: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The derivative dI/db of I_x(a, b)."""


@betainc_by_a.partial("x")
def _(a: Tensor, b: Tensor, x: Tensor) -> Any:
    return beta_pdf(a, b, x) * _log_gap(a, b, x)


@betainc_by_b.partial("x")
def _(a: Tensor, b: Tensor, x: Tensor) -> Any:
    return beta_pdf(a, b, x) * _log_gap(b, a, 1 - x)


no_second_derivative(betainc_by_a, "betainc", "a", "b")
no_second_derivative(betainc_by_b, "betainc", "a", "b")

# -- derivatives of the inverses, as functions of x and y = 1 - x ---------------------------------------------------


def _inverse_source(name: str, near_0: str, near_1: str) -> Source:
    """Of what is to be known at x, and at y = 1 - x of the exchanged function."""
    call = f"x <= 0.5 ? {near_0}(a, b, x, level, 1 - (double)level) : {near_1}(b, a, y, 1 - (double)level, level)"
    return ours(FILE, name, call, "a b x y level")


@tg.op(kernel=_inverse_source("inverse_by_a", "betaincinv_da", "-betaincinv_db"))
def inverse_by_a(
    a: Real[Tensor, "..."], b: Real[Tensor, "..."], x: Real[Tensor, "..."], y: Real[Tensor, "..."],
    level: Real[Tensor, "..."],
) -> Float[Tensor, "..."]:  # fmt: skip
    """dx/da at the level I: -(dI/da) / (dI/dx)."""


@tg.op(kernel=_inverse_source("inverse_by_b", "betaincinv_db", "-betaincinv_da"))
def inverse_by_b(
    a: Real[Tensor, "..."], b: Real[Tensor, "..."], x: Real[Tensor, "..."], y: Real[Tensor, "..."],
    level: Real[Tensor, "..."],
) -> Float[Tensor, "..."]:  # fmt: skip
    """dx/db at the level I."""


@tg.op(kernel=_inverse_source("inverse_by_level", "betaincinv_dp", "betaincinv_dp"))
def inverse_by_level(
    a: Real[Tensor, "..."], b: Real[Tensor, "..."], x: Real[Tensor, "..."], y: Real[Tensor, "..."],
    level: Real[Tensor, "..."],
) -> Float[Tensor, "..."]:  # fmt: skip
    """dx/dI at the level I: 1 / density, without the error of x, which the density multiplies."""


@inverse_by_a.partial("x")
def _(a: Tensor, b: Tensor, x: Tensor, y: Tensor, level: Tensor, out: Tensor) -> Any:
    change = -_log_gap(a, b, x) - _times(out, _slope(a, b, x, y), level)
    return _times(inverse_by_level(a, b, x, y, level) != 0, change, level)  # else x has underflowed, and does not move


@inverse_by_b.partial("x")
def _(a: Tensor, b: Tensor, x: Tensor, y: Tensor, level: Tensor, out: Tensor) -> Any:
    change = -_log_gap(b, a, y) - _times(out, _slope(a, b, x, y), level)
    return _times(inverse_by_level(a, b, x, y, level) != 0, change, level)


@inverse_by_level.partial("x")
def _(a: Tensor, b: Tensor, x: Tensor, y: Tensor, level: Tensor, out: Tensor) -> Any:
    return -_times(out, _slope(a, b, x, y), level)


@inverse_by_level.partial("a")
def _(a: Tensor, b: Tensor, x: Tensor, level: Tensor, out: Tensor) -> Any:
    return -_times(out, _log_gap(a, b, x), level)


@inverse_by_level.partial("b")
def _(a: Tensor, b: Tensor, y: Tensor, level: Tensor, out: Tensor) -> Any:
    return -_times(out, _log_gap(b, a, y), level)


# As functions of a, b and x alone, which they are at this level, they do not depend on it; y moves with x, and is there
# for its digits alone.
for derivative in (inverse_by_a, inverse_by_b, inverse_by_level):
    derivative.partial("y")(lambda out: out.new_zeros(()))
    derivative.partial("level")(lambda out: out.new_zeros(()))

no_second_derivative(inverse_by_a, "betaincinv", "a", "b")
no_second_derivative(inverse_by_b, "betaincinv", "a", "b")

# -- functions ------------------------------------------------------------------------------------------------------


@tg.op(kernel=mended(FILE, "betainc", "betainc_value(a, b, x, SCIPYS)", "a b x", "__pyx_fuse_0betainc"))
@tg.domain(a="positive", b="positive", x="[0, 1]")
def betainc(a: Real[Tensor, "..."], b: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The regularised incomplete beta function I_x(a, b) (DLMF 8.17.2).

    Args:
        a: positive parameter.
        b: positive parameter.
        x: from 0 to 1.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where a b < 1e-290, by series or quadrature if SciPy's has lost digits.

    Raises:
        DerivativeError: a second derivative in a parameter is asked for.

    Example:
        >>> betainc(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(0.4))
        tensor(0.5248)
    """


@betainc.partial("a")
def _(a: Tensor, b: Tensor, x: Tensor) -> Any:
    """dI/da (DLMF 8.17.2 and 8.17.7, differentiated in a; `kernels/beta.c`)."""
    return betainc_by_a(a, b, x)


@betainc.partial("b")
def _(a: Tensor, b: Tensor, x: Tensor) -> Any:
    """dI/db (DLMF 8.17.2 and 8.17.7, differentiated in b; `kernels/beta.c`)."""
    return betainc_by_b(a, b, x)


@betainc.partial("x")
def _(a: Tensor, b: Tensor, x: Tensor) -> Any:
    """dI/dx, the density (DLMF 8.17.1 differentiated; `kernels/beta.c`)."""
    return beta_pdf(a, b, x)


@tg.op(
    kernel=mended(
        FILE, "betaincc", "betaincc_value(a, b, x, SCIPYS, x < 1e-8 ? OTHER : 1)", "a b x", "__pyx_fuse_0betaincc",
        "__pyx_fuse_0betainc",
    )
)  # fmt: skip
@tg.domain(a="positive", b="positive", x="[0, 1]")
def betaincc(a: Real[Tensor, "..."], b: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The complement 1 - I_x(a, b) of the regularised incomplete beta function (DLMF 8.17.4).

    Args:
        a: positive parameter.
        b: positive parameter.
        x: from 0 to 1.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        Where x < 1e-8, of which SciPy's has lost 1 - x, by the function itself; where a b < 1e-290, as `betainc`.

    Raises:
        DerivativeError: a second derivative in a parameter is asked for.

    Example:
        >>> betaincc(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(0.4))
        tensor(0.4752)
    """


@betaincc.partial("a")
def _(a: Tensor, b: Tensor, x: Tensor) -> Any:
    """-dI/da (DLMF 8.17.2 and 8.17.7, differentiated in a; `kernels/beta.c`)."""
    return -betainc_by_a(a, b, x)


@betaincc.partial("b")
def _(a: Tensor, b: Tensor, x: Tensor) -> Any:
    """-dI/db (DLMF 8.17.2 and 8.17.7, differentiated in b; `kernels/beta.c`)."""
    return -betainc_by_b(a, b, x)


@betaincc.partial("x")
def _(a: Tensor, b: Tensor, x: Tensor) -> Any:
    """-dI/dx, less the density (DLMF 8.17.1 differentiated; `kernels/beta.c`)."""
    return -beta_pdf(a, b, x)


@tg.op(kernel=mended(FILE, "betaincinv", "betaincinv_value(a, b, y, SCIPYS)", "a b y", "__pyx_fuse_0betaincinv"))
@tg.domain(a="positive", b="positive", y="(0, 1)")
def betaincinv(a: Real[Tensor, "..."], b: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The x for which I_x(a, b) is y; derivatives by the implicit function theorem.

    Args:
        a: positive parameter.
        b: positive parameter.
        y: between 0 and 1.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        By Newton's method where SciPy's is NaN within it or below the least normal number, or has lost digits for a y
        below 1e-50.

    Raises:
        DerivativeError: a second derivative in a parameter is asked for.

    Example:
        >>> betaincinv(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(0.5))
        tensor(0.3857)
    """


@betaincinv.partial("a")
def _(a: Tensor, b: Tensor, y: Tensor, out: Tensor) -> Any:
    """-(dI/da) / (dI/dx), by the implicit function theorem (`kernels/beta.c`)."""
    return inverse_by_a(a, b, out, betainccinv(b, a, y), y)


@betaincinv.partial("b")
def _(a: Tensor, b: Tensor, y: Tensor, out: Tensor) -> Any:
    """-(dI/db) / (dI/dx), by the implicit function theorem (`kernels/beta.c`)."""
    return inverse_by_b(a, b, out, betainccinv(b, a, y), y)


@betaincinv.partial("y")
def _(a: Tensor, b: Tensor, y: Tensor, out: Tensor) -> Any:
    """1 / (dI/dx), by the implicit function theorem (`kernels/beta.c`)."""
    return inverse_by_level(a, b, out, betainccinv(b, a, y), y)


@tg.op(kernel=mended(FILE, "betainccinv", "betainccinv_value(a, b, y, SCIPYS)", "a b y", "__pyx_fuse_0betainccinv"))
@tg.domain(a="positive", b="positive", y="(0, 1)")
def betainccinv(a: Real[Tensor, "..."], b: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The x for which 1 - I_x(a, b) is y; derivatives by the implicit function theorem.

    Args:
        a: positive parameter.
        b: positive parameter.
        y: between 0 and 1.

    Returns:
        Values between 0 and 1, in the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.
        By Newton's method where SciPy's is NaN within it or below the least normal number, or has lost digits for a y
        below 1e-50.

    Raises:
        DerivativeError: a second derivative in a parameter is asked for.

    Example:
        >>> betainccinv(torch.tensor(2.0), torch.tensor(3.0), torch.tensor(0.5))
        tensor(0.3857)
    """


@betainccinv.partial("a")
def _(a: Tensor, b: Tensor, y: Tensor, out: Tensor) -> Any:
    """-(dI/da) / (dI/dx), by the implicit function theorem (`kernels/beta.c`)."""
    return -inverse_by_b(b, a, betaincinv(b, a, y), out, y)


@betainccinv.partial("b")
def _(a: Tensor, b: Tensor, y: Tensor, out: Tensor) -> Any:
    """-(dI/db) / (dI/dx), by the implicit function theorem (`kernels/beta.c`)."""
    return -inverse_by_a(b, a, betaincinv(b, a, y), out, y)


@betainccinv.partial("y")
def _(a: Tensor, b: Tensor, y: Tensor, out: Tensor) -> Any:
    """-1 / (dI/dx), by the implicit function theorem (`kernels/beta.c`)."""
    return -inverse_by_level(b, a, betaincinv(b, a, y), out, y)
