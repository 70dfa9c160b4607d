"""Values that part what is wrong from what is right, over all looks: the simplest number between the two."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .look import Array, Block, Side

FEW = 5
"""Of other tensors than the input there must be so many different values on both sides."""


@dataclass(frozen=True)
class Scale:
    """A real number for each column, or each row, of a block.

    Attributes:
        label: as ``|x|``.
        values: one-dimensional.
        rows: they belong to rows.
        cost: how far-fetched it is that the place depends on them.
    """

    label: str
    values: Array
    rows: bool
    cost: float


def scales(block: Block) -> Iterator[Scale]:
    """All numbers by which the place may be chosen, those of the input first."""
    look = block.look
    yield from _scales(block, block.input, False, 0)
    yield from _scales(block, block.output, True, 0.5)
    for side in look.inputs:
        if side is not block.input:
            yield from _scales(block, side, False, 0.4)
        yield from _scales(block, side, True, 0.6)
    for first, second in itertools.combinations([s for s in look.inputs if not np.iscomplexobj(s.value)][:4], 2):
        if first.value.shape == second.value.shape:
            gap = Side(f"{first.name} - {second.name}", first.value - second.value, pairs=first.pairs)
            yield from _scales(block, gap, False, 0.5)


def _scales(block: Block, side: Side, rows: bool, cost: float) -> Iterator[Scale]:
    where, shape = (block.output, block.output_shape) if rows else (block.input, block.input_shape)
    if not side.value.size or (side.value.size == 1 < where.value.size):
        return
    kinds = {f"|{side.name}|": (np.abs(side.value), 0.1)}
    if np.iscomplexobj(side.value):
        kinds |= {f"Re {side.name}": (side.value.real, 0.0), f"Im {side.name}": (side.value.imag, 0.0)}
    else:
        kinds = {side.name: (side.value, 0.0), **kinds}
    for label, (numbers, more) in kinds.items():
        try:
            spread = np.broadcast_to(numbers[..., None] if where.pairs and not block.folded else numbers, shape)
        except ValueError:
            continue
        yield Scale(label, spread.ravel(), rows, cost + more)


@dataclass(frozen=True)
class Cut:
    """An interval of a scale: what lies in it is wrong, in all looks, and nothing else is.

    Attributes:
        label: of the scale.
        rows: as of the scale.
        low: what the values are above, or at least.
        high: what they are below, or at most.
        closed: whether each end belongs to it.
        cost: how far-fetched it is.
    """

    label: str
    rows: bool
    low: float
    high: float
    closed: tuple[bool, bool]
    cost: float

    @property
    def words(self) -> str:
        """As ``where x < 0``."""
        left, right = ("<=" if end else "<" for end in self.closed)
        if self.low == self.high:
            return f"where {self.label} is {self.low:g}"
        if self.low == -math.inf:
            return f"where {self.label} {right} {self.high:g}"
        if self.high == math.inf:
            return f"where {self.label} {'>=' if self.closed[0] else '>'} {self.low:g}"
        return f"where {self.low:g} {left} {self.label} {right} {self.high:g}"

    def holds(self, values: Array) -> Array:
        """Which values lie in it."""
        above = values >= self.low if self.closed[0] else values > self.low
        below = values <= self.high if self.closed[1] else values < self.high
        both: Array = above & below
        return both


def cuts(blocks: Sequence[Block]) -> list[Cut]:
    """All intervals that part wrong columns or rows from right ones."""
    wrong, right = dict[tuple[str, bool], list[Array]](), dict[tuple[str, bool], list[Array]]()
    costs = dict[tuple[str, bool], float]()
    for block in blocks:
        for scale in scales(block):
            key, axis = (scale.label, scale.rows), int(scale.rows)
            bad = block.wrong.any(axis)
            alive = (block.judged & (np.abs(block.numeric) > 4 * block.estimate)).any(axis)
            wrong.setdefault(key, []).append(scale.values[bad])
            right.setdefault(key, []).append(scale.values[alive & ~bad])
            costs.setdefault(key, scale.cost)
    made = (_cut(key, np.concatenate(wrong[key]), np.concatenate(right[key]), costs[key]) for key in wrong)
    return [cut for cut in made if cut is not None]


def _cut(key: tuple[str, bool], wrong: Array, right: Array, cost: float) -> Cut | None:
    """The interval around the wrong values that no right one lies in, with simple ends."""
    few = FEW if cost else 1  # any few numbers can be parted by something
    if min(len(np.unique(wrong)), len(np.unique(right))) < few or not np.isfinite(wrong).all():
        return None
    low, high = float(wrong.min()), float(wrong.max())
    if ((right >= low) & (right <= high)).any():
        return None
    below, above = right[right < low].max(initial=-math.inf), right[right > high].min(initial=math.inf)
    if low == high and math.isfinite(below) and math.isfinite(above):
        return Cut(*key, low, high, (True, True), cost + 0.8 + 1.2 * (low != 0))
    start = -math.inf if below == -math.inf else simplest(float(below), low)
    end = math.inf if above == math.inf else simplest(high, float(above))
    closed = (start == low, end == high and math.isfinite(end))
    ends = [e for e in (start, end) if math.isfinite(e)]
    far = sum(0.0 if e == 0 else 0.3 for e in ends) + 0.5 * (len(ends) - 1) + 0.1 * sum(closed)
    return Cut(*key, start, end, closed, cost + 0.9 + far)


def simplest(low: float, high: float) -> float:
    """The number of fewest digits from `low` to `high`."""
    if low <= 0 <= high:
        return 0.0
    if high < 0:
        return -simplest(-high, -low)
    for exponent in range(math.floor(math.log10(high)), -16, -1):
        for step in (10.0, 5.0, 2.0, 1.0):  # 1 before 5 before 2 of the digits of this place
            unit = step * 10.0**exponent
            least = math.ceil(low / unit - 1e-9) * unit
            if low <= least <= high:
                return float(f"{least:.12g}")
    return low
