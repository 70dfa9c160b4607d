"""The cause of a wrong block: the simplest mistake that gives exactly the numbers found, in every observation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from . import factors, terms
from .blocks import Array, Block, Proposal, Side, element
from .places import Cut, Region, cuts, regions

Propose = Callable[[Block, Array], Iterator[Proposal]]
"""Proposes what a block would be, given the mask of the entries to be explained."""


class Mistake(NamedTuple):
    """One kind of mistake.

    Attributes:
        propose: what the derivative under test would be if it was made.
        large: it is looked for in large blocks too.
        last: it is looked for only where no other explains a block.
        bends: it is a mistake with the upstream gradient that one scale of it would not show.
    """

    propose: Propose
    large: bool = False
    last: bool = False
    bends: bool = False


MISTAKES = (
    Mistake(factors.zero, large=True),
    Mistake(factors.factor, large=True),
    Mistake(factors.constant, large=True),
    Mistake(factors.precision, large=True, bends=True),
    Mistake(factors.chain),
    Mistake(factors.another, last=True),
    Mistake(terms.conjugate),
    Mistake(terms.order),
    Mistake(terms.adjoint),
    Mistake(terms.swapped),
    Mistake(terms.elementwise),
    Mistake(terms.straight_through),
    Mistake(terms.overwritten),
    Mistake(terms.offset),
    Mistake(terms.term, last=True),
    Mistake(terms.sum_term, last=True),
    Mistake(terms.ignored, bends=True),
    Mistake(terms.upstream, bends=True),
)

UNKNOWN = 9.0
"""The cost of naming only where it is wrong."""
SOME = 32
"""So many rows and columns of a large block are looked at."""
CANDIDATES = 80
"""So many causes that explain one block are tried on the others."""


@dataclass(frozen=True)
class Cause:
    """One mistake, in words.

    Attributes:
        what: after "the gradient for x", as "has the wrong sign".
        where: the place, as "where x < 0"; empty for everywhere.
        cost: how far-fetched it is.
        hint: the next step.
        mistake: the row of the table; None where only the place is known.
        free: numbers that were fitted to the block.
    """

    what: str
    where: str = ""
    cost: float = 0.0
    hint: str = ""
    mistake: Mistake | None = None
    free: int = 0

    @property
    def words(self) -> str:
        """The mistake and its place in one phrase: "has the wrong sign where x < 0"."""
        return f"{self.what} {'only ' * (self.mistake is None and bool(self.where))}{self.where}".strip()


class _Studied:
    """A block with its regions, and what mistakes would give there."""

    def __init__(self, block: Block, parted: Sequence[Cut]) -> None:
        self.block = block
        self.wrong = int(block.wrong.sum())
        self.regions = regions(block, parted)
        self._fitting = dict[tuple[Propose, bytes], list[Proposal]]()

    def fitting(self, mistake: Mistake, region: Region) -> list[Proposal]:
        """Proposals of a mistake that are exactly this block."""
        key = mistake.propose, region.mask.tobytes()
        if key not in self._fitting:
            with np.errstate(all="ignore"):  # Formulas have poles, and infinite values are not compared.
                proposals = mistake.propose(self.block, region.mask)
                self._fitting[key] = [p for p in proposals if self.block.fits(p, region.mask)]
        return self._fitting[key]

    def causes(self, mistakes: Sequence[Mistake]) -> list[Cause]:
        """Causes that give exactly this block, the simplest first; without mistakes, places where it is wrong."""
        possible = [region for region in self.regions.values() if not (self.block.wrong & ~region.mask).any()]
        found = [
            Cause(p.words, region.words, p.cost + region.cost, p.hint, mistake, p.free)
            for region in possible
            for mistake in mistakes
            for p in self.fitting(mistake, region)
        ]
        if not mistakes:
            told = (region for region in possible if region.words and region.tight(self.block))
            found = [Cause("is wrong", region.words, UNKNOWN + region.cost) for region in told]
        return sorted(found, key=lambda cause: cause.cost)

    def agrees(self, cause: Cause) -> bool:
        """Tell whether a cause gives exactly this block, wrong or not."""
        block, region = self.block, self.regions.get(cause.where)
        if region is None or not (region.mask & (block.alive | block.wrong)).any():
            return not self.wrong
        if cause.mistake is None:
            return bool(self.wrong) and not (block.wrong & ~region.mask).any() and region.tight(block)
        return any(p.words == cause.what for p in self.fitting(cause.mistake, region))


def recognise(blocks: Sequence[Block], mistakes: Sequence[Mistake] = MISTAKES) -> tuple[Cause | None, list[bool]]:
    """Find the simplest cause that explains all blocks, and for each block whether it does.

    Plain mistakes are tried first, then costly ones, then places. A cause may be contradicted by blocks that are right,
    if no other is not: then it acts in some cases only. One that a wrong block contradicts is none, and so is a place
    that is all there is.
    """
    parted = cuts(blocks)
    studied = [_Studied(block, parted) for block in blocks]
    total = sum(one.wrong for one in studied)
    best: tuple[Cause | None, list[bool]] = None, []
    for stage in ([m for m in mistakes if not m.last], [m for m in mistakes if m.last], []):
        for cause in max(studied, key=lambda one: one.wrong).causes(stage)[:CANDIDATES]:
            agree = [one.agrees(cause) for one in studied]
            if any(one.wrong and not agrees for one, agrees in zip(studied, agree, strict=True)):
                continue
            places = [(one.block, one.regions[cause.where]) for one in studied if cause.where in one.regions]
            if cause.where and not any(region.telling(block) for block, region in places):
                continue
            if cause.free and total < cause.free + 2:
                continue
            if best[0] is None or sum(agree) > sum(best[1]):
                best = cause, agree
            if all(agree):
                return best
        if best[0] is not None:
            break
    return best


def recognise_large(block: Block) -> Cause | None:
    """Find the cause of a large block from some of its wrong entries; the place is a list of elements."""
    if block.input.pairs or block.output.pairs:
        return None
    rows, columns = (np.flatnonzero(block.wrong.any(axis))[:SOME] for axis in (1, 0))
    part = np.ix_(rows, columns)
    small = replace(
        block.observation,
        analytic=block.analytic[part],
        numeric=block.numeric[part],
        estimate=block.estimate[part],
        outputs=(Side(block.output.name, np.zeros(len(rows))),),
        inputs=(Side(block.input.name, block.input.value.ravel()[columns]),),
        scaled=None,
    )
    cause, _ = recognise([Block(small, 0, 0)], [mistake for mistake in MISTAKES if mistake.large])
    if cause is None:
        return None
    count, total = int(block.wrong.any(0).sum()), block.wrong.shape[1]
    where = f"in {count} of its {total} elements" if count < total else ""
    if count <= 4:
        where = f"in {'one element' if count == 1 else 'elements'} "
        where += ", ".join(element(block.input_shape, int(column)) for column in columns)
    return replace(cause, where=where)
