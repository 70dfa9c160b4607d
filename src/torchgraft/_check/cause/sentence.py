"""The paragraph: the causes of all blocks in as few words as they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .exchange import element
from .look import Block, Look
from .recognise import Cause, worst

Blocks = Mapping[tuple[int, int], Cause | None]
"""For each pair of output and input whose block is wrong, its cause, or None where none fits."""


def sentence(look: Look, found: Blocks) -> str:
    """What is wrong with the gradient, for reports."""
    parts = list[str]()
    groups = dict[str | None, list[tuple[int, int]]]()
    for place, cause in found.items():
        groups.setdefault(None if cause is None else cause.words, []).append(place)
    crossed = _crossed(look, found)
    if crossed:
        parts.append(crossed)
        groups = {words: places for words, places in groups.items() if words is None or not words.startswith("is that")}
    for words, places in groups.items():
        if words is None:
            parts += [_listed(Block(look, *place)) for place in places[:3]]
        else:
            parts.append(f"{_subject(look, places)} {words}")
    return "; ".join(parts)


def hint(found: Blocks) -> str | None:
    """The next step: that of the first cause which has one."""
    return next((cause.hint for cause in found.values() if cause is not None and cause.hint), None)


def _subject(look: Look, places: Sequence[tuple[int, int]]) -> str:
    """What the words are about: all inputs concerned, and the outputs if it is not all of them."""
    columns = sorted({j for _, j in places})
    rows = sorted({i for i, _ in places})
    names = _and([look.inputs[j].name for j in columns])
    live = {i for i in range(len(look.outputs)) for j in columns if _alive(look, i, j)}
    through = "" if live <= set(rows) else f" through {_and([look.outputs[i].name for i in rows])}"
    return f"the gradient for {names}{through}"


def _alive(look: Look, i: int, j: int) -> bool:
    block = Block(look, i, j)
    moves = block.judged & (np.abs(block.numeric) > 4 * block.estimate)
    return bool(moves.any() or (block.analytic != 0).any())


def _and(names: Sequence[str]) -> str:
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _crossed(look: Look, found: Blocks) -> str:
    """Two inputs that have each other's gradient."""
    for i, first in enumerate(look.inputs):
        for second in look.inputs[i + 1 :]:
            one = [c for (_, j), c in found.items() if look.inputs[j] is first]
            two = [c for (_, j), c in found.items() if look.inputs[j] is second]
            if (
                one and two
                and all(c is not None and c.words == f"is that for {second.name}" for c in one)
                and all(c is not None and c.words == f"is that for {first.name}" for c in two)
            ):  # fmt: skip
                return f"the gradients for {first.name} and {second.name} are swapped"
    return ""


def _listed(block: Block) -> str:
    """What is known without a cause: how many entries are wrong, in which rows and columns, and the worst."""
    wrong, name = block.wrong, block.input.name
    text = f"{int(wrong.sum())} of {wrong.size} entries of the Jacobian of {block.output.name} by {name} are wrong"
    columns, rows = np.flatnonzero(wrong.any(0)), np.flatnonzero(wrong.any(1))
    if len(columns) < wrong.shape[1]:
        text += f", those by elements {_some(block.input_shape, columns)} of {name}"
    elif len(rows) < wrong.shape[0]:
        text += f", those of elements {_some(block.output_shape, rows)} of {block.output.name}"
    row, column = worst(block)
    there = (
        f"d {block.output.name}{element(block.output_shape, row)} / d {name}{element(block.input_shape, column)}"
    ).replace("[]", "")
    return f"{text}; {there} is {block.analytic[row, column]:.6g} where {block.numeric[row, column]:.6g} is right"


def _some(shape: tuple[int, ...], places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
    names = [element(shape, int(place)) for place in places[:6]]
    return ", ".join(names) + (", ..." if len(places) > 6 else "")
