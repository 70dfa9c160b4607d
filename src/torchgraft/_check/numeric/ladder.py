"""The derivative of a function along a line, with an error estimate for each element of its result.

Central differences at steps h, h/2, h/4, ... are extrapolated to h = 0 (see `neville`), each element of the result as
far as its own noise and curvature allow, so that one ladder serves outputs of very different scales.

The even part of the function, (f(h) + f(-h) - 2 f(0)) / 2h, is half the difference of the slopes on both sides.
Extrapolated in the same way it must vanish: where it does not, there is a kink at h = 0, and where it does not even
settle, a jump. A kink elsewhere on the line spoils the steps that reach beyond it, and no others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .vectors import Grid

RUNGS = (4, 6, 8, 11, 15)
"""Numbers of steps that a ladder takes: the fewest that tell enough."""

_USUAL = 8
"""A ladder with more steps goes on only where most is unknown, or the last steps told more."""

_ENOUGH = 0.98
"""The share of elements that must be known well for a ladder to be long enough."""

_DIGITS = 0.7
"""The share of the dtype's digits in which a derivative is known well."""

SINGLE = 24
"""Digits of float32."""

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


class Rough(Exception):
    """The function gives nothing to compare near the point: it raises there, or is not finite."""


@dataclass(frozen=True)
class Ladder:
    """Findings of differences along a line: `m` elements, `n` steps.

    Attributes:
        derivative: along the line, ``(m,)``.
        error: its estimated error, infinite where nothing can be estimated.
        kinked: where the slopes on both sides differ, or the function jumps.
        unresolved: where the error is so large that the derivative tells nothing.
        jagged: where the function does not follow its derivative for the smallest step, as stairs do not.
        scale: the size of the derivative and of what it is the derivative of.
        grain: what the noise of the values is worth as a derivative.
        steps: from large to small.
        table: the best estimate of the derivative by each step together with the larger ones, ``(n, m)``.
        bars: the estimated errors of `table`.
    """

    derivative: Tensor
    error: Tensor
    kinked: Tensor
    unresolved: Tensor
    jagged: Tensor
    scale: Tensor
    grain: Tensor
    steps: tuple[float, ...]
    table: Tensor
    bars: Tensor

    @functools.cached_property
    def known(self) -> Tensor:
        """The elements that have a derivative, and a known one."""
        return ~(self.kinked | self.unresolved | self.jagged)

    def blurred(self, noise: Tensor, size: Tensor, grid: Grid) -> Ladder:
        """The ladder with larger errors: for a function that has fewer digits, of which this is the reference.

        A derivative has the relative error of the value, and where the function is nearly flat its absolute one: what
        saturates is computed from numbers next to 1, and the difference to 1 has lost their digits. (Of the few digits
        of half precision nothing would be left.)

        Args:
            noise: the size of the errors of its values, ``(m,)``.
            size: of its values, ``(m,)``.
            grid: of its dtype.
        """
        relative = (self.derivative.abs() / size).nan_to_num(nan=0, posinf=torch.inf)
        floor = 4 * noise * (relative + (grid.digits >= SINGLE))
        error = self.error + floor
        return replace(
            self,
            error=error,
            unresolved=self.unresolved | ~(error <= grid.epsilon**0.25 * self.scale),
            bars=self.bars + floor,
            grain=noise * 2**grid.first,
        )

    def scaled(self, factor: float) -> Ladder:
        """The ladder for a direction that is longer by a factor."""
        return replace(
            self, derivative=self.derivative * factor, error=self.error * factor, scale=self.scale * factor,
            grain=self.grain * factor, table=self.table * factor, bars=self.bars * factor,
        )  # fmt: skip

    def widened(self) -> Ladder:
        """The ladder by its larger steps, where these tell something else.

        Small steps see the stairs that a value has whose digits were lost on the way, such as 1 + erf(-7). What is left
        of them tells signs and factors.
        """
        bars, place = self.bars[: (len(self.steps) + 1) // 2].nan_to_num(nan=torch.inf).min(0)
        wide = self.table.gather(0, place[None])[0]
        other = bars.isfinite() & ((wide - self.derivative).abs() > 4 * (bars + self.error))
        derivative = torch.where(other, wide, self.derivative)
        return replace(self, derivative=derivative, error=torch.where(other, bars + wide.abs() / 16, self.error))

    def doubting(self, other: Ladder) -> Ladder:
        """The ladder with an error that another ladder of the same derivative explains too."""
        apart = (self.derivative - other.derivative).abs()
        return replace(
            self, error=torch.maximum(self.error, other.error) + apart, kinked=self.kinked | other.kinked,
            unresolved=self.unresolved | other.unresolved, jagged=self.jagged | other.jagged,
        )  # fmt: skip


def climb(
    function: Callable[[float], Tensor], center: Tensor, noise: Tensor, grid: Grid, size: Tensor | None = None
) -> Ladder:
    """The derivative at 0 of a function of one number.

    Args:
        function: gives the ``(m,)`` values, or raises.
        center: its values at 0.
        noise: the size of the errors of its values, ``(m,)``.
        grid: the steps, and the digits that its values have.
        size: of the numbers that its values are computed from, ``(m,)``; that of the values by default.

    Raises:
        Rough: there is nothing to compare.

    Example:
        >>> at = torch.tensor([1.0, 2.0], dtype=torch.float64)
        >>> climb(lambda h: (at + h).sin(), at.sin(), 1e-16 * at, grid_of([at])).derivative
        tensor([ 0.5403, -0.4161], dtype=torch.float64)
    """
    rungs = _Rungs(function, center, grid)
    size = center.abs() if size is None else size
    before = 0.0
    for number in RUNGS:
        rungs.extend(number)
        samples = torch.stack(rungs.odd + rungs.even).view(2, len(rungs.steps), -1)
        best = neville(samples, rungs.steps, noise)
        (derivative, kink), (error, kink_error), bars = best.value, best.error, best.bars
        scale = torch.maximum(derivative.abs(), size)
        # Where both are 0, as of x^2 at 0, there are the values beside it.
        scale = torch.where(scale == 0, (samples[:, 0].abs() * rungs.steps[0]).amax(0), scale)
        finest = torch.maximum(grid.epsilon**_DIGITS * scale, 4 * noise / rungs.steps[0])
        # Smaller steps may be worse by the noise alone. Else the large ones overlooked something.
        jagged = bars[-1] > 16 * (error + 4 * noise / rungs.steps[-1]) + finest
        good = ((error <= finest) & ~jagged) | ~center.isfinite()
        share = float(good.double().mean()) if len(good) else 1.0
        if share >= _ENOUGH or len(rungs.steps) < number or (number > _USUAL and 0.5 < share <= before):
            break
        before = share
    scale = torch.maximum(scale, derivative.abs().nan_to_num(posinf=0).mean())
    coarsest = grid.epsilon**0.25 * scale
    bend = torch.where(kink.abs() > 4 * (kink_error + error), kink.abs(), 0)
    kinked = bend > grid.epsilon**0.5 * scale
    unresolved = ~(torch.maximum(error, kink_error) <= coarsest) | ~center.isfinite()
    jagged |= rungs.jagged(derivative, error, noise)
    error = error + bend  # A slight kink does not give the element up.
    grain = noise / rungs.steps[0]
    return Ladder(derivative, error, kinked, unresolved, jagged, scale, grain, tuple(rungs.steps), best.table, bars)


@dataclass
class _Rungs:
    """The function's values at each step."""

    function: Callable[[float], Tensor]
    center: Tensor
    grid: Grid
    steps: list[float] = field(default_factory=list)
    odd: list[Tensor] = field(default_factory=list)
    even: list[Tensor] = field(default_factory=list)

    def extend(self, number: int) -> None:
        """Take smaller steps until there are `number`; begin nearer where the function is not defined so far out."""
        step = self.steps[-1] / 2 if self.steps else 2.0**-self.grid.first
        while len(self.steps) < number and step >= self.grid.smallest:
            plus, minus = self._value(step), self._value(-step)
            if plus is None or minus is None or (not self.steps and self._outside(plus + minus)):
                self.steps, self.odd, self.even = [], [], []
                step /= 4
                continue
            self.steps.append(step)
            self.odd.append((plus - minus) / (2 * step))
            self.even.append((plus + minus - 2 * self.center) / (2 * step))
            step /= 2
        if not self.steps:
            raise Rough

    def _value(self, step: float) -> Tensor | None:
        try:
            value = self.function(step)
        except Exception:  # It may raise anything beyond its domain.
            return None
        return value if value.shape == self.center.shape else None

    def _outside(self, values: Tensor) -> bool:
        """Tell whether less than half of the finite elements are finite there too."""
        finite = self.center.isfinite()
        return 2 * int(values[finite].isfinite().sum()) < int(finite.sum())

    def jagged(self, derivative: Tensor, error: Tensor, noise: Tensor) -> Tensor:
        """The elements that do not follow their derivative for the smallest step."""
        step = self.grid.smallest
        value = self._value(step)
        if value is None:
            raise Rough
        ratio = step / self.steps[-1]
        bend = self.even[-1].abs() * ratio + (self.odd[-1] - derivative).abs() * ratio**2
        return ~((value - self.center - step * derivative).abs() <= 4 * (2 * noise + step * (error + bend)))


# -- extrapolation of differences to the step 0, with an error estimate for each element -----------------------------

# This is Neville's scheme [1] on differences at steps h, h/2, h/4, ... The error estimate of an entry has two parts.
# Its difference from its neighbours shows the truncation error, and a bound tells what the noise of the function's
# values does to it. Each element of the result takes the entry with the least estimate.
#
# The tables are small and the operations many, for which numpy takes a fourth of torch's time. Large tables are made
# piece by piece: what lies in the processor's cache takes a third of the time.
#
# [1] Ridders, "Accurate computation of F'(x) and F'(x) F''(x)", Adv. Eng. Software 4 (1982), 75-76.


PIECE = 1 << 14
"""Elements that are extrapolated together."""


class Extrapolated(NamedTuple):
    """The extrapolations to h = 0 of both parts of a function.

    Attributes:
        table: of the odd part, the best that ends at each step, ``(n, m)``.
        bars: the estimated errors of `table`.
        value: the best of all, of either part, ``(2, m)``.
        error: the estimated error of `value`.
    """

    table: Tensor
    bars: Tensor
    value: Tensor
    error: Tensor


def neville(samples: Tensor, steps: list[float], noise: Tensor) -> Extrapolated:
    """Extrapolate differences at the given steps to h = 0.

    Args:
        samples: ``(2, n, m)``: an odd part over h, whose error is a series in h^2, h^4, ..., and an even part over h,
            whose error is one in h, h^3, ...
        steps: ``n`` of them, each half of the one before.
        noise: of the values that the samples were made of, ``(m,)``.
    """
    pieces = [_neville(s, steps, n) for s, n in zip(samples.split(PIECE, -1), noise.split(PIECE), strict=True)]
    return Extrapolated(*(torch.cat(parts, -1) for parts in zip(*pieces, strict=True)))


@np.errstate(all="ignore")  # An infinite or NaN error is never the best.
def _neville(samples: Tensor, steps: list[float], noise: Tensor) -> Extrapolated:
    column, jitter = samples.numpy(), noise.numpy()
    powers = np.array([2, 1]).reshape(2, 1, 1)
    amplified = np.array([1.0, 2.0]).reshape(2, 1, 1) / np.array(steps)[:, None]
    table, bars = column.copy(), np.full_like(column, np.inf)
    for order in range(len(steps)):
        if order:
            finer, coarser, factor = column[:, 1:], column[:, :-1], 2**powers - 1
            column = finer + (finer - coarser) / factor
            amplified = amplified[:, 1:] + (amplified[:, 1:] + amplified[:, :-1]) / factor
            change = np.maximum(abs(column - finer), abs(column - coarser))
            powers = powers + 2
        else:
            change = np.zeros_like(column)
            change[:, 0] = np.inf  # The largest step alone tells nothing of its error.
        change[:, 1:] = np.maximum(change[:, 1:], abs(column[:, 1:] - column[:, :-1]))
        change += amplified * jitter
        better = change < bars[:, order:]
        np.copyto(table[:, order:], column, where=better)
        np.copyto(bars[:, order:], change, where=better)
    value, error = _best(table, bars, steps)
    return Extrapolated(*map(torch.from_numpy, (table[0], bars[0], value, error)))


def _best(table: Array, bars: Array, steps: list[float]) -> tuple[Array, Array]:
    """Of each element the entry with the least error, and that error.

    From the smallest step to the largest: no entry is taken that smaller steps speak against, such as one of steps
    that all reach beyond the same kink. What the smallest step is off by is noise, if more of it than was measured;
    of larger steps it makes an error that is smaller in proportion.
    """
    value, error, step = table[:, -1].copy(), bars[:, -1].copy(), np.full_like(table[:, -1], steps[-1])
    for row in range(len(steps) - 2, -1, -1):
        better = (bars[:, row] < error) & (abs(table[:, row] - value) <= 4 * error)
        for best, other in ((value, table[:, row]), (error, bars[:, row]), (step, steps[row])):
            np.copyto(best, other, where=better)
    drift = abs(table[:, -1] - value) * steps[-1] / step
    return value, np.maximum(error, np.where(np.isnan(drift), np.inf, drift))


# -- how much the values of a computed function jitter, measured rather than assumed ---------------------------------

SAMPLES = 7
"""The number of equidistant points that the estimate takes."""

_ORDERS = (4, 5, 6)
_GAMMA = {k: math.factorial(k) ** 2 / math.factorial(2 * k) for k in _ORDERS}


def ecnoise(samples: Tensor) -> Tensor:
    """The standard deviation of the noise in each column of `samples`, from ECnoise [1].

    The k-th differences of a smooth function fade with the k-th power of the spacing, those of noise with standard
    deviation s have the mean square s^2 (2k)! / (k!)^2. The largest estimate of the orders 4, 5 and 6 is taken: with so
    few samples each can be small by chance.

    Args:
        samples: values at `SAMPLES` points of equal, small spacing, ``(SAMPLES, n)``.

    [1] Moré and Wild, "Estimating computational noise", SIAM J. Sci. Comput. 33 (2011), equation (2.3).
    """
    unit = samples.abs().amax(0).clamp(min=torch.finfo(samples.dtype).tiny)  # Squares of small values would be zero.
    largest, differences = torch.zeros_like(samples[0]), samples / unit
    for k in range(1, _ORDERS[-1] + 1):
        differences = differences[1:] - differences[:-1]
        if k in _ORDERS:
            largest = torch.maximum(largest, _GAMMA[k] * differences.square().mean(0))
    return largest.sqrt() * unit
