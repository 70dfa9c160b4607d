"""Quantiles and the logarithm of the normal distribution function, differentiable.

Values are SciPy's. Derivatives come from `kernels/normal.c`, which says how.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .sources import lent, ours

FILE = "normal.c"

# -- derivatives ----------------------------------------------------------------------------------------------------


@tg.op(kernel=ours(FILE, "ndtri_by_y", "ndtri_dy(x, y)", "x y"))
def ndtri_by_y(x: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """dx/dy where y is the distribution function at x: 1 / density, without the error of x."""


@ndtri_by_y.partial("x")
def _(x: Tensor, out: Tensor) -> Any:
    return x * out


# As a function of x alone, which it is where y belongs to x, it does not depend on y.
ndtri_by_y.partial("y")(lambda y: y.new_zeros(()))


@tg.op(kernel=ours(FILE, "log_ndtr_by_x", "log_ndtr_dx(x)", "x"))
def log_ndtr_by_x(x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The density over the distribution function."""


@tg.op(kernel=ours(FILE, "log_ndtr_by_x_x", "log_ndtr_dxx(x)", "x"))
def log_ndtr_by_x_x(x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The derivative of that, -log_ndtr_by_x(x) excess(x)."""


@tg.op(kernel=ours(FILE, "excess", "log_ndtr_excess(x)", "x"))
def excess(x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The excess of the density over the distribution function beyond -x."""


@log_ndtr_by_x.partial("x")
def _(x: Tensor) -> Any:
    return log_ndtr_by_x_x(x)


@log_ndtr_by_x_x.partial("x")
def _(x: Tensor, out: Tensor) -> Any:
    return log_ndtr_by_x(x) * (excess(x) ** 2 - out - 1)


@excess.partial("x")
def _(x: Tensor) -> Any:
    return 1 + log_ndtr_by_x_x(x)


# -- functions ------------------------------------------------------------------------------------------------------


@tg.op(kernel=lent("ndtri", 1))
@tg.domain(y="(0, 1)")
def ndtri(y: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The x at which the normal distribution function is y; derivatives by the implicit function theorem.

    Args:
        y: between 0 and 1.

    Returns:
        In the shape of `y`; -inf at 0, inf at 1, NaN outside of the domain, as in SciPy.

    Example:
        >>> ndtri(torch.tensor(0.975))
        tensor(1.9600)
    """


@ndtri.partial("y")
def _(y: Tensor, out: Tensor) -> Any:
    """1 / density, by the implicit function theorem (`kernels/normal.c`)."""
    return ndtri_by_y(out, y)


@tg.op(kernel=lent("log_ndtr", 1, "__pyx_fuse_1log_ndtr"))
def log_ndtr(x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The logarithm of the normal distribution function (DLMF 7.2.2; far out by 7.9.3).

    Args:
        x: any real number.

    Returns:
        In the shape of `x`.

    Example:
        >>> log_ndtr(torch.tensor([-10.0, 0.0]))
        tensor([-53.2313,  -0.6931])
    """


@log_ndtr.partial("x")
def _(x: Tensor) -> Any:
    """The density over the distribution function, by definition (DLMF 7.2.2, 7.9.3; `kernels/normal.c`)."""
    return log_ndtr_by_x(x)
