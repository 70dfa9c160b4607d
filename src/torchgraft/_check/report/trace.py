"""What the picture of the ladder shows, whoever draws it: how the numeric derivative depends on the step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ..finding import Evidence
from ..numerals import apart, brief, power, shown

MOST_TICKS = 4
"""Powers of ten that the axis of distances shows on each side of zero."""
CLEARANCE = 0.16
"""How near they come to zero, of half the axis."""


@dataclass(frozen=True)
class Trace:
    """The ladder: how the estimate depends on the step, as distances from the estimate that was used.

    Attributes:
        steps: from large to small.
        offsets: of the estimate at each step.
        bars: its estimated error; infinite where nothing is known.
        chosen: the place of the step that was used.
        along: the offset of the derivative under test.
        linear: up to this distance the axis is linear, beyond it logarithmic.
        reach: how far the axis goes.
        caption: the numbers.
    """

    steps: list[float]
    offsets: list[float]
    bars: list[float]
    chosen: int
    along: float | None
    linear: float
    reach: float
    caption: str

    def height(self, offset: float) -> float:
        """Where an offset is on the axis, from -1 to 1: asinh is linear near zero and logarithmic beyond."""
        part = math.asinh(offset / self.linear) / math.asinh(self.reach / self.linear)
        return max(-1.0, min(1.0, part))

    def exponents(self) -> list[int]:
        """The powers of ten to show on both sides of the axis, the largest first."""
        lowest, highest = math.ceil(math.log10(self.linear)), math.floor(math.log10(self.reach))
        stride = max(1, math.ceil((highest - lowest + 1) / MOST_TICKS))
        return [power for power in range(highest, lowest - 1, -stride) if self.height(10.0**power) >= CLEARANCE]


def trace(evidence: Evidence) -> Trace | None:
    """The ladder as it is drawn; None where there is none."""
    bars = [bar if bar >= 0 else math.inf for bar in evidence.bars] or [math.inf] * len(evidence.steps)
    every = list(zip(evidence.steps, evidence.ladder, bars, strict=True))
    points = [(step, value, bar) for step, value, bar in every if step > 0 and math.isfinite(value)]
    if not points:
        return None
    used = min(points, key=lambda point: point[2]) if evidence.chosen is None else every[evidence.chosen]
    if used not in points:
        return None
    step, reference, bar = used
    offsets = [value - reference for _, value, _ in points]
    along = None if evidence.along is None or not math.isfinite(evidence.along) else evidence.along - reference
    sizes = [abs(offset) for offset in (*offsets, along or 0.0) if offset]
    floor = torch.finfo(torch.float64).eps * max(abs(reference), torch.finfo(torch.float64).tiny)
    linear = max(bar if math.isfinite(bar) else min(sizes, default=floor), floor)
    known = [bar for *_, bar in points if bar <= 100 * max(sizes, default=linear)]  # a bar need not fit as a whole
    return Trace(
        [step for step, *_ in points], offsets, [bar for *_, bar in points], points.index(used), along,
        linear, 2 * max([*sizes, *known, linear]), _caption(step, reference, bar, evidence.along),
    )  # fmt: skip


def _caption(step: float, reference: float, bar: float, along: float | None) -> str:
    under, by = apart(along, reference) if along is not None else ("", shown(reference, 7))
    error = f" (error at most about {brief(bar)})" if math.isfinite(bar) else ""
    said = f"; the derivative under test gives {under}" if along is not None else ""
    return f"Along one direction, differences with the step {step_name(step)} give {by}{error}{said}."


def step_name(step: float) -> str:
    """A step as a power of two, if it is one."""
    mantissa, exponent = math.frexp(step)
    return power(2, exponent - 1) if mantissa == 0.5 else brief(step)
