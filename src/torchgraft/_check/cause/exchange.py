"""Right numbers of something else: of the transposed map, of another input or output, of another element."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from .look import SLACK, Array, Block
from .proposal import Proposal, mechanism


@mechanism("adjoint")
def adjoint(block: Block, mask: Array) -> Iterator[Proposal]:
    """The map itself where its transpose belongs: all axes, or an axis of the input with one of the output."""
    out, into = block.output_shape, block.input_shape
    why = "an operand is not transposed in the backward"
    hint = "the backward of a product multiplies by the transposed (conjugated) operand"
    if out == into and len(block.numeric) > 1:
        words = f"is transposed as a map: {why}"
        yield Proposal("adjoint", words, block.numeric.T, block.estimate.T, 0.95, hint)
    if len(out) + len(into) <= 2:
        return
    for a, b in itertools.product(range(len(out)), range(len(into))):
        if out[a] == into[b] > 1:
            words = f"is transposed as a map in axis {b} (axis {a} of {block.output.name}): {why}"
            swapped = [np.swapaxes(m.reshape(out + into), a, len(out) + b).reshape(m.shape)
                       for m in (block.numeric, block.estimate)]  # fmt: skip
            yield Proposal("adjoint", words, swapped[0], swapped[1], 1.3, hint)


@mechanism("swapped")
def swapped(block: Block, mask: Array) -> Iterator[Proposal]:
    """The gradient of another input, or one from another output's upstream gradient."""
    look, output, into = block.look, block.output, block.input
    for other in look.inputs:
        if other is not into and other.value.shape == into.value.shape and other.pairs == into.pairs:
            yield _from(block, output.place, other.place, f"is that for {other.name}", 0.8)
    for other in look.outputs:
        if other is not output and other.value.shape == output.value.shape and other.pairs == output.pairs:
            yield _from(block, other.place, into.place, f"takes {output.name} for {other.name}", 1)


def _from(block: Block, rows: slice, columns: slice, words: str, cost: float) -> Proposal:
    there = Block(block.look, block.row, block.column)
    numeric, estimate = block.look.numeric.copy(), block.look.estimate.copy()
    numeric[block.output.place, block.input.place] = block.look.numeric[rows, columns]
    estimate[block.output.place, block.input.place] = block.look.estimate[rows, columns]
    spread = np.abs(there.take(estimate))
    hint = "gradients come, and are returned, in the order of the arguments"
    return Proposal("swapped", words, there.take(numeric), spread, cost, hint)


@mechanism("permuted")
def permuted(block: Block, mask: Array) -> Iterator[Proposal]:
    """Elements in another order: two exchanged, or a permutation that has no name."""
    if not block.judged.all() or not np.isfinite(block.analytic).all():
        return
    floor = np.broadcast_to(block.floor, block.wrong.shape)
    columns, rows = np.asarray(block.wrong.any(0)), np.asarray(block.wrong.any(1))
    order = _order(block.analytic, block.numeric, block.estimate, floor, columns)
    if order is not None:
        words, cost = _moved(block.input_shape, order, "has ")
        yield Proposal(
            "permuted", words, block.numeric[:, order], block.estimate[:, order], cost, "look at the indices"
        )
    order = _order(block.analytic.T, block.numeric.T, block.estimate.T, floor.T, rows)
    if order is not None:
        words, cost = _moved(block.output_shape, order, f"takes the upstream gradient of {block.output.name} with ")
        yield Proposal(
            "permuted", words, block.numeric[order], block.estimate[order], cost + 0.3, "look at the indices"
        )


def _order(a: Array, j: Array, estimate: Array, floor: Array, moved: Array) -> Array | None:
    """Which columns of `j` those of `a` are; None if some are none."""
    wrong = list(np.flatnonzero(moved))
    if not 2 <= len(wrong) <= 64:
        return None
    order, free = np.arange(a.shape[1]), list(wrong)
    for column in wrong:
        tolerance = SLACK * estimate[:, free] + floor[:, [column]]
        found = np.flatnonzero((np.abs(a[:, [column]] - j[:, free]) <= tolerance).all(0))
        if not len(found):
            return None
        order[column] = free.pop(int(found[0]))
    return order


def _moved(shape: tuple[int, ...], order: Array, start: str) -> tuple[str, float]:
    """Words for a permutation, and how far-fetched it is."""
    wrong = np.flatnonzero(order != np.arange(len(order)))
    if len(wrong) != 2:
        return f"{start}its elements in another order", 5.0
    first, second = (element(shape, int(place)) for place in wrong)
    return f"{start}elements {first} and {second} exchanged", 2.5


def element(shape: tuple[int, ...], flat: int) -> str:
    """A place as it is indexed: ``[0, 2]``."""
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(flat, shape))}]"
