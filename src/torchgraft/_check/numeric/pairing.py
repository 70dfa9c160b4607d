"""Both sides of one number: <v, J u> by differences, and <v J, u> by the backward pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .ladder import SAMPLES, SINGLE, Ladder, ecnoise
from .probe import Backward, Probe
from .vectors import Grid, signed

_ROUNDINGS, _HALF_ROUNDINGS = 64, 8
"""Roundings in a row that a derivative may suffer; fewer for dtypes in which nobody does arithmetic."""

_NUDGES = 4
"""Cotangents that are rounded otherwise."""

PRECISE = 5 / 8
"""The power of epsilon beyond which the noise of a backward is not its dtype's: 2e-10 in float64, 5e-5 in float32."""


@dataclass(frozen=True)
class Pairing:
    """A number in two ways, and by how much they may differ.

    Attributes:
        analytic: by the backward pass.
        numeric: by differences.
        size: of the terms of both sums, their 2-norm: their signs are random.
        numerics: by how much the two may differ, but for the noise of the backward pass.
        tolerance: by how much the two may differ.
        nonlinearity: by how much the backward pass of 3 v differs from three times that of v.
        noise: of the backward pass; the same, if nothing else was measured.
        grain: what the noise of the values is worth in it.
        grid: of the dtype, or of the accuracy that is declared.
        direction: u.
        cotangent: v.
        gradient: v J by the backward pass.
    """

    analytic: float
    numeric: float
    size: float
    numerics: float
    tolerance: float
    nonlinearity: float
    noise: float
    grain: float
    grid: Grid
    direction: Tensor
    cotangent: Tensor
    gradient: Tensor

    @property
    def error(self) -> float:
        """The deviation of both sides."""
        return abs(self.analytic - self.numeric)

    @property
    def agrees(self) -> bool:
        """Tell whether the two are the same number, as far as can be told; never where the gradient is not finite."""
        return self.error <= self.tolerance

    @property
    def telling(self) -> bool:
        """Tell whether a wrong sign would be seen."""
        return self.tolerance <= self.size or not (self.gradient * self.direction).any()

    @property
    def factor_shows(self) -> bool:
        """Tell whether a gradient that is twice as large, or 0, would be seen."""
        return self.tolerance <= self.size / 2 or not self.size

    @property
    def rounding(self) -> float:
        """By how much a linear backward pass may seem not to be: the grain is taken at few points."""
        relative: float = self.grid.epsilon**self.grid.wrong
        return relative * self.size + 4 * self.grain

    @property
    def linear(self) -> bool:
        """Tell whether the backward pass is linear but for its rounding."""
        return not self.nonlinearity > self.rounding

    @property
    def precise(self) -> bool:
        """Tell whether its noise is the dtype's, not that of one with fewer digits."""
        return not self.noise > self.grid.epsilon**PRECISE * self.size + self.grain

    @property
    def fine(self) -> bool:
        """Tell whether there is nothing to look at again."""
        return self.agrees and self.linear and self.precise

    @property
    def outweighs(self) -> bool:
        """Tell whether the deviation is more than the noise of the backward pass, which is a defect of its own."""
        return not self.error <= self.numerics + 3 * self.noise

    @property
    def wrong(self) -> bool:
        """Tell whether the deviation is more than some lost digits."""
        return not self.error <= self.grid.epsilon**self.grid.wrong * self.size


def pair(probe: Probe, backward: Backward, ladder: Ladder, direction: Tensor, cotangent: Tensor) -> Pairing:
    """Compare both sides of one number.

    The tolerance is the sum of eight times the estimated error of the differences, as if those of the elements were
    independent; the roundings of both sums, and of the values that the derivatives may be computed from, next to which
    a derivative can be small; and eight times the rounding noise of the backward pass, of which v and
    3 v give a sample.
    """
    gradient = backward.vjp(cotangent)
    moved = direction != 0
    noise = torch.where(moved, (gradient - backward.vjp(3 * cotangent) / 3) * direction, 0)
    weighted = cotangent != 0
    terms = torch.where(weighted, cotangent * ladder.derivative, 0)
    errors = torch.where(weighted, cotangent * ladder.error, 0)
    products = torch.where(moved, gradient * direction, 0)
    size = max(_norm(terms), _norm(products))
    nonlinearity = _norm(noise) + abs(float(noise.sum()))
    roundings = _ROUNDINGS if probe.grid.digits >= SINGLE else _HALF_ROUNDINGS
    # What does not change at all, such as log(1 + x^2) next to 0, was computed from some numbers, which hid the change.
    scale = torch.where(ladder.derivative == 0, probe.scale.clamp(min=1), probe.scale)
    values = _norm(torch.where(weighted & scale.isfinite(), cotangent * scale, 0))
    grain = 32 * _norm(torch.where(weighted, cotangent * ladder.grain, 0)) + roundings * probe.grid.epsilon * values
    numerics = 8 * _norm(errors) + roundings * probe.grid.epsilon * (size + values)
    numerics += 8 * probe.faintest * _norm(torch.where(weighted, cotangent, 0))
    return Pairing(
        float(products.sum()), float(terms.sum()), size, numerics, numerics + 8 * nonlinearity, nonlinearity,
        nonlinearity, grain, probe.grid, direction, cotangent, gradient,
    )  # fmt: skip


def covector(ladder: Ladder, wanted: Tensor, generator: torch.Generator, grid: Grid, *, balanced: bool) -> Tensor:
    """A random weight for each wanted element of the outputs whose derivative is known, 0 for the others.

    Args:
        balanced: weights are as 1 to the derivative, so that small elements count as much as large ones.
    """
    known = ladder.known & wanted
    # Three times such a weight is exact.
    weight = torch.where(known, signed(len(known), generator, min(24, grid.digits - 4)), 0)
    slope = ladder.derivative.abs()
    size = torch.where(known & (slope > 4 * ladder.error), slope, 0)  # A derivative that may be 0 has no known size.
    if not balanced or not size.any():
        return weight
    root = grid.epsilon**0.5
    size = torch.where(size > 0, torch.maximum(size, ladder.error / root), 0)
    largest = size.max()
    size = torch.where(size > 0, size.clamp(min=float(root * largest)), largest)  # 0 has no size to be balanced by.
    exponent = torch.frexp(size).exponent
    return weight * torch.exp2((exponent.min() - exponent).double())


def second_look(probe: Probe, backward: Backward, ladder: Ladder, pairing: Pairing) -> Pairing:
    """Compare both sides again with a tolerance for what more points show, unless there is nothing to look at again.

    These are differences at other steps; the noise of the backward pass, measured at neighbouring points as that of
    the values is; and what it does to a cotangent that was rounded otherwise, where large terms cancel.
    """
    if pairing.fine:
        return pairing
    other = probe.climb(0.75 * pairing.direction).scaled(4 / 3)
    cotangent = torch.where(other.known, pairing.cotangent, 0)
    doubted = ladder.doubting(other)
    again = pair(probe, backward, doubted, pairing.direction, cotangent)
    noise, cancelled = _backward_noise(probe, again), _cancellation(probe, backward, again)

    def tolerant(found: Pairing) -> Pairing:
        return replace(
            found,
            numerics=found.numerics + 16 * cancelled,
            tolerance=found.tolerance + 16 * (noise + cancelled),
            noise=max(found.noise, noise),
            grain=found.grain + 64 * cancelled,
        )

    again = tolerant(again)
    if again.agrees:
        return again
    wide = tolerant(pair(probe, backward, doubted.widened(), pairing.direction, cotangent))
    return wide if wide.agrees else again


def _backward_noise(probe: Probe, pairing: Pairing) -> float:
    """Of the terms of <v, J u>, and of their sum; the point is none of those looked at, since it may be odd itself."""
    points = [probe.point + i * probe.grid.smallest * pairing.direction for i in range(1, 1 + SAMPLES)]
    gradients = [Backward(probe, point).vjp(pairing.cotangent) for point in points]
    products = torch.stack(gradients) * pairing.direction
    return max(_norm(ecnoise(products)), _norm(ecnoise(products.sum(1, keepdim=True))))


def _cancellation(probe: Probe, backward: Backward, pairing: Pairing) -> float:
    """By how much <v J, u> moves where v moves by a unit in the last place.

    It is nothing where the same v gives another gradient each time: that is noise, and no cancellation.
    """
    if not torch.equal(backward.vjp(pairing.cotangent), pairing.gradient):
        return 0.0
    generator = torch.Generator().manual_seed(probe.case.seed)
    largest = 0.0
    for _ in range(_NUDGES):
        units = torch.randint(0, 2, pairing.cotangent.shape, generator=generator) * 4 - 2
        moved = backward.vjp(pairing.cotangent * (1 + units * probe.grid.epsilon)) - pairing.gradient
        products = torch.where(pairing.direction != 0, moved * pairing.direction, 0)
        largest = max(largest, _norm(products), abs(float(products.sum())))
    return largest


def _norm(vector: Tensor) -> float:
    """The Euclidean norm, also of elements whose squares a number cannot hold."""
    largest = float(vector.abs().max()) if len(vector) else 0.0
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * float(torch.linalg.vector_norm(vector / largest))
