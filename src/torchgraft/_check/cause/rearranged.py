"""Mistakes that leave numbers right and put them in wrong places."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from .blocks import SLACK, Array, Block, Proposal

Proposals = Iterator[Proposal]
Change = tuple[str, Array, float, str]
"""Words for another order of elements, the place each is taken from (-1 for zero), the cost, and a hint."""

# -- axes that are exchanged, run backwards, or are off by one -----------------------------------------------------


def order(block: Block, mask: Array) -> Proposals:
    """Propose the gradient's elements, or those of the upstream gradient, in another order."""
    for words, index, cost, hint in changes(block.input_shape):
        yield _taken(block, f"is {words}", index, 1, cost, hint)
    for words, index, cost, hint in changes(block.output_shape):
        yield _taken(block, f"takes the upstream gradient of {block.output.name} {words}", index, 0, cost + 0.3, hint)


def _taken(block: Block, words: str, index: Array, axis: int, cost: float, hint: str) -> Proposal:
    kept = np.expand_dims(index >= 0, 1 - axis)
    numeric, estimate = (np.where(kept, np.take(m, index, axis), 0) for m in (block.numeric, block.estimate))
    return Proposal(words, numeric, cost, hint, spread=estimate)


def changes(shape: tuple[int, ...]) -> Iterator[Change]:
    """List other orders of the elements of a tensor of this shape."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    axes = [axis for axis, size in enumerate(shape) if size > 1][-4:]
    yield from _transposed(places, axes)
    for count in range(1, len(axes) + 1):
        for chosen in itertools.combinations(axes, count):
            name = f"axis {chosen[0]}" if count == 1 else f"axes {' and '.join(map(str, chosen))}"
            yield f"flipped along {name}", np.flip(places, chosen).ravel(), 1.2 + count / 10, f"flip {name} back"
    hint = "look for an index that is off by one"
    for axis, by in itertools.product(axes, (1, -1)):
        words = f"shifted by {'one' if by > 0 else 'minus one'} along axis {axis}"
        around = np.roll(places, by, axis)
        edge = np.moveaxis(around.copy(), axis, 0)  # a view of the copy below
        yield f"{words}, wrapped around", around.ravel(), 2.2, hint
        edge[0 if by > 0 else -1] = -1
        yield words, np.moveaxis(edge, 0, axis).ravel(), 2, hint


def _transposed(places: Array, axes: list[int]) -> Iterator[Change]:
    same = list(range(places.ndim))
    for permuted in itertools.permutations(axes):
        new = list(same)
        for old, axis in zip(axes, permuted, strict=True):
            new[old] = axis
        moved = [axis for axis in same if new[axis] != axis]
        if moved:
            how = f"axes {moved[0]} and {moved[1]} exchanged" if len(moved) == 2 else f"axes in the order {tuple(new)}"
            index = places.transpose(new).ravel()
            yield f"transposed ({how})", index, 0.8 + len(moved) / 10, "transpose it back"


def symmetric(block: Block, mask: Array) -> Proposals:
    """Propose that both halves of a matrix share a gradient, as if the matrix had to be symmetric."""
    shape = block.input_shape
    if len(shape) < 2 or shape[-1] != shape[-2] or block.input.pairs:
        return
    index = np.arange(int(np.prod(shape))).reshape(shape).swapaxes(-1, -2).ravel()
    shared, spread = ((m + m[:, index]) / 2 for m in (block.numeric, block.estimate))
    words = "is shared between both halves of the matrix, though the function does not take it for symmetric"
    hint = f"make it symmetric in the function: ({block.input.name} + {block.input.name}.mT) / 2"
    yield Proposal(words, shared, 1.3, hint, spread=spread)


# -- the transposed map, another input or output, another element ---------------------------------------------------


def adjoint(block: Block, mask: Array) -> Proposals:
    """Propose the map itself where its transpose belongs: all axes, or an axis of the input with one of the output."""
    out, into = block.output_shape, block.input_shape
    why = "an operand is not transposed in the backward"
    hint = "the backward of a product multiplies by the transposed (conjugated) operand"
    if out == into and len(block.numeric) > 1:
        yield Proposal(f"is transposed as a map: {why}", block.numeric.T, 0.95, hint, spread=block.estimate.T)
    if len(out) + len(into) <= 2:
        return
    for a, b in itertools.product(range(len(out)), range(len(into))):
        if out[a] == into[b] > 1:
            words = f"is transposed as a map in axis {b} (axis {a} of {block.output.name}): {why}"
            numeric, estimate = (
                np.swapaxes(m.reshape(out + into), a, len(out) + b).reshape(m.shape)
                for m in (block.numeric, block.estimate)
            )
            yield Proposal(words, numeric, 1.3, hint, spread=estimate)


def swapped(block: Block, mask: Array) -> Proposals:
    """Propose the gradient of another input, or one from another output's upstream gradient."""
    seen, output, into = block.observation, block.output, block.input
    for other in seen.inputs:
        if other is not into and other.value.shape == into.value.shape and other.pairs == into.pairs:
            yield _from(block, output.place, other.place, f"is that for {other.name}", 0.8)
    for other in seen.outputs:
        if other is not output and other.value.shape == output.value.shape and other.pairs == output.pairs:
            yield _from(block, other.place, into.place, f"takes {output.name} for {other.name}", 1)


def _from(block: Block, rows: slice, columns: slice, words: str, cost: float) -> Proposal:
    taken = []
    for matrix in (block.observation.numeric, block.observation.estimate):
        moved = matrix.copy()
        moved[block.output.place, block.input.place] = matrix[rows, columns]
        taken.append(block.take(moved))
    hint = "gradients come, and are returned, in the order of the arguments"
    return Proposal(words, taken[0], cost, hint, spread=np.abs(taken[1]))


def permuted(block: Block, mask: Array) -> Proposals:
    """Propose elements in another order: two exchanged, or a permutation that has no name."""
    if not block.judged.all() or not np.isfinite(block.analytic).all():
        return
    floor = np.broadcast_to(block.floor, block.wrong.shape)
    parts = block.analytic, block.numeric, block.estimate, floor, block.wrong
    of = f"takes the upstream gradient of {block.output.name} with "
    for axis, start, shape in ((1, "has ", block.input_shape), (0, of, block.output_shape)):
        index = _permutation(*(part if axis else part.T for part in parts))
        if index is not None:
            words, cost = _moved(shape, index, start)
            yield _taken(block, words, index, axis, cost + 0.3 * (axis == 0), "look at the indices")


def _permutation(a: Array, j: Array, estimate: Array, floor: Array, wrong: Array) -> Array | None:
    """Return the places p with a == j[:, p], or None."""
    moved = list(np.flatnonzero(wrong.any(0)))
    if not 2 <= len(moved) <= 64:
        return None
    places, free = np.arange(a.shape[1]), list(moved)
    for column in moved:
        tolerance = SLACK * estimate[:, free] + floor[:, [column]]
        found = np.flatnonzero((np.abs(a[:, [column]] - j[:, free]) <= tolerance).all(0))
        if not len(found):
            return None
        places[column] = free.pop(int(found[0]))
    return places


def _moved(shape: tuple[int, ...], index: Array, start: str) -> tuple[str, float]:
    """Words for a permutation, and how far-fetched it is."""
    wrong = np.flatnonzero(index != np.arange(len(index)))
    if len(wrong) != 2:
        return f"{start}its elements in another order", 5.0
    first, second = (element(shape, int(place)) for place in wrong)
    return f"{start}elements {first} and {second} exchanged", 2.5


def element(shape: tuple[int, ...], flat: int) -> str:
    """A place as it is indexed: ``[0, 2]``."""
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(flat, shape))}]"
