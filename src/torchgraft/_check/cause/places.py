"""Places where a derivative is wrong: everywhere, at some indices, where values are negative, small, tied..."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .blocks import Array, Block, Side
from .rearranged import element

# -- parts of a block ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Region:
    """A part of a block.

    Attributes:
        words: after the gradient and what it is, as "where x < 0"; empty for everywhere.
        mask: of the entries.
        cost: how far-fetched it is.
    """

    words: str
    mask: Array
    cost: float


def regions(block: Block, cuts: Sequence[Cut]) -> dict[str, Region]:
    """Parts of a block by their words, the whole first; those that are the whole only in this look among them."""
    shape = block.wrong.shape
    found = {"": Region("", np.ones(shape, dtype=bool), 0)}
    for region in (*_cut(block, cuts), *_columns(block), *_rows(block), *_frequencies(block), *_both(block)):
        found.setdefault(region.words, Region(region.words, np.broadcast_to(region.mask, shape), region.cost))
    return found


def tight(block: Block, region: Region) -> bool:
    """Whether a region is not too wide: every column is wrong somewhere if it chooses columns, or every row if rows."""
    wrong, mask = block.wrong & region.mask, region.mask
    moves = block.numeric != 0
    columns = wrong.any(0) | ~(mask & moves).any(0)
    rows = wrong.any(1) | ~(mask & moves).any(1)
    chosen, taken = not mask.any(0).all(), not mask.any(1).all()
    if chosen is taken:  # both or neither
        return bool(columns.all() or rows.all())
    return bool(columns.all() if chosen else rows.all())


def telling(block: Block, region: Region) -> bool:
    """Whether a region leaves out something that is right."""
    outside = block.judged & ~region.mask & ~block.wrong
    return bool((outside & (np.abs(block.numeric) > 4 * block.estimate)).any())


def _cut(block: Block, cuts: Sequence[Cut]) -> Iterator[Region]:
    """Where values are in an interval."""
    known = {(scale.label, scale.rows): scale for scale in scales(block)}
    for cut in cuts:
        scale = known.get((cut.label, cut.rows))
        if scale is not None:
            mask = cut.holds(scale.values)
            yield Region(cut.words, mask[:, None] if cut.rows else mask[None, :], cut.cost)


def _columns(block: Block) -> Iterator[Region]:
    wrong = np.asarray(block.wrong.any(0))
    for words, mask, cost in _places(block.input_shape, wrong, block.input.pairs and not block.folded):
        yield Region(words, mask[None, :], cost)
    yield from (Region(words, mask[None, :], cost) for words, mask, cost in _ranked(block.input, block.input_shape))
    yield from _compared(block)


def _rows(block: Block) -> Iterator[Region]:
    wrong = np.asarray(block.wrong.any(1))
    for words, mask, cost in _places(block.output_shape, wrong, block.output.pairs and not block.folded):
        yield Region(f"{words} of {block.output.name}", mask[:, None], cost + 0.3)


def _frequencies(block: Block) -> Iterator[Region]:
    """Where half a spectrum stands for the other half as well."""
    out, into = block.output.value, block.input.value
    if np.iscomplexobj(out) is np.iscomplexobj(into) or out.ndim != into.ndim or not out.ndim:
        return
    spectrum, signal, rows = (out, into, True) if np.iscomplexobj(out) else (into, out, False)
    n, k = signal.shape[-1], np.arange(spectrum.shape[-1])
    if len(k) != n // 2 + 1:
        return
    twice = np.broadcast_to((k > 0) & (2 * k < n), spectrum.shape)
    if not block.folded:
        twice = np.repeat(twice[..., None], 2, -1)
    mask = twice.reshape(-1, 1) if rows else twice.reshape(1, -1)
    of = f" of {block.output.name if rows else block.input.name}"
    yield Region(f"at the frequencies{of} that stand for negative ones too", mask, 0.9)


def _both(block: Block) -> Iterator[Region]:
    if block.output_shape != block.input_shape or len(block.wrong) < 2:
        return
    own = np.eye(len(block.wrong), dtype=bool)
    lower = np.tri(len(own), k=-1, dtype=bool)
    yield Region("in what an element does to itself", own, 1.5)
    yield Region("in what an element does to others", ~own, 1.5)
    yield Region("in what an element does to later ones", lower, 1.8)
    yield Region("in what an element does to earlier ones", lower.T, 1.8)


def _places(shape: tuple[int, ...], wrong: Array, pairs: bool) -> Iterator[tuple[str, Array, float]]:
    """Regions by index: the last, all but the first, from some on..., along one axis; one element; a triangle."""
    if not shape or not wrong.size:
        return
    at = np.indices(shape).reshape(len(shape), -1)
    for axis, size in enumerate(shape):
        if pairs and axis == len(shape) - 1:
            yield "in the real part", at[axis] == 0, 0.6
            yield "in the imaginary part", at[axis] == 1, 0.6
        else:
            of = "" if len(shape) - pairs == 1 else f" of axis {axis}"
            for words, chosen, cost in _indices(size, np.unique(at[axis][wrong])):
                yield words + of, chosen[at[axis]], cost
    if wrong.sum() == 1 and wrong.size > 1:
        place = int(np.flatnonzero(wrong)[0])
        if len(shape) > 1 and place in (0, wrong.size - 1):
            yield f"in the {'last' if place else 'first'} element", wrong, 1.05
        yield f"in one element, {element(shape, place)}", wrong, 1.6
    if len(shape) - pairs > 1:
        i, j = at[len(shape) - pairs - 2], at[len(shape) - pairs - 1]
        yield "on the diagonal", i == j, 1.2
        yield "off the diagonal", i != j, 1.3
        yield "above the diagonal", i < j, 1.2
        yield "below the diagonal", i > j, 1.2
        yield "on and above the diagonal", i <= j, 1.4
        yield "on and below the diagonal", i >= j, 1.4


def _indices(size: int, wrong: Array) -> Iterator[tuple[str, Array, float]]:
    """Parts of one axis."""
    i = np.arange(size)
    yield "at the first index", i == 0, 1
    yield "at the last index", i == size - 1, 1
    yield "at all but the first index", i > 0, 1.2
    yield "at all but the last index", i < size - 1, 1.2
    if size > 2:
        yield "at the first and the last index", (i == 0) | (i == size - 1), 1.4
        yield "at all but the first and the last index", (i > 0) & (i < size - 1), 1.5
    if size > 3:
        yield "at odd indices", i % 2 == 1, 1.3
        yield "at even indices", i % 2 == 0, 1.3
    for tile in (4, 8, 16, 32, 2, 3):
        if size % tile:
            yield f"in the tail, the last n % {tile} indices (n is the size)", i >= size - size % tile, 1.3
    if len(wrong):
        yield f"from index {wrong[0]} on", i >= wrong[0], 1.5
        yield f"up to index {wrong[-1]}", i <= wrong[-1], 1.6
        if len(wrong) == 1:
            yield f"at index {wrong[0]}", i == wrong[0], 1.55
        elif len(wrong) < size:
            yield f"at indices {', '.join(map(str, wrong[:6]))}", np.isin(i, wrong), 2.5 + len(wrong) / 10


def _ranked(side: Side, shape: tuple[int, ...]) -> Iterator[tuple[str, Array, float]]:
    """Regions by comparison of a tensor's elements with each other."""
    x, name = side.value, side.name
    if x.size < 2 or np.iscomplexobj(x) or x.shape != shape:
        return
    _, inverse, count = np.unique(x, return_inverse=True, return_counts=True)
    yield f"where elements of {name} are equal (ties)", count[inverse.ravel()] > 1, 0.85
    yield f"at the largest element of {name}", (x == x.max()).ravel(), 1.45
    yield f"at the smallest element of {name}", (x == x.min()).ravel(), 1.45


def _compared(block: Block) -> Iterator[Region]:
    """Where one input is less than another."""
    real = [s for s in block.observation.inputs if not np.iscomplexobj(s.value)]
    for first in real:
        for second in real:
            if first is second or block.input.pairs:
                continue
            try:
                less = np.broadcast_to(first.value < second.value, block.input_shape).ravel()
            except ValueError:
                continue
            yield Region(f"where {first.name} < {second.name}", less[None, :], 1.4)


# -- values that part what is wrong from what is right, over all looks: the simplest number between the two -----------

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
    seen = block.observation
    yield from _scales(block, block.input, False, 0)
    yield from _scales(block, block.output, True, 0.5)
    for side in seen.inputs:
        if side is not block.input:
            yield from _scales(block, side, False, 0.4)
        yield from _scales(block, side, True, 0.6)
    for first, second in itertools.combinations([s for s in seen.inputs if not np.iscomplexobj(s.value)][:4], 2):
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
    made = (_interval(key, np.concatenate(wrong[key]), np.concatenate(right[key]), costs[key]) for key in wrong)
    return [cut for cut in made if cut is not None]


def _interval(key: tuple[str, bool], wrong: Array, right: Array, cost: float) -> Cut | None:
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
