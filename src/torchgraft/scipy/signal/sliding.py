"""A kernel that slides over an array: what correlations, convolutions and all of their derivatives are."""

from __future__ import annotations

from typing import Any

from jaxtyping import Num
from torch import Tensor

import torchgraft as tg


# Integers wrap around, as NumPy's do.
@tg.op(kernel=tg.c("kernels/slide.c", flags=["-fwrapv", "-fcx-limited-range"]))
def slide(
    x: Num[Tensor, "*batch d h w"],
    kernel: Num[Tensor, "*batch p q r"],
    depth: int,
    height: int,
    width: int,
    front: int,
    top: int,
    left: int,
) -> Num[Tensor, "*batch {depth} {height} {width}"]:
    """Sums over j of ``kernel[j] x[i + j - lead]``, where x is zero outside.

    Args:
        depth, height, width: sizes of the output.
        front, top, left: `lead`, along each axis.
    """


@slide.vjp("x")
def _(grad: Tensor, x: Tensor, kernel: Tensor, front: int, top: int, left: int) -> Any:
    (p, q, r), (depth, height, width) = kernel.shape[-3:], x.shape[-3:]
    flipped = kernel.flip((-3, -2, -1)).conj()
    return slide(grad, flipped, depth, height, width, p - 1 - front, q - 1 - top, r - 1 - left)


@slide.vjp("kernel")
def _(grad: Tensor, x: Tensor, kernel: Tensor, front: int, top: int, left: int) -> Any:
    depth, height, width = kernel.shape[-3:]
    return slide(x.conj(), grad, depth, height, width, front, top, left)


def slide_rows(x: Tensor, kernel: Tensor) -> Tensor:
    """Rows ``(*batch, rows, n)`` with a kernel ``(*batch, taps)`` sliding along each, inside alone."""
    rows, n, taps = *x.shape[-2:], kernel.shape[-1]
    made: Tensor = slide(x[..., None, :, :], kernel[..., None, None, :], 1, rows, n - taps + 1, 0, 0, 0)
    return made[..., 0, :, :]


def lags(x: Tensor, y: Tensor) -> Tensor:
    """Sums over rows and samples of ``x[i + lag] conj(y[i])``, for each lag for which y is inside of x."""
    count = x.shape[-1] - y.shape[-1] + 1
    made: Tensor = slide(x[..., None, :, :], y.conj()[..., None, :, :], 1, 1, count, 0, 0, 0)
    return made[..., 0, 0, :]
