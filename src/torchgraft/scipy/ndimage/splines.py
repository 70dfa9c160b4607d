"""Sums of B-splines over a grid, which are closed under differentiation and transposition, and their coefficients.

`interpolate` evaluates splines and their derivatives at points, `spread` is its transpose in the coefficients, and
`spline_filter1d` gives the coefficients of the spline through values. The derivative of each is made of the same three,
and so they have derivatives of any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.ndimage
import torch
from jaxtyping import Float64
from torch import Tensor

import torchgraft as tg

KERNEL = tg.c((Path(__file__).parent / "kernels" / "spline.c").read_text(), flags=["-ffp-contract=off"])
MODES = ("reflect", "constant", "grid-constant", "nearest", "mirror", "grid-wrap", "wrap")
"""The extensions of a grid, in the order in which the kernel numbers them."""

GENTLE = "[0, 1]^axes"
"""Orders of derivatives for checks, which tell no jump from a steep slope."""


@tg.op(kernel=KERNEL)
@tg.domain(axes=[1, 1], size="[1, 9]", sizes="[size, size]^axes", orders=GENTLE, degree=[0, 5], mode=[0, 6])
def interpolate(
    coefficients: Float64[Tensor, "*#batch size"],
    coordinates: Float64[Tensor, "*#batch n axes"],
    sizes: list[int],
    orders: list[int],
    degree: int,
    mode: int,
    cval: float,
) -> Float64[Tensor, "*#batch n"]:
    """Sums of B-splines at points: sum_i c[i] prod_k b_degree(x_k - i_k), or partial derivatives of it.

    Args:
        coefficients: in C order.
        coordinates: of the points, in units of the grid.
        sizes: of the grid.
        orders: of the derivative, for each axis.
        degree: of the splines, 0 to 5.
        mode: number in `MODES`.
        cval: what lies outside, for two of the modes.
    """


@tg.op(kernel=KERNEL)
@tg.domain(axes=[1, 1], size="[1, 9]", sizes="[size, size]^axes", orders=GENTLE, degree=[0, 5], mode=[0, 6])
def spread(
    values: Float64[Tensor, "*#batch n"],
    coordinates: Float64[Tensor, "*#batch n axes"],
    sizes: list[int],
    orders: list[int],
    degree: int,
    mode: int,
    size: int,
) -> Float64[Tensor, "*#batch {size}"]:
    """The transpose of `interpolate` in the coefficients, of which there are `size`."""


@interpolate.samples
def _(generator: torch.Generator) -> Iterator[Any]:
    for sizes, degree, mode in (([3, 4], 3, 0), ([2, 3, 2], 2, 6), ([4, 3], 5, 2)):
        coefficients = torch.randn(math.prod(sizes), dtype=torch.float64, generator=generator)
        coordinates = 4 * torch.randn(5, len(sizes), dtype=torch.float64, generator=generator)
        yield coefficients, coordinates, sizes, [0] * len(sizes), degree, mode, 0.5


@spread.samples
def _(generator: torch.Generator) -> Iterator[Any]:
    for sizes, degree, mode in (([3, 4], 3, 0), ([2, 3, 2], 2, 6), ([4, 3], 5, 2)):
        values = torch.randn(2, 5, dtype=torch.float64, generator=generator)
        coordinates = 4 * torch.randn(1, 5, len(sizes), dtype=torch.float64, generator=generator)
        yield values, coordinates, sizes, [0] * len(sizes), degree, mode, math.prod(sizes)


def _slopes(of: Any, orders: list[int]) -> Tensor:
    """Derivatives along each axis, in a last axis."""
    one_more = [[k + (j == axis) for j, k in enumerate(orders)] for axis in range(len(orders))]
    return torch.stack([of(raised) for raised in one_more], -1)


@interpolate.vjp("coefficients")
def _(
    grad: Tensor, coefficients: Tensor, coordinates: Tensor, sizes: list[int], orders: list[int], degree: int, mode: int
) -> Any:
    return spread(grad, coordinates, sizes, orders, degree, mode, coefficients.shape[-1])


@interpolate.vjp("coordinates")
def _(
    grad: Tensor,
    coefficients: Tensor,
    coordinates: Tensor,
    sizes: list[int],
    orders: list[int],
    degree: int,
    mode: int,
    cval: float,
) -> Any:
    return grad[..., None] * _slopes(
        lambda orders: interpolate(coefficients, coordinates, sizes, orders, degree, mode, cval), orders
    )


@spread.vjp("values")
def _(grad: Tensor, coordinates: Tensor, sizes: list[int], orders: list[int], degree: int, mode: int) -> Any:
    return interpolate(grad, coordinates, sizes, orders, degree, mode, 0.0)


@spread.vjp("coordinates")
def _(
    grad: Tensor, values: Tensor, coordinates: Tensor, sizes: list[int], orders: list[int], degree: int, mode: int
) -> Any:
    return values[..., None] * _slopes(
        lambda orders: interpolate(grad, coordinates, sizes, orders, degree, mode, 0.0), orders
    )


CUTOFF = 64
"""Ends of longer lines do not see each other: 0.43^64, the slowest decay of degree 5, is below rounding."""


@tg.op
@tg.domain(degree=[2, 5], mode=[0, 6])
def spline_filter1d(x: Float64[np.ndarray, "*batch n"], degree: int, mode: int) -> Float64[np.ndarray, "*batch n"]:
    """Coefficients of the splines through `x` along the last axis, as `scipy.ndimage.spline_filter1d` has them."""
    coefficients: np.ndarray = scipy.ndimage.spline_filter1d(x, degree, mode=MODES[mode])
    return coefficients


@spline_filter1d.adjoint("x")
def _(grad: Tensor, degree: int, mode: int) -> Any:
    n = grad.shape[-1]
    if n <= CUTOFF:  # SciPy's filter is not quite the inverse that it approximates: its own matrix, transposed
        return grad @ spline_filter1d(torch.eye(n, dtype=grad.dtype), degree, mode).mT
    if MODES[mode] in ("reflect", "nearest", "grid-wrap"):
        return spline_filter1d(grad, degree, mode)
    # A mirrored grid shows each point twice but its ends: the filter is symmetric in the product that counts so.
    count = torch.ones(n, dtype=grad.dtype)
    count[0] = count[-1] = 0.5
    return count * spline_filter1d(grad / count, degree, mode)
