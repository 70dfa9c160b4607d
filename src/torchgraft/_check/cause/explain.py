"""From a wrong case to the paragraph about it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..case import Case
from ..clock import Clock, OutOfTime
from ..evidence import Evidence
from ..finding import Finding
from ..target import Target, differentiable
from ..variations import resized, sizes
from .blocks import Block, Observation
from .observe import observe
from .rearranged import element
from .recognise import Cause, recognise, recognise_large, worst
from .table import MISTAKES, Mistake
from .terms import NONLINEAR, SCALES
from .vocabulary import digits

Place = tuple[int, int]
"""An output and an input."""

RICH = 64
"""A case with at most so many elements is looked at as it is, before it was shrunk; no other one has more."""
ENOUGH = 3
"""So many other observations tell as much as the smallest case."""
LARGE = 5000
"""Entries of a large Jacobian."""
CALLS = 8_000
"""Calls of the target that an explanation may take: a count is the same on a busy machine, and seconds are not."""
AGAIN = (
    "changes when the backward pass runs again: a saved tensor, the upstream gradient or a buffer is overwritten "
    "in place, or it draws random numbers"
)


def explain(case: Case, finding: Finding, *, original: Case | None = None) -> Finding:
    """Return the finding with cause, hint, numbers and evidence, as far as both Jacobians tell them.

    Args:
        case: one that shows it, as small as it can be: the cost grows with the number of its elements.
        finding: of the case.
        original: the case before it was shrunk, which may tell more about the cause.

    Example:
        >>> explain(Case(make_target(Wrong.apply), (torch.randn(3, dtype=torch.float64),)), finding).cause
        'the gradient for x has the wrong sign'
    """
    tied = equal_elements(case) if finding.code == "wrong-at-ties" else None
    if tied is not None:
        return finding.but(cause=tied, hint="share the gradient out among equal elements, or give it to one of them")
    sure = finding.code.startswith("wrong")
    base = next(iter(_observed([case], sure, most=None)), None)
    if base is None:
        return finding
    if base.size > LARGE:
        large = {(b.row, b.column): recognise_large(b) for b in base.blocks() if b.wrong.any()}
        return _told(finding, base, large) if large else finding
    clock = Clock(calls=CALLS)
    if original is not None:
        original = clock.watch_case(original) if sum(p.numel() for p in original.primals) <= RICH else None
    return _compared(finding, clock.watch_case(case), base, original)


def _compared(finding: Finding, case: Case, base: Observation, original: Case | None) -> Finding:
    """Compare the base with cases next to it: a cause must explain all of them."""
    rich = original or case
    more = [] if original is None else [*(others(case) if _alike(case, original) else ()), original]
    sure = finding.code.startswith("wrong")
    seen = [base, *_observed(itertools.chain(more, variants(rich)), sure)]
    seen += [replace(one, coarse=True) for one in _observed(wild(rich), sure)]
    mistakes: Sequence[Mistake] = MISTAKES
    if not base.linear(SCALES):
        mistakes = [mistake for mistake in MISTAKES if mistake.bends]
        scale = next((s for s in (1.0, *SCALES) if base.at_scale(s).wrong), None)
        seen = seen if scale is None else [one.at_scale(scale) for one in seen]
    found = dict[Place, Cause | None]()
    for place in ((b.row, b.column) for b in seen[0].blocks() if b.wrong.any()):
        found[place], everywhere = _cause(place, seen, mistakes)
        if not everywhere and mistakes is MISTAKES:
            seen += _observed(other_sizes(rich), sure)
            found[place] = _limited(found[place], place, seen)
    if not found and mistakes is not MISTAKES:
        return finding.but(cause=finding.cause or f"the gradient {NONLINEAR if base.repeats else AGAIN}")
    return _told(finding, seen[0], found) if found else finding


def _alike(case: Case, other: Case) -> bool:
    """Whether axes have the same names in both."""
    return [primal.ndim for primal in case.primals] == [primal.ndim for primal in other.primals]


def _observed(cases: Iterable[Case], sure: bool, most: int | None = LARGE) -> list[Observation]:
    """Observe cases, as many as there are calls for; without those that the target refuses, or that tell nothing.

    Args:
        cases: to observe.
        sure: the gradient is wrong by more than its noise.
        most: entries of an observation that is kept.
    """
    found = list[Observation]()
    with contextlib.suppress(OutOfTime):
        for case in cases:
            with contextlib.suppress(Exception):
                found.append(observe(case).blurred() if sure else observe(case))
    return [one for one in found if most is None or one.size <= most]


def _blocks(place: Place, seen: Sequence[Observation]) -> list[Block]:
    row, column = place
    return [Block(one, *place) for one in seen if row < len(one.outputs) and column < len(one.inputs)]


def _cause(place: Place, seen: Sequence[Observation], mistakes: Sequence[Mistake]) -> tuple[Cause | None, bool]:
    """Return (cause, everywhere): the simplest cause of a block, and whether it explains the block in all observations.

    It explains at least those observations in which the block is wrong.
    """
    blocks = _blocks(place, seen)
    enough = sum(block.wrong.any() for block in blocks[1:]) >= ENOUGH  # plain values and short axes hide what it is
    cause, agree = recognise(blocks[1:] if enough else blocks, mistakes)
    if mistakes is not MISTAKES and (cause is None or cause.mistake is None):
        words = NONLINEAR if seen[0].repeats else AGAIN
        return Cause(words, hint="a backward is linear in the upstream gradient"), True
    return cause, all(agree)


def _limited(cause: Cause | None, place: Place, seen: Sequence[Observation]) -> Cause | None:
    """The cause with the sizes for which it acts."""
    blocks = _blocks(place, seen)
    condition = when(blocks)
    if cause is None and condition:  # one for each size: that of the first observation
        cause, _ = recognise(blocks[:1])
    if cause is None or not condition:
        return cause
    return replace(cause, where=f"{cause.where} ({condition})" if cause.where else condition)


def when(blocks: Sequence[Block]) -> str:
    """Words such as "only where axis 0 of x has size 1"; empty where sizes do not part wrong blocks from right ones."""
    for i, side in enumerate(blocks[-1].observation.inputs):
        values = [(block.observation.inputs[i].value, bool(block.wrong.any())) for block in blocks]
        shapes = [(value.shape, acts) for value, acts in values if value.ndim == side.value.ndim]
        for axis in range(side.value.ndim):
            wrong = {shape[axis] for shape, acts in shapes if acts}
            right = {shape[axis] for shape, acts in shapes if not acts}
            words = _parted(wrong, right)
            if words:
                name = f"{side.name} has" if side.value.ndim == 1 else f"axis {axis} of {side.name} has"
                return f"only where {name} {words}"
    return ""


def _parted(wrong: set[int], right: set[int]) -> str:
    if not wrong or not right or wrong & right:
        return ""
    if wrong == {1}:
        return "size 1"
    if max(right) < min(wrong):
        return f"a size above {max(right)}" if min(wrong) - max(right) == 1 else f"size {min(wrong)} or more"
    if max(wrong) < min(right):
        return f"a size below {min(right)}"
    for tile in (2, 3, 4, 8, 16, 32):
        if all(n % tile for n in wrong) and not any(n % tile for n in right):
            return f"a size that is no multiple of {tile}"
        if all(n % tile for n in right) and not any(n % tile for n in wrong):
            return f"a size that is a multiple of {tile}"
    return ""


# -- cases next to a case: other values, another order, other sizes ------------------------------------------------


def others(case: Case) -> Iterator[Case]:
    """Other values, of the same signs and of the opposite ones."""
    yield _with_values(case, _nudged)
    yield _with_values(case, lambda x, i: _nudged(-x.flip(tuple(range(x.ndim))), i))


def variants(case: Case) -> Iterator[Case]:
    """Others that are no harder to look at; some may be refused by the target."""
    yield from others(case)
    for size in sizes(case):
        yield from _resized(case, size, size + 1)


def wild(case: Case) -> Iterator[Case]:
    """Larger cases with values of all sizes and signs, which show limits."""
    for size in sizes(case):
        case = next(_resized(case, size, size + 2 if size > 1 else 4), case)
    yield from (_with_values(case, partial(_spread, seed=seed)) for seed in range(3))


def other_sizes(case: Case) -> Iterator[Case]:
    """Sizes that tell when a cause acts."""
    for size in sizes(case):
        for new in (1, 2, 3, 4, 5, 8, size + 2):
            if new not in (size, size + 1):
                yield from _resized(case, size, new)


def _resized(case: Case, old: int, new: int) -> Iterator[Case]:
    """The case with another size, if the target takes it."""
    for options in ({}, {"numbers": True}, {"scale": True}):
        longer = resized(case, old, new, **options)
        if sum(p.numel() for p in longer.primals) > RICH:
            return
        with contextlib.suppress(Exception):
            longer.values()
            yield _with_values(longer, _nudged)
            return


def _with_values(case: Case, change: Callable[[Tensor, int], Tensor]) -> Case:
    """The case with each primal changed: by its values and its place, so that no two change alike."""
    return case.replaced([change(p, i) if differentiable(p) else p for i, p in enumerate(case.primals)])


def _spread(x: Tensor, place: int, seed: int) -> Tensor:
    """Values of all sizes from 0.01 to 10, and of both signs."""
    generator = torch.Generator().manual_seed(seed + 1000 * place)
    size = 10 ** (3 * torch.rand(x.shape, generator=generator, dtype=torch.float64) - 2)
    sign = 2 * torch.randint(0, 2, x.shape, generator=generator) - 1
    return (sign * size).to(x.dtype)


def _nudged(x: Tensor, place: int) -> Tensor:
    """Other values of the same signs, all different, each within a fifth; zeros move a little to both sides."""
    i = torch.arange(x.numel(), dtype=torch.float64).reshape(x.shape)
    part = (i * 0.6180339887498949 + 0.31 + 0.17 * place).frac()  # the golden ratio spreads them evenly
    factor = 1 + 0.2 * (part - 0.5)
    moved = torch.where(x == 0, (part - 0.5).to(x.dtype), x * factor.to(x.dtype))
    return moved.to(x.dtype).contiguous()


# -- equal elements, where a function such as a maximum has no derivative: what they share has one -----------------


def equal_elements(case: Case) -> str | None:
    """What is wrong with the gradient added over equal elements, in words; None if nothing is.

    Those of one tensor are looked at first, then those of several.
    """
    for joint in (False, True):
        with contextlib.suppress(Exception):  # the target refuses it, or nothing can be told there
            words = _tied(observe(_of_values(case, joint)))
            if words is not None:
                return words
    return None


def _tied(seen: Observation) -> str | None:
    blocks = [block for block in seen.blocks() if block.wrong.any()]
    if not blocks:
        return None
    block = max(blocks, key=_excess)
    row, column = worst(block)
    found, right = (complex(m[row, column]).real for m in (block.analytic, block.numeric))
    words = (
        f"where elements of {block.input.name} are equal (ties), their gradients add up to {digits(found)} times the "
        f"upstream gradient where {digits(right)} is right"
    )
    if right and abs(found / right - round(found / right)) < 1e-6 and round(found / right) > 1:
        words += ": each of them gets all of it, not a share"
    return words


def _of_values(case: Case, joint: bool) -> Case:
    """The case as a function of the different values in each primal, or in all primals together.

    Raises:
        ValueError: complex numbers have no order.
    """
    primals, names = case.primals, case.names
    if any(primal.is_complex() for primal in primals) or case.target.declared.surrogates:
        raise ValueError("complex numbers have no order, and surrogates are functions of all elements")
    if joint:
        values, where = torch.cat([primal.reshape(-1) for primal in primals]).unique(return_inverse=True)
        vectors, names = [values], [" and ".join(names)]
        places = [(0, at) for at in where.split([primal.numel() for primal in primals])]
    else:
        parts = [primal.reshape(-1).unique(return_inverse=True) for primal in primals]
        vectors, places = [part for part, _ in parts], [(i, at) for i, (_, at) in enumerate(parts)]

    def function(*given: Tensor) -> Any:
        made = [given[i][at].view(p.shape).to(p.dtype) for (i, at), p in zip(places, primals, strict=True)]
        args, kwargs = case.arguments(made)
        return case.target.function(*args, **kwargs)

    target = Target(case.target.name, "callable", function, function, tuple(names))
    return Case(target, [vector.clone() for vector in vectors], seed=case.seed)


# -- the paragraph: the causes of all blocks in as few words as they need ------------------------------------------

Causes = Mapping[Place, Cause | None]
"""For each pair of output and input whose block is wrong, its cause, or None where none fits."""


def _told(finding: Finding, seen: Observation, found: Causes) -> Finding:
    block = max((Block(seen, *place) for place in found), key=_excess)
    row, column = worst(block)
    evidence = Evidence(
        torch.from_numpy(seen.analytic),
        torch.from_numpy(seen.numeric),
        torch.from_numpy(seen.estimate),
        outputs=tuple((side.name, side.shape) for side in seen.outputs),
        inputs=tuple((side.name, side.shape) for side in seen.inputs),
    )
    hint = next((cause.hint for cause in found.values() if cause is not None and cause.hint), None)
    return finding.but(
        cause=finding.cause or sentence(seen, found),
        hint="; ".join(text for text in (hint, finding.hint) if text) or None,
        evidence=evidence,
        analytic=block.take(seen.analytic)[row, column].item(),
        numeric=block.numeric[row, column].item(),
        error=_excess(block),
        estimate=block.estimate[row, column].item(),
    )


def _excess(block: Block) -> float:
    row, column = worst(block)
    return float(abs(block.analytic[row, column] - block.numeric[row, column]))


def sentence(seen: Observation, found: Causes) -> str:
    """Say what is wrong with the gradient."""
    parts = list[str]()
    groups = dict[str | None, list[Place]]()
    for place, cause in found.items():
        groups.setdefault(None if cause is None else cause.words, []).append(place)
    crossed = _crossed(seen, found)
    if crossed:
        parts.append(crossed)
        groups = {words: places for words, places in groups.items() if words is None or not words.startswith("is that")}
    for words, places in groups.items():
        if words is None:
            parts += [_listed(Block(seen, *place)) for place in places[:3]]
        else:
            parts.append(f"{_subject(seen, places)} {words}")
    return "; ".join(parts)


def _subject(seen: Observation, places: Sequence[Place]) -> str:
    """Name the inputs that a cause concerns, and the outputs if it is not all of them."""
    columns, rows = sorted({j for _, j in places}), sorted({i for i, _ in places})
    live = {i for i in range(len(seen.outputs)) for j in columns if _alive(Block(seen, i, j))}
    through = "" if live <= set(rows) else f" through {_and([seen.outputs[i].name for i in rows])}"
    return f"the gradient for {_and([seen.inputs[j].name for j in columns])}{through}"


def _alive(block: Block) -> bool:
    moves = block.judged & (np.abs(block.numeric) > 4 * block.estimate)
    return bool(moves.any() or (block.analytic != 0).any())


def _and(names: Sequence[str]) -> str:
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _crossed(seen: Observation, found: Causes) -> str:
    """Name two inputs that have each other's gradient."""
    said = [{None if c is None else c.words for (_, j), c in found.items() if j == i} for i in range(len(seen.inputs))]
    for i, j in itertools.combinations(range(len(seen.inputs)), 2):
        first, second = seen.inputs[i].name, seen.inputs[j].name
        if said[i] == {f"is that for {second}"} and said[j] == {f"is that for {first}"}:
            return f"the gradients for {first} and {second} are swapped"
    return ""


def _listed(block: Block) -> str:
    """Say without a cause how many entries are wrong, in which rows and columns, and which is worst."""
    wrong, output, name = block.wrong, block.output.name, block.input.name
    text = f"{int(wrong.sum())} of {wrong.size} entries of the Jacobian of {output} by {name} are wrong"
    columns, rows = np.flatnonzero(wrong.any(0)), np.flatnonzero(wrong.any(1))
    if len(columns) < wrong.shape[1]:
        text += f", those by elements {_some(block.input_shape, columns)} of {name}"
    elif len(rows) < wrong.shape[0]:
        text += f", those of elements {_some(block.output_shape, rows)} of {output}"
    row, column = worst(block)
    there = f"d {output}{element(block.output_shape, row)} / d {name}{element(block.input_shape, column)}"
    found, right = block.analytic[row, column], block.numeric[row, column]
    return f"{text}; {there.replace('[]', '')} is {found:.6g} where {right:.6g} is right"


def _some(shape: tuple[int, ...], places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
    names = [element(shape, int(place)) for place in places[:6]]
    return ", ".join(names) + (", ..." if len(places) > 6 else "")
