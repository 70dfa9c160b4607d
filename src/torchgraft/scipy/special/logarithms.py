"""Products with logarithms, and the power transform of Box and Cox, differentiable in all arguments.

Values are SciPy's, but where those of `inv_boxcox` have lost digits. Those, and derivatives whose closed forms lose
digits, come from `kernels/boxcox.c`, which says how.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from ..._build.source import c
from .nth import nth_source
from .refusals import no_second_derivative
from .sources import lent, mended, ours

FILE = "boxcox.c"

# -- derivatives ----------------------------------------------------------------------------------------------------


@tg.op(kernel=c("T quotient(T x, T y) { return x == 0 && y >= 0 ? 0 : x / y; }"))
def quotient(x: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The quotient x / y, and 0 where x is 0."""


@quotient.partial("x")
def _(y: Tensor) -> Any:
    return 1 / y


@quotient.partial("y")
def _(x: Tensor, y: Tensor) -> Any:
    return -quotient(quotient(x, y), y)


@tg.op(kernel=nth_source(FILE, "T boxcox_by_x(T x, T lmbda, int64_t n)", "boxcox_dx(x, lmbda, n)"))
def boxcox_by_x(x: Real[Tensor, "..."], lmbda: Real[Tensor, "..."], n: int) -> Float[Tensor, "..."]:
    """The n-th derivative of x^(lmbda - 1) in lmbda: of the transform's slope in x."""


@tg.op(kernel=nth_source(FILE, "T boxcox_by_lmbda(T x, T lmbda, int64_t n)", "boxcox_dk(x, lmbda, n)"))
def boxcox_by_lmbda(x: Real[Tensor, "..."], lmbda: Real[Tensor, "..."], n: int) -> Float[Tensor, "..."]:
    """The n-th derivative of the transform in lmbda."""


@boxcox_by_x.partial("x")
def _(x: Tensor, lmbda: Tensor, n: int) -> Any:
    slope = (lmbda - 1) * boxcox_by_x(x, lmbda - 1, n)
    return slope + n * boxcox_by_x(x, lmbda - 1, n - 1) if n else slope


@boxcox_by_x.partial("lmbda")
def _(x: Tensor, lmbda: Tensor, n: int) -> Any:
    return boxcox_by_x(x, lmbda, n + 1)


@boxcox_by_lmbda.partial("x")
def _(x: Tensor, lmbda: Tensor, n: int) -> Any:
    return boxcox_by_x(x, lmbda, n)


@boxcox_by_lmbda.partial("lmbda")
def _(x: Tensor, lmbda: Tensor, n: int) -> Any:
    return boxcox_by_lmbda(x, lmbda, n + 1)


@tg.op(kernel=ours(FILE, "inv_boxcox_by_y", "inv_boxcox_dy(y, lmbda)", "y lmbda"))
def inv_boxcox_by_y(y: Real[Tensor, "..."], lmbda: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """(1 + lmbda y)^(1/lmbda - 1)."""


@tg.op(kernel=ours(FILE, "inv_boxcox_by_lmbda", "inv_boxcox_dk(y, lmbda)", "y lmbda"))
def inv_boxcox_by_lmbda(y: Real[Tensor, "..."], lmbda: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The derivative of (1 + lmbda y)^(1/lmbda) in lmbda."""


@inv_boxcox_by_y.partial("y")
def _(y: Tensor, lmbda: Tensor, out: Tensor) -> Any:
    return out * (1 - lmbda) / (1 + lmbda * y)


def _mixed(y: Tensor, lmbda: Tensor) -> Any:
    return (inv_boxcox_by_lmbda(y, lmbda) - inv_boxcox_by_y(y, lmbda) * y) / (1 + lmbda * y)


inv_boxcox_by_y.partial("lmbda")(_mixed)
inv_boxcox_by_lmbda.partial("y")(_mixed)
no_second_derivative(inv_boxcox_by_lmbda, "inv_boxcox", "lmbda")

# -- functions ------------------------------------------------------------------------------------------------------


@tg.op(kernel=lent("xlogy", 2, "__pyx_fuse_1xlogy"))
@tg.domain(y="positive")
def xlogy(x: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The product x log(y), and 0 where x is 0.

    Args:
        x: any real number.
        y: a positive number; where `x` is 0, any.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Example:
        >>> xlogy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 3.0]))
        tensor([0.0000, 2.1972])
    """


@xlogy.partial("x")
def _(y: Tensor) -> Any:
    """The derivative log(y), by definition."""
    return y.log()


@xlogy.partial("y")
def _(x: Tensor, y: Tensor) -> Any:
    """The quotient x / y (DLMF 4.7.1), and 0 where x is 0."""
    return quotient(x, y)


@tg.op(kernel=lent("xlog1py", 2, "__pyx_fuse_1xlog1py"))
@tg.domain(y="(-1, inf)")
def xlog1py(x: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The product x log(1 + y), and 0 where x is 0.

    Args:
        x: any real number.
        y: a number above -1; where `x` is 0, any.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Example:
        >>> xlog1py(torch.tensor([0.0, 2.0]), torch.tensor([-1.0, 3.0]))
        tensor([0.0000, 2.7726])
    """


@xlog1py.partial("x")
def _(y: Tensor) -> Any:
    """log(1 + y), by definition."""
    return y.log1p()


@xlog1py.partial("y")
def _(x: Tensor, y: Tensor) -> Any:
    """The quotient x / (1 + y) (DLMF 4.7.1), and 0 where x is 0."""
    return quotient(x, 1 + y)


@tg.op(kernel=mended(FILE, "boxcox", "boxcox_value(x, lmbda, SCIPYS)", "x lmbda"))
@tg.domain(x="positive")
def boxcox(x: Real[Tensor, "..."], lmbda: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The power transform (x^lmbda - 1) / lmbda, and log(x) where lmbda is 0 (Box and Cox 1964).

    Args:
        x: a number that is not negative.
        lmbda: the power, any real number.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Example:
        >>> boxcox(torch.tensor(2.0), torch.tensor([0.0, 0.5]))
        tensor([0.6931, 0.8284])
    """


@boxcox.partial("x")
def _(x: Tensor, lmbda: Tensor) -> Any:
    """x^(lmbda - 1), by definition (`kernels/boxcox.c`)."""
    return boxcox_by_x(x, lmbda, 0)


@boxcox.partial("lmbda")
def _(x: Tensor, lmbda: Tensor) -> Any:
    """The derivative of log(x) times the integral of x^(lmbda s) over [0, 1], by definition (`kernels/boxcox.c`)."""
    return boxcox_by_lmbda(x, lmbda, 1)


@tg.op(kernel=mended(FILE, "inv_boxcox", "inv_boxcox_value(y, lmbda, SCIPYS)", "y lmbda"))
@tg.domain(y="[-0.9, 2]", lmbda="(-0.45, 1]")
def inv_boxcox(y: Real[Tensor, "..."], lmbda: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The inverse of the power transform, (1 + lmbda y)^(1/lmbda), and exp(y) where lmbda is 0.

    Args:
        y: a number for which 1 + lmbda y is not negative.
        lmbda: the power, any real number.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a second derivative in `lmbda` is asked for.

    Example:
        >>> inv_boxcox(torch.tensor(2.0), torch.tensor([0.0, 0.5]))
        tensor([7.3891, 4.0000])
    """


@inv_boxcox.partial("y")
def _(y: Tensor, lmbda: Tensor) -> Any:
    """(1 + lmbda y)^(1 / lmbda - 1), by definition (`kernels/boxcox.c`)."""
    return inv_boxcox_by_y(y, lmbda)


@inv_boxcox.partial("lmbda")
def _(y: Tensor, lmbda: Tensor) -> Any:
    """The derivative of exp(log(1 + lmbda y) / lmbda), by definition (`kernels/boxcox.c`)."""
    return inv_boxcox_by_lmbda(y, lmbda)
