"""From a wrong case to the paragraph about it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..case import Case
from ..finding import Evidence, Finding
from .look import Block, Look
from .observe import look_at
from .recognise import Cause, recognise, worst
from .sentence import hint, sentence
from .upstream import SCALES
from .variants import variants


def explain(case: Case, finding: Finding) -> Finding:
    """The same finding with cause, hint, numbers and evidence, as far as both Jacobians tell them.

    Args:
        case: one that shows it, as small as it can be: the cost grows with the number of its elements.

    Example:
        >>> explain(Case(make_target(Wrong.apply), (torch.randn(3, dtype=torch.float64),)), finding).cause
        'the gradient for x has the wrong sign'
    """
    looks = list[Look]()
    for variant in variants(case):
        try:
            looks.append(look_at(variant))
        except Exception:  # the target refuses it, or nothing can be told there
            if variant is case:
                return finding
    looks = list(_scaled(looks))
    base = looks[0]
    found = {(b.row, b.column): _cause((b.row, b.column), looks) for b in base.blocks() if b.wrong.any()}
    return _told(finding, base, found) if found else finding


def _scaled(looks: Sequence[Look]) -> Sequence[Look]:
    """The looks; where the first shows nothing, with cotangents of a size or sign that does."""
    if looks[0].wrong:
        return looks
    for scale in SCALES:
        scaled = looks[0].at_scale(scale)
        if scaled.wrong:
            return [scaled, *(look.at_scale(scale) for look in looks[1:])]
    return looks


def _cause(place: tuple[int, int], looks: Sequence[Look]) -> Cause | None:
    """The simplest cause that explains a block in every look."""
    blocks = [block for look in looks if (block := _block(look, place)) is not None]
    return recognise(blocks)[0]


def _block(look: Look, place: tuple[int, int]) -> Block | None:
    row, column = place
    inside = row < len(look.outputs) and column < len(look.inputs)
    return Block(look, row, column) if inside else None


def _told(finding: Finding, look: Look, found: dict[tuple[int, int], Cause | None]) -> Finding:
    block = max((Block(look, *place) for place in found), key=_excess)
    row, column = worst(block)
    numbers = {
        "analytic": block.analytic[row, column].item(),
        "numeric": block.numeric[row, column].item(),
        "error": abs(block.analytic[row, column] - block.numeric[row, column]).item(),
        "estimate": block.estimate[row, column].item(),
    }
    evidence = Evidence(
        torch.from_numpy(look.analytic), torch.from_numpy(look.numeric), torch.from_numpy(look.estimate),
        outputs=tuple((s.name, s.value.shape + (2,) * s.pairs) for s in look.outputs),
        inputs=tuple((s.name, s.value.shape + (2,) * s.pairs) for s in look.inputs),
    )  # fmt: skip
    return finding.but(
        cause=sentence(look, found), hint=finding.hint or hint(found), evidence=evidence, **numbers
    )  # fmt: skip


def _excess(block: Block) -> float:
    row, column = worst(block)
    return float(abs(block.analytic[row, column] - block.numeric[row, column]))
