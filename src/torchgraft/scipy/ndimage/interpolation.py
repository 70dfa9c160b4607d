"""Interpolation by splines, differentiable in the values and in the coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import torchgraft as tg

from .arguments import output_dtype, real_number, real_tensor, rounded, unsupported_mode
from .splines import MODES, interpolate, spline_filter1d

_PADDING = 12  # SciPy's, for the modes that have no exact filter
MOST_RUNS, SHORTEST_RUN = 16, 1024


def map_coordinates(
    input: Tensor,
    coordinates: Tensor | Sequence[Tensor],
    output: torch.dtype | np.dtype[Any] | type | str | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """The values of an array between its elements, by splines (Unser, Aldroubi and Eden, IEEE PAMI 13, 1991).

    Derivatives of any order follow in `input` and `coordinates`: the derivative of a spline is one of lower order.
    Where it has a kink, which is at grid points for order 1, the derivative is that from above, and at the last point
    that from below; outside of the grid it is that of SciPy's extension. For order 0 it is zero.

    Args:
        input: of any number of axes, real; its dtype is that of the result.
        coordinates: of the points, in units of elements: one row for each axis of `input`, or one tensor for each, then
            any shape. Points with a NaN have the value NaN.
        output: another dtype for the result; integers are rounded, and have no derivative.
        order: of the splines, 0 to 5.
        mode: what lies outside, as in SciPy: ``reflect`` (or ``grid-mirror``), ``constant``, ``grid-constant``,
            ``nearest``, ``mirror``, ``grid-wrap`` or ``wrap``.
        cval: the value there, for the modes with ``constant``; as it is, where SciPy cuts it off for integers in
            ``grid-constant``.
        prefilter: whether `input` are values; else they are the splines' coefficients.

    Returns:
        In the shape of ``coordinates[0]``. Computed in double precision whatever the dtype, as in SciPy.

    Raises:
        ArgumentError: an array is given for `output`, no tensor for an input, or no number for `cval`.
        DeviceError: an input is not on the CPU.
        DtypeError: an input is complex or boolean.
        ShapeError: the coordinates have not one row for each axis.
        UnsupportedError: there is no such order or mode.

    Example:
        >>> image = torch.arange(12.0).reshape(4, 3)
        >>> map_coordinates(image, torch.tensor([[0.5, 2.0], [0.5, 1.0]]), order=1)
        tensor([2., 7.])
    """
    input = real_tensor("map_coordinates", "input", input)
    coordinates = real_tensor("map_coordinates", "coordinates", coordinates)
    dtype = output_dtype("map_coordinates", input, output)
    extension, outside = _extension(mode), real_number("map_coordinates", "cval", cval)
    _check(input, coordinates, order)
    values, places = input.double(), coordinates.double()
    if prefilter and order > 1:
        if mode in ("nearest", "grid-constant"):
            values, places = _padded(values, mode, outside), places + _PADDING
        for axis in range(values.ndim):
            values = spline_filter1d(values.movedim(axis, -1), order, extension).movedim(-1, axis)
    points, orders = places.flatten(1).mT, [0] * values.ndim
    runs = _runs(points, values.numel())
    found = interpolate(values.reshape(1, -1), runs, list(values.shape), orders, order, extension, outside)
    return rounded(found.flatten()[: len(points)].reshape(coordinates.shape[1:]), dtype)


def _runs(points: Tensor, size: int) -> Tensor:
    """The points in runs, which threads share, with some more at the end; each has a gradient of the array."""
    count = max(1, min(MOST_RUNS, len(points) // SHORTEST_RUN, 4 * len(points) // max(size, 1)))
    return torch.nn.functional.pad(points, (0, 0, 0, -len(points) % count)).reshape(count, -1, points.shape[-1])


def _padded(values: Tensor, mode: str, cval: float) -> Tensor:
    """`values` and what lies around them."""
    if mode == "grid-constant":
        return torch.nn.functional.pad(values, [_PADDING] * (2 * values.ndim), value=cval)
    for axis, n in enumerate(values.shape):
        values = values.index_select(axis, torch.arange(-_PADDING, n + _PADDING).clamp(0, n - 1))
    return values


def _extension(mode: str) -> int:
    """The number of a mode."""
    name = "reflect" if mode == "grid-mirror" else mode
    if name not in MODES:
        raise unsupported_mode("map_coordinates", mode, ", ".join((*MODES, "grid-mirror")))
    return MODES.index(name)


def _check(input: Tensor, coordinates: Tensor, order: int) -> None:
    """Raise what SciPy raises."""
    if order not in range(6):
        raise tg.UnsupportedError(
            "spline order not supported", operator="map_coordinates", argument="order", expected="0 to 5", got=order
        )
    if input.ndim == 0 or coordinates.ndim < 2 or coordinates.shape[0] != input.ndim or 0 in input.shape:
        raise tg.ShapeError(
            "invalid shape for coordinate array", operator="map_coordinates", argument="coordinates",
            expected="one row for each axis of an input that has elements, in an array of 2 axes or more",
            got=f"{tuple(coordinates.shape)} for an input of {tuple(input.shape)}",
        )  # fmt: skip
