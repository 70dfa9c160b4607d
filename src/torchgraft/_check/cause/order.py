"""Right numbers in the wrong places: axes that are exchanged, run backwards, or are off by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .look import Array, Block
from .proposal import Proposal, mechanism


@dataclass(frozen=True)
class Change:
    """A tensor's elements in another order.

    Attributes:
        code: of the mechanism.
        words: what was done, after "is".
        index: for each element, in row-major order, which it is instead; -1 for zero.
        cost: how far-fetched it is.
        hint: the next step.
    """

    code: str
    words: str
    index: Array
    cost: float
    hint: str


@mechanism("order")
def order(block: Block, mask: Array) -> Iterator[Proposal]:
    """The gradient's elements, or those of the upstream gradient, in another order."""
    for change in changes(block.input_shape):
        yield Proposal(
            change.code, f"is {change.words}", _taken(block.numeric, change.index, 1),
            _taken(block.estimate, change.index, 1), change.cost, change.hint,
        )  # fmt: skip
    for change in changes(block.output_shape):
        yield Proposal(
            change.code, f"takes the upstream gradient of {block.output.name} {change.words}",
            _taken(block.numeric, change.index, 0), _taken(block.estimate, change.index, 0), change.cost + 0.3,
            change.hint,
        )  # fmt: skip


@mechanism("symmetric")
def symmetric(block: Block, mask: Array) -> Iterator[Proposal]:
    """What one half of a matrix gets is shared with the other, as if the matrix had to be symmetric."""
    shape = block.input_shape
    if len(shape) < 2 or shape[-1] != shape[-2] or block.input.pairs:
        return
    index = np.arange(int(np.prod(shape))).reshape(shape).swapaxes(-1, -2).ravel()
    shared, spread = ((m + m[:, index]) / 2 for m in (block.numeric, block.estimate))
    words = "is shared between both halves of the matrix, though the function does not take it for symmetric"
    hint = f"make it symmetric in the function: ({block.input.name} + {block.input.name}.mT) / 2"
    yield Proposal("symmetric", words, shared, spread, 1.3, hint)


def _taken(matrix: Array, index: Array, axis: int) -> Array:
    kept = (index >= 0).reshape(-1, 1) if axis == 0 else index >= 0
    taken: Array = np.where(kept, np.take(matrix, index, axis), 0)
    return taken


def changes(shape: tuple[int, ...]) -> Iterator[Change]:
    """What may have happened to a tensor of this shape."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    axes = [axis for axis, size in enumerate(shape) if size > 1][-4:]
    yield from _transposed(places, axes)
    for count in range(1, len(axes) + 1):
        for chosen in itertools.combinations(axes, count):
            name = f"axis {chosen[0]}" if count == 1 else f"axes {' and '.join(map(str, chosen))}"
            index = np.flip(places, chosen).ravel()
            yield Change("flipped", f"flipped along {name}", index, 1.2 + count / 10, f"flip {name} back")
    hint = "look for an index that is off by one"
    for axis, by in itertools.product(axes, (1, -1)):
        words = f"shifted by {'one' if by > 0 else 'minus one'} along axis {axis}"
        around = np.roll(places, by, axis)
        edge = np.moveaxis(around.copy(), axis, 0)  # a view of the copy below
        yield Change("shifted", f"{words}, wrapped around", around.ravel(), 2.2, hint)
        edge[0 if by > 0 else -1] = -1
        yield Change("shifted", words, np.moveaxis(edge, 0, axis).ravel(), 2, hint)


def _transposed(places: Array, axes: list[int]) -> Iterator[Change]:
    same = tuple(range(places.ndim))
    for permuted in itertools.permutations(axes):
        new = list(same)
        for old, axis in zip(axes, permuted, strict=True):
            new[old] = axis
        moved = [axis for axis in same if new[axis] != axis]
        if not moved:
            continue
        how = f"axes {moved[0]} and {moved[1]} exchanged" if len(moved) == 2 else f"axes in the order {tuple(new)}"
        index = places.transpose(new).ravel()
        yield Change("transposed", f"transposed ({how})", index, 0.8 + len(moved) / 10, "transpose it back")
