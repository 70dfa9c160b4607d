"""From a wrong case to the paragraph about it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..case import Case
from ..clock import Clock, OutOfTime
from ..evidence import Evidence, apart, listed
from ..finding import Finding
from ..numeric.deviation import FAINT, TOLERANCE
from ..target import Target, differentiable
from ..variations import resized, sizes
from ..work import affordable
from .blocks import Array, Block, Observation, element, observe
from .factors import digits
from .recognise import MISTAKES, Cause, Mistake, recognise, recognise_large
from .terms import NONLINEAR, SCALES

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

Causes = Sequence[tuple[Block, Cause | None]]
"""The blocks that are wrong, each with its cause, or None where none fits."""


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
    sure = finding.code.startswith("wrong")  # It is wrong by more than its noise.
    base = next(iter(_observed([case], sure, most=np.inf)), None)
    if base is None:
        return finding
    if base.numeric.size > LARGE:
        return _told(finding, [(block, recognise_large(block)) for block in base.wrong])
    clock = Clock(calls=min(affordable(one, CALLS) for one in (case, original or case)))
    small = rich = clock.watch_case(case)
    more, given = list[Case](), list[Observation]()
    if original is not None and sum(p.numel() for p in original.primals) <= RICH:
        rich = clock.watch_case(original)
        # With as many axes, these have the same names.
        alike = [p.ndim for p in small.primals] == [p.ndim for p in rich.primals]
        more, given = [*(others(small) if alike else ())], _observed([rich], sure)
    seen = [base, *_observed(more, sure), *given, *_observed(variants(rich), sure)]
    if not base.linear(SCALES):
        return _bent(finding, seen)
    found = list[tuple[Block, Cause | None]]()
    # At simpler values more may be wrong than where it was found.
    wrong = [block for block in base.wrong if any(one.wrong.any() for one in _at(block, given))]
    for block in wrong or base.wrong:
        cause, agree = _cause(block, seen, MISTAKES)
        if not all(agree):
            seen += _observed(other_sizes(rich), sure)
            cause = _limited(cause, _at(block, seen))
        found.append((block, cause))
    return _told(finding, found)


def _bent(finding: Finding, seen: Sequence[Observation]) -> Finding:
    """Explain a backward that is not linear in the upstream gradient, at a scale of it that shows what is wrong."""
    words = NONLINEAR if seen[0].repeats else AGAIN
    scale = next((s for s in (1.0, *SCALES) if seen[0].at_scale(s).wrong), None)
    if scale is None:
        return finding.but(cause=finding.cause or f"the gradient {words}")
    seen = [one.at_scale(scale) for one in seen]
    found = list[tuple[Block, Cause | None]]()
    for block in seen[0].wrong:
        cause, _ = _cause(block, seen, [mistake for mistake in MISTAKES if mistake.bends])
        known = cause is not None and cause.mistake is not None
        found.append((block, cause if known else Cause(words, hint="a backward is linear in the upstream gradient")))
    return _told(finding, found)


def _observed(cases: Iterable[Case], sure: bool, most: float = LARGE) -> list[Observation]:
    """Observe cases, as many as there are calls for; without those that the target refuses, or that have most entries.

    Where the gradient is surely wrong it is by more than its noise, which blurs what is compared.
    """
    found = list[Observation]()
    with contextlib.suppress(OutOfTime):
        for case in cases:
            with contextlib.suppress(Exception):
                found.append(observe(case).blurred() if sure else observe(case))
    return [one for one in found if one.numeric.size <= most]


def _at(block: Block, seen: Sequence[Observation]) -> list[Block]:
    """A block in other observations."""
    i, j = block.row, block.column
    return [Block(one, i, j) for one in seen if i < len(one.outputs) and j < len(one.inputs)]


def _cause(block: Block, seen: Sequence[Observation], mistakes: Sequence[Mistake]) -> tuple[Cause | None, list[bool]]:
    """The simplest cause of a block in those observations in which it is wrong, and which ones it explains."""
    blocks = _at(block, seen)
    enough = sum(block.wrong.any() for block in blocks[1:]) >= ENOUGH  # Plain values and short axes hide the cause.
    return recognise(blocks[1:] if enough else blocks, mistakes)


def _limited(cause: Cause | None, blocks: Sequence[Block]) -> Cause | None:
    """The cause with the sizes for which it acts."""
    condition = when(blocks)
    if cause is None and condition:  # Each size has its own cause: take that of the first observation.
        cause, _ = recognise(blocks[:1])
    if cause is None or not condition:
        return cause
    return replace(cause, where=f"{cause.where} ({condition})" if cause.where else condition)


def when(blocks: Sequence[Block]) -> str:
    """Words such as "only where axis 0 of x has size 1"; empty where sizes do not part wrong blocks from right ones."""
    for i, side in enumerate(blocks[-1].observation.inputs):
        seen = [(block.observation.inputs[i].value.shape, bool(block.wrong.any())) for block in blocks]
        for axis in range(side.value.ndim):
            known = [(shape[axis], acts) for shape, acts in seen if len(shape) == side.value.ndim]
            words = _parted({n for n, acts in known if acts}, {n for n, acts in known if not acts})
            if words:
                return f"only where {side.name if side.value.ndim == 1 else f'axis {axis} of {side.name}'} has {words}"
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
        for multiples, others, which in ((wrong, right, "a"), (right, wrong, "no")):
            if not any(n % tile for n in multiples) and all(n % tile for n in others):
                return f"a size that is {which} multiple of {tile}"
    return ""


# -- cases next to a case: other values, another order, other sizes ------------------------------------------------


def others(case: Case) -> Iterator[Case]:
    """Other values, of the same signs and of the opposite ones."""
    yield _with_values(case, _nudged)
    yield _with_values(case, lambda x, i: _nudged(-x.flip(tuple(range(x.ndim))), i))


def variants(case: Case) -> Iterator[Case]:
    """Others that are no harder to look at, and larger ones, with values of all sizes; the target may refuse some."""
    yield from others(case)
    for size in sizes(case):
        yield from _resized(case, size, size + 1)
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
    """Values of all sizes from 0.1 to 4, and of both signs; to 1 where few digits would not outlast saturation."""
    generator = torch.Generator().manual_seed(seed + 1000 * place)
    decades = 1.6 if torch.finfo(x.dtype).eps < 1e-4 else 1.0
    size = 10 ** (decades * torch.rand(x.shape, generator=generator, dtype=torch.float64) - 1)
    sign = 2 * torch.randint(0, 2, x.shape, generator=generator) - 1
    return (sign * size).to(x)


def _nudged(x: Tensor, place: int) -> Tensor:
    """Other values of the same signs, all different, each within a fifth; zeros move a little to both sides."""
    i = torch.arange(x.numel(), dtype=torch.float64, device=x.device).reshape(x.shape)
    part = (i * 0.6180339887498949 + 0.31 + 0.17 * place).frac() - 0.5  # The golden ratio spreads them evenly.
    return torch.where(x == 0, part.to(x.dtype), x * (1 + 0.2 * part).to(x.dtype)).contiguous()


# -- equal elements, where a function such as a maximum has no derivative: what they share has one -----------------


def equal_elements(case: Case) -> str | None:
    """Say what is wrong with the gradient added over equal elements, in words; None if nothing is.

    Those of one tensor are looked at first, then those of several.
    """
    for joint in (False, True):
        with contextlib.suppress(Exception):  # The target refuses it, or nothing can be told there.
            block = max(observe(_of_values(case, joint)).wrong, key=_excess)
            found, right = (complex(m[block.worst]).real for m in (block.analytic, block.numeric))
            words = f"where elements of {block.input.name} are equal (ties), their gradients add up to {digits(found)} "
            words += f"times the upstream gradient where {digits(right)} is right"
            times = found / right if right else 0
            whole = round(times) > 1 and abs(times - round(times)) < 1e-6
            return words + (": each of them gets all of it, not a share" if whole else "")
    return None


def _of_values(case: Case, joint: bool) -> Case:
    """The case as a function of the different values in each primal, or in all primals together.

    Raises:
        ValueError: complex numbers have no order.
    """
    primals = case.primals
    if any(primal.is_complex() for primal in primals) or case.target.declared.surrogates:
        raise ValueError("complex numbers have no order, and surrogates are functions of all elements")
    vectors, places = list[Tensor](), list[tuple[int, Tensor]]()
    for group in [primals] if joint else [[primal] for primal in primals]:
        values, at = torch.cat([primal.reshape(-1) for primal in group]).unique(return_inverse=True)
        places += [(len(vectors), part) for part in at.split([primal.numel() for primal in group])]
        vectors.append(values)

    def function(*given: Tensor) -> Any:
        made = [given[i][at].view(p.shape).to(p.dtype) for (i, at), p in zip(places, primals, strict=True)]
        args, kwargs = case.arguments(made)
        return case.target.function(*args, **kwargs)

    names = (" and ".join(case.names),) if joint else tuple(case.names)
    return Case(Target(case.target.name, "callable", function, function, names), vectors, seed=case.seed)


# -- the paragraph: the causes of all blocks in as few words as they need ------------------------------------------


def _told(finding: Finding, found: Causes) -> Finding:
    if not found:
        return finding
    block = max((block for block, _ in found), key=_excess)
    seen = block.observation
    evidence = Evidence(
        torch.from_numpy(seen.analytic),
        torch.from_numpy(seen.numeric),
        torch.from_numpy(seen.estimate),
        outputs=tuple((side.name, side.shape) for side in seen.outputs),
        inputs=tuple((side.name, side.shape) for side in seen.inputs),
    )
    hint = next((cause.hint for _, cause in found if cause is not None and cause.hint), None)
    steps = [hint, *(finding.hint or "").split("; ")]
    if _excess(block) > FAINT * abs(block.numeric[block.worst]):  # No tolerance of a kernel explains it.
        steps = [step for step in steps if step and not step.startswith(TOLERANCE)]
    return finding.but(
        cause=finding.cause or sentence(seen, found),
        hint="; ".join(filter(None, steps)) or None,
        evidence=evidence,
        analytic=block.take(seen.analytic)[block.worst].item(),
        numeric=block.numeric[block.worst].item(),
        error=_excess(block),
        estimate=block.estimate[block.worst].item(),
    )


def _excess(block: Block) -> float:
    return float(abs(block.analytic[block.worst] - block.numeric[block.worst]))


def sentence(seen: Observation, found: Causes) -> str:
    """Say what is wrong with the gradient."""
    parts, groups = list[str](), dict[str, list[Block]]()
    for block, cause in found:
        groups.setdefault("" if cause is None else cause.words, []).append(block)
    unknown = groups.pop("", [])
    for words, blocks in groups.items():
        # Name the inputs that a cause concerns, and its outputs unless it concerns all.
        columns, rows = {block.column for block in blocks}, {block.row for block in blocks}
        pairs = (Block(seen, i, j) for i in range(len(seen.outputs)) for j in columns)
        live = {block.row for block in pairs if block.alive.any() or (block.analytic != 0).any()}
        through = "" if live <= rows else f" through {listed([seen.outputs[i].name for i in sorted(rows)])}"
        parts.append(f"the gradient for {listed([seen.inputs[j].name for j in sorted(columns)])}{through} {words}")
    for a, b in itertools.combinations([side.name for side in seen.inputs], 2):
        swapped = {f"the gradient for {a} is that for {b}", f"the gradient for {b} is that for {a}"}
        if swapped <= set(parts):
            parts = [f"the gradients for {a} and {b} are swapped", *(part for part in parts if part not in swapped)]
    return "; ".join([*parts, *map(_listed, unknown[:3])])


def _listed(block: Block) -> str:
    """Say without a cause how many entries are wrong, in which rows and columns, and which is worst."""
    wrong, output, name = block.wrong, block.output.name, block.input.name
    text = f"{int(wrong.sum())} of {wrong.size} entries of the Jacobian of {output} by {name} are wrong"
    by, of = (np.flatnonzero(wrong.any(axis)) for axis in (0, 1))
    if len(by) < wrong.shape[1]:
        text += f", those by elements {_some(block.input_shape, by)} of {name}"
    elif len(of) < wrong.shape[0]:
        text += f", those of elements {_some(block.output_shape, of)} of {output}"
    row, column = block.worst
    there = f"d {output}{element(block.output_shape, row)} / d {name}{element(block.input_shape, column)}"
    found, right = apart(block.analytic[row, column].item(), block.numeric[row, column].item())
    return f"{text}; {there.replace('[]', '')} is {found} where {right} is right"


def _some(shape: tuple[int, ...], places: Array) -> str:
    return ", ".join([element(shape, int(place)) for place in places[:6]] + ["..."] * (len(places) > 6))
