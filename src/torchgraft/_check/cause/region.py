"""Where a derivative is wrong: everywhere, at some indices, where values are negative, small, tied..."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .cuts import Cut, scales
from .exchange import element
from .look import Array, Block, Side


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
    real = [s for s in block.look.inputs if not np.iscomplexobj(s.value)]
    for first in real:
        for second in real:
            if first is second or block.input.pairs:
                continue
            try:
                less = np.broadcast_to(first.value < second.value, block.input_shape).ravel()
            except ValueError:
                continue
            yield Region(f"where {first.name} < {second.name}", less[None, :], 1.4)
