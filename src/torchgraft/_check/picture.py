"""What the pictures of a finding show, whoever draws them: three maps of the Jacobian, and the ladder of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .finding import Evidence
from .numerals import apart, brief, power, shown, subscripts

MOST = 32
"""Rows and columns of a map; of a larger Jacobian the part around the largest deviation is shown."""
SLACK = 4
"""How many times its estimate the error of an entry may be; single estimates can be that much too small."""
FARTHEST = 2.0
"""Where the scale of ratios ends on both sides of 1."""
NEAR = 0.01
"""Ratios that are all nearer to 1 are shown as their distances from it."""
MOST_TICKS = 4
"""Powers of ten that the axis of distances shows on each side of zero."""
CLEARANCE = 0.16
"""How near they come to zero, of half the axis."""

Cell = tuple[int, int]


@dataclass(frozen=True)
class Map:
    """One heat map.

    Attributes:
        title: what it shows.
        values: one for each cell; not finite where there is none.
        center: the value whose colour is neutral.
        limit: how far from it the colours go.
        ends: the values at both ends of the colours, as text.
        marks: what stands in a cell in the place of a number.
    """

    title: str
    values: list[list[float]]
    center: float
    limit: float
    ends: tuple[str, str]
    marks: dict[Cell, str]

    def text(self, cell: Cell, fits: int = 6) -> str | None:
        """What is written into a cell: its mark, or its number with as many digits as have room; None without room."""
        if cell in self.marks:
            texts = [self.marks[cell]]
        elif self.center and self.limit < NEAR and (offset := self.values[cell[0]][cell[1]] - self.center):
            texts = [f"{offset:+.1g}"]
        else:
            texts = [shown(self.values[cell[0]][cell[1]] + 0.0, digits) for digits in (3, 2, 1)]  # no negative zero
        return next((text for text in texts if len(text) <= fits), None)


@dataclass(frozen=True)
class Maps:
    """The Jacobian by both sides, and their ratio.

    Attributes:
        maps: what the derivative under test gives, what differences give, and the first over the second.
        wrong: cells that deviate by more than numerics explain.
        rows: names of the outputs' entries.
        columns: names of the inputs' entries.
        caption: what of the Jacobian is shown, and how much of it is wrong.
    """

    maps: tuple[Map, Map, Map]
    wrong: frozenset[Cell]
    rows: list[str]
    columns: list[str]
    caption: str


def maps(evidence: Evidence) -> Maps | None:
    """The heat maps; None where there are no entries."""
    analytic, numeric = _real(evidence.analytic, evidence.numeric)
    if not numeric.numel():
        return None
    noise = _noise(evidence, numeric)
    unknown = noise.isinf()
    numeric = torch.where(unknown, torch.nan, numeric)
    wrong = ~((analytic - numeric).abs() <= noise) & ~unknown & (evidence.estimate is not None)
    rows, columns = _window(torch.where(unknown, 0, _deviation(analytic, numeric)))
    caption = _extent(numeric.shape, rows, columns)
    if evidence.estimate is not None:
        told = _share(int(wrong.sum()), wrong.numel()), _untold(int(unknown.sum()))
        caption = " ".join(filter(None, [*told, caption]))
    names = subscripts(evidence.outputs, len(numeric)), subscripts(evidence.inputs, numeric.shape[1])
    analytic, numeric, noise, wrong, unknown = (
        part[rows, columns] for part in (analytic, numeric, noise, wrong, unknown)
    )
    untold = dict.fromkeys(_cells(unknown), "?")
    limit = max((abs(entry) for entry in _known(analytic, numeric)), default=0.0) or 1.0
    ends = f"-{brief(limit)}", brief(limit)
    return Maps(
        (
            Map("analytic", analytic.tolist(), 0.0, limit, ends, _unknown(analytic)),
            Map("numeric", numeric.tolist(), 0.0, limit, ends, _unknown(numeric) | untold),
            _ratio(analytic, numeric, noise, wrong, untold),
        ),
        frozenset(_cells(wrong)),
        names[0][rows], names[1][columns], caption,
    )  # fmt: skip


def _real(analytic: Tensor, numeric: Tensor) -> tuple[Tensor, Tensor]:
    """Both in float64; the entries of a complex Jacobian become two columns, real and imaginary part."""
    both = [side.detach().cpu() for side in (analytic, numeric)]
    if any(side.is_complex() for side in both):
        both = [torch.view_as_real(side.to(torch.complex128).resolve_conj()).flatten(1) for side in both]
    first, second = (side.double() for side in both)
    return first, second


def _noise(evidence: Evidence, numeric: Tensor) -> Tensor:
    """How much each entry may deviate."""
    if evidence.estimate is None:
        return torch.zeros_like(numeric)
    estimate = evidence.estimate.detach().cpu()
    if estimate.is_complex():
        estimate = torch.view_as_real(estimate.resolve_conj()).flatten(1)
    elif estimate.shape != numeric.shape:
        estimate = estimate.repeat_interleave(2, 1)  # of complex numbers
    size = numeric[numeric.isfinite()].abs().amax().item() if numeric.isfinite().any() else 0.0
    epsilon = max(torch.finfo(side.dtype).eps for side in (evidence.analytic, evidence.numeric))
    return SLACK * estimate.double() + 256 * epsilon * size


def _deviation(analytic: Tensor, numeric: Tensor) -> Tensor:
    return (analytic - numeric).abs().nan_to_num(nan=torch.inf)


def _window(deviation: Tensor) -> tuple[slice, slice]:
    """The part that is drawn, with the largest deviation in its middle."""
    worst = divmod(int(deviation.argmax()), deviation.shape[1])
    first, second = (
        slice(start := max(0, min(place - MOST // 2, size - MOST)), start + MOST)
        for place, size in zip(worst, deviation.shape, strict=True)
    )
    return first, second


def _share(wrong: int, total: int) -> str:
    if wrong == 0:
        return "No entry deviates by more than numerics explain."
    return (
        f"{wrong} of {total} entries {'deviates' if wrong == 1 else 'deviate'} by more than numerics explain (framed)."
    )


def _untold(count: int) -> str:
    return f"{count} without a derivative that differences can tell (?)." if count else ""


def _extent(shape: Sequence[int], rows: slice, columns: slice) -> str:
    if max(shape) <= MOST:
        return ""
    height, width = min(shape[0], MOST), min(shape[1], MOST)
    return (
        f"Shown are {height} x {width} of {shape[0]} x {shape[1]} entries, around the largest deviation: "
        f"rows from {rows.start}, columns from {columns.start}."
    )


def _known(*sides: Tensor) -> list[float]:
    entries: list[float] = torch.cat(sides).flatten().tolist()
    return [entry for entry in entries if math.isfinite(entry)]


def _cells(mask: Tensor) -> list[Cell]:
    return [(row, column) for row, column in mask.nonzero().tolist()]


def _unknown(values: Tensor) -> dict[Cell, str]:
    return {cell: str(values[cell].item()) for cell in _cells(~values.isfinite())}


def _ratio(analytic: Tensor, numeric: Tensor, noise: Tensor, wrong: Tensor, untold: dict[Cell, str]) -> Map:
    """The map of analytic / numeric, around 1; where the numeric entry is zero there is no number, but a mark."""
    zero = numeric.abs() <= noise
    nothing = zero & (analytic.abs() <= noise)
    ratio = torch.where(zero, torch.nan, analytic / numeric)
    known = ratio.isfinite()
    telling = known & wrong if (known & wrong).any() else known
    far = (ratio[telling] - 1).abs().max().item() if telling.any() else 1.0
    limit = min(far, FARTHEST) or 1.0
    marks = (
        _unknown(ratio) | untold | dict.fromkeys(_cells(nothing), "0/0") | dict.fromkeys(_cells(zero & ~nothing), "x/0")
    )
    ratio = torch.where(nothing, 1.0, ratio)
    ratio = torch.where(zero & ~nothing & analytic.isfinite(), 1 + limit * analytic.sign(), ratio)
    return Map("ratio", ratio.tolist(), 1.0, limit, _ends(limit, far), marks)


def _ends(limit: float, far: float) -> tuple[str, str]:
    if far > limit * (1 + 1e-9):
        return f"{shown(1 - limit)} or less", f"{shown(1 + limit)} or more"
    if limit < NEAR:
        return f"1 - {brief(limit)}", f"1 + {brief(limit)}"
    return shown(1 - limit, 3), shown(1 + limit, 3)


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
