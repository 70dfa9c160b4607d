"""Places where a derivative is wrong: everywhere, at some indices, where values are negative, small, tied..."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .blocks import Array, Block, element
from .factors import sources


class Region(NamedTuple):
    """A part of a block: in words, as "where x < 0", the mask of its entries, and how far-fetched it is."""

    words: str
    mask: Array
    cost: float

    def tight(self, block: Block) -> bool:
        """Tell whether every column is wrong somewhere if it chooses columns, or every row if it chooses rows."""
        wrong, moves = block.wrong & self.mask, self.mask & (block.numeric != 0)
        columns, rows = (bool((wrong.any(axis) | ~moves.any(axis)).all()) for axis in (0, 1))
        chosen, taken = (not self.mask.any(axis).all() for axis in (0, 1))
        return columns or rows if chosen is taken else columns if chosen else rows

    def telling(self, block: Block) -> bool:
        """Tell whether it leaves out something that is right."""
        return bool((block.alive & ~self.mask & ~block.wrong).any())


def regions(block: Block, cuts: Sequence[Cut]) -> dict[str, Region]:
    """Parts of a block by their words, the whole first; those that are the whole only in this look among them."""
    found = {"": Region("", np.ones(block.wrong.shape, dtype=bool), 0)}
    for region in (*_cut(block, cuts), *_along(block, 0), *_compared(block), *_along(block, 1), *_coupled(block)):
        mask = np.broadcast_to(region.mask, block.wrong.shape)
        found.setdefault(region.words, region._replace(mask=mask))
    return found


def _along(block: Block, axis: int) -> Iterator[Region]:
    """Columns (axis 0) or rows by their index."""
    side, shape = (block.output, block.output_shape) if axis else (block.input, block.input_shape)
    of = f" of {block.output.name}" if axis else ""
    pairs = side.pairs and not block.folded
    for words, mask, cost in (*_places(shape, np.asarray(block.wrong.any(axis)), pairs), *_frequencies(block, axis)):
        words = words if "{}" in words else words + "{}"
        yield Region(words.format(of), np.expand_dims(mask, axis), cost + 0.3 * axis)


def _places(shape: tuple[int, ...], wrong: Array, pairs: bool) -> Iterator[tuple[str, Array, float]]:
    """Regions by index: the last, behind the first, from some on..., along one axis; one element; a triangle."""
    if not shape or not wrong.size:
        return
    at = np.indices(shape).reshape(len(shape), -1)
    if pairs:
        yield "in the real part", at[-1] == 0, 0.6
        yield "in the imaginary part", at[-1] == 1, 0.6
    plain = at[: len(shape) - pairs]
    for axis, i in enumerate(plain):
        of = "" if len(plain) == 1 else f" of axis {axis}"
        for words, mask, cost in _indices(i, shape[axis], np.unique(i[wrong])):
            yield words + of, mask, cost
    if wrong.sum() == 1 < wrong.size:
        place = int(wrong.argmax())
        if len(shape) > 1 and place in (0, wrong.size - 1):
            yield f"in the {'last' if place else 'first'} element", wrong, 1.05
        yield f"in one element, {element(shape, place)}", wrong, 1.6
    if len(plain) > 1:
        i, j = plain[-2:]
        yield "on the diagonal", i == j, 1.2
        yield "off the diagonal", i != j, 1.3
        yield "above the diagonal", i < j, 1.2
        yield "below the diagonal", i > j, 1.2
        yield "on and above the diagonal", i <= j, 1.4
        yield "on and below the diagonal", i >= j, 1.4


def _indices(i: Array, size: int, wrong: Array) -> Iterator[tuple[str, Array, float]]:
    """Parts of one axis, of which the indices in `wrong` are wrong."""
    first, last = i == 0, i == size - 1
    yield "at the first index", first, 1
    yield "at the last index", last, 1
    yield "behind the first index", ~first, 1.2
    yield "before the last index", ~last, 1.2
    if size > 2:
        yield "at the first and the last index", first | last, 1.4
        yield "between the first and the last index", ~(first | last), 1.5
    if size > 3:
        yield "at odd indices", i % 2 == 1, 1.3
        yield "at even indices", i % 2 == 0, 1.3
    for tile in (4, 8, 16, 32, 2, 3):
        if size % tile:
            yield f"in the tail, the last n % {tile} indices (n is the size)", i >= size - size % tile, 1.3
    if len(wrong):
        yield f"from index {wrong[0]} on", i >= wrong[0], 1.5
        yield f"up to index {wrong[-1]}", i <= wrong[-1], 1.6
        if len(wrong) < size:
            some = f"at indices {', '.join(map(str, wrong[:6]))}" if len(wrong) > 1 else f"at index {wrong[0]}"
            yield some, np.isin(i, wrong), 2.5 + len(wrong) / 10 if len(wrong) > 1 else 1.55


def _frequencies(block: Block, axis: int) -> Iterator[tuple[str, Array, float]]:
    """Frequencies of half a spectrum, the only complex side, that stand for the other half as well."""
    spectrum, signal = (block.output, block.input) if axis else (block.input, block.output)
    if spectrum.pairs > signal.pairs and spectrum.value.ndim == signal.value.ndim > 0:
        (*_, n), k = signal.value.shape, np.arange(spectrum.value.shape[-1])
        if len(k) == n // 2 + 1:
            twice = np.broadcast_to((k > 0) & (2 * k < n), spectrum.value.shape).ravel()
            yield "at the frequencies{} that stand for negative ones too", twice, 0.6


def _compared(block: Block) -> Iterator[Region]:
    """Columns by comparison of a tensor's elements with each other, or with those of another."""
    x, name, real = block.input.value, block.input.name, [s for s in block.observation.inputs if not s.pairs]
    if block.input.pairs:
        return
    if x.size > 1:
        _, inverse, count = np.unique(x, return_inverse=True, return_counts=True)
        yield Region(f"where elements of {name} are equal (ties)", count[inverse.ravel()] > 1, 0.85)
        yield Region(f"at the largest element of {name}", (x == x.max()).ravel(), 1.45)
        yield Region(f"at the smallest element of {name}", (x == x.min()).ravel(), 1.45)
    for first, second in itertools.permutations(real, 2):
        with contextlib.suppress(ValueError):  # They do not broadcast.
            less = np.broadcast_to(first.value < second.value, x.shape).ravel()
            yield Region(f"where {first.name} < {second.name}", less, 1.4)


def _coupled(block: Block) -> Iterator[Region]:
    if block.output_shape == block.input_shape and len(block.wrong) > 1:
        own, lower = np.eye(len(block.wrong), dtype=bool), np.tri(len(block.wrong), k=-1, dtype=bool)
        yield Region("in what an element does to itself", own, 1.5)
        yield Region("in what an element does to others", ~own, 1.5)
        yield Region("in what an element does to later ones", lower, 1.8)
        yield Region("in what an element does to earlier ones", lower.T, 1.8)


# -- values that part what is wrong from what is right, over all looks: the simplest number between the two -----------

FEW = 5
"""Of other tensors than the input there must be so many different values on both sides."""

Key = tuple[str, bool]
"""A real number for each column, or for each row (True), and its name, as ``|x|``."""


def scales(block: Block) -> dict[Key, tuple[Array, float]]:
    """All numbers by which the place may be chosen, and how far-fetched that is; those of the input first."""
    found = dict[Key, tuple[Array, float]]()
    for source in sources(block):
        name, values = source.name.strip("()"), source.values
        cost = 0.0 if name == block.input.name and not source.rows else 0.4 + source.cost
        kinds = {name: values, f"|{name}|": np.abs(values)}
        if np.iscomplexobj(values):
            kinds = {f"|{name}|": np.abs(values), f"Re {name}": values.real, f"Im {name}": values.imag}
        for label, numbers in kinds.items():
            found.setdefault((label, source.rows), (numbers, cost + 0.1 * (label[0] == "|")))
    return found


class Cut(NamedTuple):
    """An interval of a scale: what lies in it is wrong, in all looks, and nothing else is.

    The ends may belong to it, or not: it is closed there.
    """

    key: Key
    low: float
    high: float
    closed: tuple[bool, bool]
    cost: float

    @property
    def words(self) -> str:
        """The place in words, as ``where x < 0``."""
        label = self.key[0]
        left, right = ("<=" if end else "<" for end in self.closed)
        if self.low == self.high:
            return f"where {label} is {self.low:g}"
        if self.low == -math.inf:
            return f"where {label} {right} {self.high:g}"
        if self.high == math.inf:
            return f"where {label} {left.replace('<', '>')} {self.low:g}"
        return f"where {self.low:g} {left} {label} {right} {self.high:g}"


def _cut(block: Block, cuts: Sequence[Cut]) -> Iterator[Region]:
    """Columns or rows whose values are in an interval."""
    known = scales(block)
    for cut in (cut for cut in cuts if cut.key in known):
        x = known[cut.key][0]
        mask = (x > cut.low) & (x < cut.high) | (x == cut.low) & cut.closed[0] | (x == cut.high) & cut.closed[1]
        yield Region(cut.words, np.expand_dims(mask, int(cut.key[1])), cut.cost)


def cuts(blocks: Sequence[Block]) -> list[Cut]:
    """All intervals that part wrong columns or rows from right ones."""
    wrong, right, costs = defaultdict[Key, list[Array]](list), defaultdict[Key, list[Array]](list), dict[Key, float]()
    for block in blocks:
        for key, (values, cost) in scales(block).items():
            bad = block.wrong.any(int(key[1]))
            wrong[key].append(values[bad])
            right[key].append(values[block.alive.any(int(key[1])) & ~bad])
            costs.setdefault(key, cost)
    made = (_interval(key, np.concatenate(wrong[key]), np.concatenate(right[key]), costs[key]) for key in wrong)
    return [cut for cut in made if cut is not None]


def _interval(key: Key, wrong: Array, right: Array, cost: float) -> Cut | None:
    """The interval around the wrong values that no right one lies in, with simple ends."""
    few = FEW if cost else 1  # Some key parts any few numbers.
    if min(len(np.unique(wrong)), len(np.unique(right))) < few or not np.isfinite(wrong).all():
        return None
    low, high = float(wrong.min()), float(wrong.max())
    if ((right >= low) & (right <= high)).any():
        return None
    below = float(right[right < low].max(initial=-math.inf))
    above = float(right[right > high].min(initial=math.inf))
    if low == high and math.isfinite(below) and math.isfinite(above):
        return Cut(key, low, high, (True, True), cost + 0.8 + 1.2 * (low != 0))
    start = below if below == -math.inf else simplest(below, low)
    end = above if above == math.inf else simplest(high, above)
    closed = (start == low, end == high)
    ends = [e for e in (start, end) if math.isfinite(e)]
    far = sum(0.0 if e == 0 else 0.3 for e in ends) + 0.5 * (len(ends) - 1) + 0.1 * sum(closed)
    return Cut(key, start, end, closed, cost + 0.9 + far)


def simplest(low: float, high: float) -> float:
    """The number of fewest digits from `low` to `high`."""
    if low <= 0 <= high:
        return 0.0
    if high < 0:
        return -simplest(-high, -low)
    for exponent in range(math.floor(math.log10(high)), -16, -1):
        for step in (10.0, 5.0, 2.0, 1.0):  # At each digit, 1 is simpler than 5, and 5 than 2.
            unit = step * 10.0**exponent
            least = math.ceil(low / unit - 1e-9) * unit
            if low <= least <= high:
                return float(f"{least:.12g}")
    return low
