"""What the heat maps of a finding show, whoever draws them: the Jacobian by both sides, and their ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..finding import Evidence
from ..numerals import brief, shown, subscripts

MOST = 32
"""Rows and columns of a map; of a larger Jacobian the part around the largest deviation is shown."""
SLACK = 4
"""How many times its estimate the error of an entry may be; single estimates can be that much too small."""
FARTHEST = 2.0
"""Where the scale of ratios ends on both sides of 1."""
NEAR = 0.01
"""Ratios that are all nearer to 1 are shown as their distances from it."""

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
