"""From a wrong case to the paragraph about it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from ..case import Case
from ..clock import Clock
from ..finding import Evidence, Finding
from .look import Block, Look
from .observe import look_at
from .recognise import LARGE, Cause, recognise, recognise_large, worst
from .sentence import hint, sentence
from .tied import equal_elements
from .upstream import NONLINEAR, SCALES
from .variants import other_sizes, others, variants, wild
from .when import when

RICH = 64
"""A case with at most so many elements is looked at as it is, before it was shrunk."""
ENOUGH = 3
"""So many other looks tell as much as the smallest case."""
PATIENCE = 3.0
"""Seconds after which no other look is taken."""
AGAIN = (
    "changes when the backward pass runs again: a saved tensor, the upstream gradient or a buffer is overwritten "
    "in place, or it draws random numbers"
)


def explain(case: Case, finding: Finding, *, original: Case | None = None) -> Finding:
    """The same finding with cause, hint, numbers and evidence, as far as both Jacobians tell them.

    Args:
        case: one that shows it, as small as it can be: the cost grows with the number of its elements.
        original: the case before it was shrunk, which may tell more about the cause.

    Example:
        >>> explain(Case(make_target(Wrong.apply), (torch.randn(3, dtype=torch.float64),)), finding).cause
        'the gradient for x has the wrong sign'
    """
    tied = equal_elements(case) if finding.code == "wrong-at-ties" else None
    if tied is not None:
        return finding.but(cause=tied, hint="share the gradient out among equal elements, or give it to one of them")
    clock = Clock(PATIENCE)
    base = _looked(case)
    if base is None:
        return finding
    if base.size > LARGE:
        large = {(b.row, b.column): recognise_large(b) for b in base.blocks() if b.wrong.any()}
        return _told(finding, base, large) if large else finding
    rich = case
    if original is not None and sum(p.numel() for p in original.primals) <= RICH:
        rich = original
    more = [] if rich is case else [*(others(case) if _alike(case, rich) else ()), rich]
    looks = [base, *_looks(itertools.chain(more, variants(rich)), clock)]
    looks += [replace(look, coarse=True) for look in _looks(wild(rich), clock)]
    names = None
    if not base.linear(SCALES):
        names = ("upstream", "upstream-ignored", "precision")
        looks = _scaled(looks)
    found = dict[tuple[int, int], Cause | None]()
    for place in ((b.row, b.column) for b in looks[0].blocks() if b.wrong.any()):
        found[place], everywhere = _cause(place, looks, names)
        if not everywhere and names is None:
            looks += _looks(other_sizes(rich), clock)
            found[place] = _limited(found[place], place, looks)
    if not found and names is not None:
        return finding.but(cause=finding.cause or f"the gradient {NONLINEAR if base.repeats else AGAIN}")
    return _told(finding, looks[0], found) if found else finding


def _alike(case: Case, other: Case) -> bool:
    """Whether axes have the same names in both."""
    return [primal.ndim for primal in case.primals] == [primal.ndim for primal in other.primals]


def _looks(cases: Iterable[Case], clock: Clock) -> list[Look]:
    """Looks at cases, as many as there is time for."""
    asked = itertools.takewhile(lambda _: not clock.over, cases)
    return [look for case in asked if (look := _looked(case)) is not None and look.size <= LARGE]


def _looked(case: Case) -> Look | None:
    """A look at a case; None where the target refuses it, or nothing can be told there."""
    try:
        return look_at(case)
    except Exception:
        return None


def _scaled(looks: Sequence[Look]) -> list[Look]:
    """The looks with cotangents of a size or sign that shows an error in the first."""
    for scale in (1.0, *SCALES):
        if looks[0].at_scale(scale).wrong:
            return [look.at_scale(scale) for look in looks]
    return list(looks)


def _blocks(place: tuple[int, int], looks: Sequence[Look]) -> list[Block]:
    row, column = place
    return [Block(look, *place) for look in looks if row < len(look.outputs) and column < len(look.inputs)]


def _cause(place: tuple[int, int], looks: Sequence[Look], names: Sequence[str] | None) -> tuple[Cause | None, bool]:
    """The simplest cause that explains a block in every look, and whether it does, where it explains the wrong ones."""
    blocks = _blocks(place, looks)
    if sum(block.wrong.any() for block in blocks[1:]) >= ENOUGH:  # plain values and short axes hide what it is
        cause, agree = recognise(blocks[1:], names)
    else:
        cause, agree = recognise(blocks, names)
    if names is not None and (cause is None or cause.code == "unknown"):
        words = NONLINEAR if looks[0].repeats else AGAIN
        return Cause("nonlinear", words, "", 9, "a backward is linear in the upstream gradient"), True
    return cause, all(agree)


def _limited(cause: Cause | None, place: tuple[int, int], looks: Sequence[Look]) -> Cause | None:
    """The cause with the sizes for which it acts."""
    blocks = _blocks(place, looks)
    condition = when(blocks)
    if cause is None and condition:  # one for each size: the first look's own
        cause, _ = recognise(blocks[:1])
    if cause is None or not condition:
        return cause
    return replace(cause, where=f"{cause.where} ({condition})" if cause.where else condition)


def _told(finding: Finding, look: Look, found: dict[tuple[int, int], Cause | None]) -> Finding:
    block = max((Block(look, *place) for place in found), key=_excess)
    row, column = worst(block)
    evidence = Evidence(
        torch.from_numpy(look.analytic), torch.from_numpy(look.numeric), torch.from_numpy(look.estimate),
        outputs=tuple((side.name, tuple(side.value.shape) + (2,) * side.pairs) for side in look.outputs),
        inputs=tuple((side.name, tuple(side.value.shape) + (2,) * side.pairs) for side in look.inputs),
    )  # fmt: skip
    return finding.but(
        cause=finding.cause or sentence(look, found), hint=finding.hint or hint(found), evidence=evidence,
        analytic=block.take(block.look.analytic)[row, column].item(), numeric=block.numeric[row, column].item(),
        error=_excess(block), estimate=block.estimate[row, column].item(),
    )  # fmt: skip


def _excess(block: Block) -> float:
    row, column = worst(block)
    return float(abs(block.analytic[row, column] - block.numeric[row, column]))
