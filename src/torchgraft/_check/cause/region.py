"""Where a derivative is wrong: everywhere, at some indices, where values are negative, small, tied..."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .exchange import element
from .look import Array, Block, Side

THRESHOLDS = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 5.0, -5.0, 6.0, 10.0, -10.0, 20.0, 0.1, 0.01, 1e-3, 1e-4,
              1e-5, 1e-6, 1e-8)  # fmt: skip


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


def regions(block: Block, words: str | None = None) -> Iterator[Region]:
    """Parts of a block, the whole first; those that are the whole only in this look among them.

    Args:
        words: only the part that is called so.
    """
    shape = block.wrong.shape
    if not words:
        yield Region("", np.ones(shape, dtype=bool), 0)
    if words == "":
        return
    for found in (*_columns(block), *_rows(block), *_both(block)):
        if words is None or found.words == words:
            yield Region(found.words, np.broadcast_to(found.mask, shape), found.cost)


def tight(block: Block, region: Region) -> bool:
    """Whether every column of a region is wrong somewhere, or every row, so that the region is not too wide."""
    wrong, mask = block.wrong & region.mask, region.mask
    moves = block.numeric != 0
    columns = wrong.any(0) | ~(mask & moves).any(0)
    rows = wrong.any(1) | ~(mask & moves).any(1)
    return bool(columns.all() or rows.all())


def _columns(block: Block) -> Iterator[Region]:
    wrong = np.asarray(block.wrong.any(0))
    for words, mask, cost in _places(block.input_shape, wrong, block.input.pairs and not block.folded):
        yield Region(words, mask[None, :], cost)
    for side in block.look.inputs:
        for words, mask, cost in _values(block, side, block.input, block.input_shape):
            yield Region(words, mask[None, :], cost + 0.4 * (side is not block.input))
    yield from _compared(block)


def _rows(block: Block) -> Iterator[Region]:
    wrong = np.asarray(block.wrong.any(1))
    name = block.output.name
    for words, mask, cost in _places(block.output_shape, wrong, block.output.pairs and not block.folded):
        yield Region(f"{words} of {name}", mask[:, None], cost + 0.3)
    for side in (block.output, *block.look.inputs):
        for words, mask, cost in _values(block, side, block.output, block.output_shape):
            yield Region(words, mask[:, None], cost + 0.5)


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
    if not shape or wrong.size == 1:
        return
    at = np.indices(shape).reshape(len(shape), -1)
    for axis, size in enumerate(shape):
        if pairs and axis == len(shape) - 1:
            yield "in the real part", at[axis] == 0, 0.6
            yield "in the imaginary part", at[axis] == 1, 0.6
        elif size > 1:
            of = "" if len(shape) - pairs == 1 else f" of axis {axis}"
            for words, chosen, cost in _indices(size, np.unique(at[axis][wrong])):
                yield words + of, chosen[at[axis]], cost
    if wrong.sum() == 1:
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
        if size > tile and size % tile:
            yield f"in the tail, the last n % {tile} indices (n is the size)", i >= size - size % tile, 1.3
    if len(wrong):
        yield f"from index {wrong[0]} on", i >= wrong[0], 1.5
        yield f"up to index {wrong[-1]}", i <= wrong[-1], 1.6
        if len(wrong) == 1:
            yield f"at index {wrong[0]}", i == wrong[0], 1.55
        elif len(wrong) < size:
            yield f"at indices {', '.join(map(str, wrong[:6]))}", np.isin(i, wrong), 2.5 + len(wrong) / 10


def _values(block: Block, side: Side, where: Side, shape: tuple[int, ...]) -> Iterator[tuple[str, Array, float]]:
    """Regions by value of a tensor that fits the shape."""
    value, name = side.value, side.name
    if not value.size or (side is not where and value.size == 1 and where.value.size > 1):
        return
    if np.iscomplexobj(value):
        kinds: list[tuple[str, Array, bool]] = [
            (f"|{name}|", np.abs(value), False), (f"Re {name}", value.real, True), (f"Im {name}", value.imag, True),
        ]  # fmt: skip
    else:
        kinds = [(name, value, True), (f"|{name}|", np.abs(value), False)]
    for label, numbers, signed in kinds:
        if where.pairs and not block.folded:
            numbers = numbers[..., None]
        try:
            v = np.broadcast_to(numbers, shape).ravel()
        except ValueError:
            continue
        for c in THRESHOLDS:
            far = 0.0 if c == 0 else 0.4
            if c == 0 and not signed:
                continue
            if c > 0 or signed:
                yield f"where {label} < {c:g}", v < c, 0.9 + far + (not signed) * 0.1
                yield f"where {label} > {c:g}", v > c, 0.95 + far + (not signed) * 0.1
        if signed:
            yield f"where {label} is 0", v == 0, 0.8
            yield f"where {label} is not 0", v != 0, 1.3
            yield f"where {label} <= 0", v <= 0, 1.1
            yield f"where {label} >= 0", v >= 0, 1.1
            yield from _ranked(label, np.asarray(numbers), shape)


def _ranked(label: str, numbers: Array, shape: tuple[int, ...]) -> Iterator[tuple[str, Array, float]]:
    """Regions by comparison of a tensor's elements with each other."""
    if numbers.size < 2:
        return
    _, inverse, count = np.unique(numbers, return_inverse=True, return_counts=True)
    tied = (count[inverse.ravel()] > 1).reshape(numbers.shape)
    for words, chosen, cost in (
        (f"where elements of {label} are equal (ties)", tied, 0.85),
        (f"at the largest element of {label}", numbers == numbers.max(), 1.45),
        (f"at the smallest element of {label}", numbers == numbers.min(), 1.45),
    ):
        yield words, np.broadcast_to(chosen, shape).ravel(), cost


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
