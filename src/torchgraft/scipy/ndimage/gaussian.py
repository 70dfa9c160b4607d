"""Smoothing by Gaussians and their derivatives, differentiable in the array and in the widths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, Literal

import numpy as np
import scipy.ndimage
import torch
from jaxtyping import Float64, Real
from torch import Tensor

import torchgraft as tg

from ..arguments import has_numbers
from ..errors import InvalidValueError
from .arguments import output_dtype, real_number, real_tensor, unsupported_mode

Mode = Literal["reflect", "constant", "nearest", "mirror", "wrap"]
EXTENSIONS = ("reflect", "constant", "nearest", "mirror", "wrap")
SYNONYMS = {"grid-mirror": "reflect", "grid-constant": "constant", "grid-wrap": "wrap"}

# -- a line, and what lies around it ----------------------------------------------------------------------------------


@tg.op
@tg.domain(k="[1, 9]")
def correlate1d(
    x: Real[np.ndarray, "*batch n"], weights: Float64[np.ndarray, "k"], mode: Mode, cval: float
) -> Real[np.ndarray, "*batch n"]:
    """Correlation of the last axis with weights around each element, as `scipy.ndimage.correlate1d` has it."""
    result: np.ndarray = scipy.ndimage.correlate1d(x, weights, mode=mode, cval=cval)
    return result


@correlate1d.vjp("x")
def _(grad: Tensor, weights: Tensor, mode: Mode) -> Any:
    """The full convolution, whose ends are added to the elements that they stand for."""
    n, before, after = grad.shape[-1], *_reach(weights)
    padded = torch.nn.functional.pad(grad, (after, before))
    spread = correlate1d(padded, weights.flip(0), "constant", 0.0)
    if mode == "constant" or n == 0:
        return spread[..., before : before + n]
    return torch.zeros_like(grad).index_add(-1, _around(n, before, after, mode), spread)


@correlate1d.vjp("weights")
def _(grad: Tensor, x: Tensor, weights: Tensor, mode: Mode, cval: float) -> Any:
    n, before, after = x.shape[-1], *_reach(weights)
    x, grad = x.double(), grad.double()
    if mode == "constant" or n == 0:
        around = torch.nn.functional.pad(x, (before, after), value=cval)
    else:
        around = x.index_select(-1, _around(n, before, after, mode))
    return torch.stack([(around[..., j : j + n] * grad).sum() for j in range(weights.shape[0])])


def _reach(weights: Tensor) -> tuple[int, int]:
    """Count the elements before and after one that take part."""
    k = weights.shape[0]
    return k // 2, k - 1 - k // 2


def _around(n: int, before: int, after: int, mode: Mode) -> Tensor:
    """The element that stands for each of a line that goes on at both ends."""
    i = torch.arange(-before, n + after)
    if mode == "nearest" or n == 1:
        return i.clamp(0, n - 1)
    if mode == "wrap":
        return i.remainder(n)
    edge = 1 if mode == "reflect" else 0  # True where the last element is seen twice.
    i = i.remainder(2 * (n - 1 + edge))
    return torch.where(i < n, i, 2 * (n - 1) + edge - i)


NO_WIDTH = 1e-15  # SciPy's

# -- weights ----------------------------------------------------------------------------------------------------------


@tg.op
@tg.domain(sigma="[0.3, 4]", order=[0, 3], radius=[0, 6])
def gaussian_weights(sigma: Float64[np.ndarray, ""], order: int, radius: int) -> Float64[np.ndarray, "2*{radius}+1"]:
    """The Gaussian at -radius to radius, with the sum 1, or its derivative: (-1/s)^m He_m(x/s) times it.

    Computed as SciPy does it; a sigma of 0 gives the filter that leaves all as it is.
    """
    x, variance = np.arange(-radius, radius + 1), sigma * sigma
    if sigma <= NO_WIDTH:
        return np.where(x == 0, 1.0, 0.0)
    gaussian = np.exp(-0.5 / variance * x**2)
    gaussian = gaussian / gaussian.sum()
    if order > 0:
        powers = np.arange(order + 1)
        differentiate = np.diag(powers[1:], 1) + np.diag(np.ones(order) / -variance, -1)  # (q g)' = (q' - x/s^2 q) g
        polynomial = np.eye(order + 1)[0]
        for _ in range(order):
            polynomial = differentiate.dot(polynomial)
        gaussian = (x[:, None] ** powers).dot(polynomial) * gaussian
    result: np.ndarray = gaussian
    return result


@gaussian_weights.vjp("sigma")
def _(grad: Tensor, sigma: Tensor, order: int, radius: int) -> Any:
    """From He_m' = m He_(m-1) (DLMF 18.9.27) and the derivative of the sum, by which the Gaussian was divided."""
    x, filters = torch.arange(-radius, radius + 1, dtype=torch.float64), sigma > NO_WIDTH
    sigma = torch.where(filters, sigma, 1.0)  # Elsewhere nothing depends on it.
    variance = (x**2 * gaussian_weights(sigma, 0, radius)).sum()
    slope = ((x**2 - variance) / sigma**3 - order / sigma) * gaussian_weights(sigma, order, radius)
    if order > 0:
        slope = slope + order * x / sigma**3 * gaussian_weights(sigma, order - 1, radius)
    return torch.where(filters, (grad * slope).sum(), 0.0)


# -- the filter -------------------------------------------------------------------------------------------------------


def gaussian_filter(
    input: Tensor,
    sigma: float | Tensor | Sequence[float | Tensor],
    order: int | Sequence[int] = 0,
    output: torch.dtype | np.dtype[Any] | type | str | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
) -> Tensor:
    """An array smoothed by a Gaussian, or filtered by a derivative of one, along one axis after the other.

    Derivatives of any order follow in `input` and `sigma`. That in `sigma` is the derivative at a fixed radius, the one
    in use; where `truncate` times `sigma` passes from one radius to the next, the filter jumps.

    Args:
        input: of any number of axes, real.
        sigma: standard deviation; a number, a tensor without axes, or one of these for each axis (in a tensor with one
            axis, too). An axis with 0 stays as it is.
        order: of the derivative, or one for each axis.
        output: another dtype, of the steps between axes too, as in SciPy. Integers are cut off, and have no derivative.
        mode: what lies outside: ``reflect`` (or ``grid-mirror``), ``constant`` (or ``grid-constant``), ``nearest``,
            ``mirror``, ``wrap`` (or ``grid-wrap``); or one for each axis.
        cval: the value there, for ``constant``.
        truncate: the radius, in standard deviations.
        radius: in elements, or one for each axis. Compiled code and `torch.vmap` need it where `sigma` is a tensor.
        axes: along which to filter; all by default.

    Returns:
        In the shape of `input`, and its dtype if `output` is None. Sums are in double precision; float16 and bfloat16,
        which SciPy does not filter, are float32 between axes.

    Raises:
        ArgumentError: `input` is no tensor, `output` an array, or another argument no number.
        DeviceError: a tensor is not on the CPU.
        DtypeError: a tensor is complex or boolean.
        InvalidValueError: axes, orders, radii or a `sigma` that is not finite are not admitted, or do not go together.
        ShapeError: `sigma` has several axes.
        UnsupportedError: there is no such mode; or `sigma` is mapped by `torch.vmap`, and there is no radius.

    Example:
        >>> gaussian_filter(torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]), sigma=1)
        tensor([0.0584, 0.2421, 0.3989, 0.2421, 0.0584])
    """
    input = real_tensor("gaussian_filter", "input", input)
    dtype = output_dtype("gaussian_filter", input, output)
    outside, chosen = real_number("gaussian_filter", "cval", cval), _axes(axes, input.ndim)
    settings = zip(
        chosen,
        _for_each("sigma", sigma, len(chosen)),
        _for_each("order", order, len(chosen)),
        _for_each("mode", mode, len(chosen)),
        _for_each("radius", radius, len(chosen)),
        strict=True,
    )
    steps = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    found = input.to(torch.promote_types(input.dtype, steps) if input.dtype.is_floating_point else torch.float64)
    for axis, given, degree, extension, reach in settings:
        width = _width(given)
        weights = _weights(width, degree, truncate, reach).flip(0)
        name = _mode(extension)
        if has_numbers(width) and not width.requires_grad and width <= NO_WIDTH:
            continue  # There is no step in `output`.
        lines = correlate1d(found.movedim(axis, -1), weights, name, outside)
        found = lines.movedim(-1, axis).to(steps)
    return found.to(dtype)


def _width(sigma: Any) -> Tensor:
    """A standard deviation, in double precision."""
    if isinstance(sigma, Tensor):
        width = real_tensor("gaussian_filter", "sigma", sigma).double()
    else:
        width = torch.tensor(real_number("gaussian_filter", "sigma", sigma), dtype=torch.float64)
    if width.dim() > 0:
        raise tg.ShapeError(
            "has several widths for one axis", operator="gaussian_filter", argument="sigma",
            expected="a number, or one for each axis", got=tuple(width.shape),
        )  # fmt: skip
    if has_numbers(width) and not bool(width.isfinite()):
        raise InvalidValueError(
            "is no finite number", operator="gaussian_filter", argument="sigma", expected="a finite number", got=sigma
        )
    return width


def _weights(width: Tensor, order: Any, truncate: Any, radius: Any) -> Tensor:
    """The weights of one axis."""
    if not isinstance(order, Integral) or order < 0:
        raise InvalidValueError(
            "order must be non-negative", operator="gaussian_filter", argument="order", expected="0 or more", got=order
        )
    if radius is None:
        radius = _radius(width, real_number("gaussian_filter", "truncate", truncate))
    if not isinstance(radius, Integral) or radius < 0:
        raise InvalidValueError(
            "Radius must be a nonnegative integer.", operator="gaussian_filter", argument="radius",
            expected="0 or more", got=radius,
        )  # fmt: skip
    return gaussian_weights(width, int(order), int(radius))


def _radius(width: Tensor, truncate: float) -> int | float:
    """SciPy's radius; as it is, where it is no number."""
    try:
        radius = truncate * max(0.0, width.detach().item()) + 0.5
    except RuntimeError as error:
        raise tg.UnsupportedError(
            "has no one value from which a radius follows", operator="gaussian_filter", argument="sigma",
            expected="a number", got="a tensor that torch.vmap maps", hint="pass radius",
        ) from error  # fmt: skip
    return int(radius) if math.isfinite(radius) else radius


def _mode(mode: Any) -> Any:
    name = SYNONYMS.get(mode, mode) if isinstance(mode, str) else None
    if name not in EXTENSIONS:
        raise unsupported_mode(
            "gaussian_filter", mode, "reflect, constant, nearest, mirror, wrap, or grid- before them"
        )
    return name


def _for_each(name: str, value: Any, count: int) -> list[Any]:
    """One value for each axis."""
    many = value.ndim > 0 if isinstance(value, (Tensor, np.ndarray)) else isinstance(value, Sequence)
    if not many or isinstance(value, str):
        return [value] * count
    if len(value) != count:
        raise InvalidValueError(
            "sequence argument must have length equal to input rank", operator="gaussian_filter", argument=name,
            expected=f"{count} values, or one for all axes", got=len(value),
        )  # fmt: skip
    return list(value)


def _axes(axes: Any, ndim: int) -> list[int]:
    """The axes, counted from the first."""
    if axes is None:
        return list(range(ndim))
    given = list(axes) if isinstance(axes, Iterable) else [axes]
    chosen = [int(axis) % ndim for axis in given if isinstance(axis, Integral) and -ndim <= int(axis) < ndim]
    if len(chosen) < len(given) or len(set(chosen)) < len(given):
        raise InvalidValueError(
            "axes must be unique, and exist", operator="gaussian_filter", argument="axes",
            expected=f"different ones from {-ndim} to {ndim - 1}", got=given,
        )  # fmt: skip
    return chosen
