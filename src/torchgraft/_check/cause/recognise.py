"""The cause of a wrong block: the simplest that gives exactly the numbers found, in every observation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .blocks import POLE, Array, Block, Proposal, Side
from .places import Cut, Region, cuts, regions, telling, tight
from .rearranged import element
from .table import MISTAKES, Mistake

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


class _Candidates:
    """A block with its regions, and what mistakes would give there."""

    def __init__(self, block: Block, parted: Sequence[Cut]) -> None:
        self.block = block
        self.wrong = int(block.wrong.sum())
        self.contradicts = bool(self.wrong) and not _cancelled(block)
        self.regions = regions(block, parted)
        self._fitting = dict[tuple[int, bytes], list[Proposal]]()

    def fitting(self, mistake: Mistake, region: Region) -> list[Proposal]:
        """Proposals of a mistake that are exactly this block."""
        key = id(mistake), region.mask.tobytes()
        if key not in self._fitting:
            with np.errstate(all="ignore"):  # formulas have poles, and what is infinite is not compared
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
            told = (region for region in possible if region.words and tight(self.block, region))
            found = [Cause("is wrong", region.words, UNKNOWN + region.cost) for region in told]
        return sorted(found, key=lambda cause: cause.cost)

    def agrees(self, cause: Cause) -> bool:
        """Whether a cause gives exactly this block, wrong or not."""
        block, region = self.block, self.regions.get(cause.where)
        alive: Array = block.judged & (np.abs(block.numeric) > 4 * block.estimate)
        if region is None or not (region.mask & (alive | block.wrong)).any():
            return not self.wrong
        if cause.mistake is None:
            return bool(self.wrong) and not (block.wrong & ~region.mask).any() and tight(block, region)
        return any(p.words == cause.what for p in self.fitting(cause.mistake, region))

    def tells(self, cause: Cause) -> bool:
        """Whether this block shows that the cause acts nowhere else."""
        region = self.regions.get(cause.where)
        return region is not None and telling(self.block, region)


def _cancelled(block: Block) -> bool:
    """Whether odd arguments made all that is wrong next to nothing, so that no factor can be read off."""
    with np.errstate(invalid="ignore"):
        plain = block.wrong & (np.abs(block.analytic) < POLE * np.abs(block.numeric))
    return block.observation.coarse and not plain.any()


def recognise(blocks: Sequence[Block], mistakes: Sequence[Mistake] = MISTAKES) -> tuple[Cause | None, list[bool]]:
    """Find the simplest cause that explains all blocks, and for each block whether it does.

    A cause may be contradicted by blocks that are right, if no other is not: then it acts in some cases only. One that
    a wrong block contradicts is none, and so is a place that is all there is.
    """
    plain = max((block.deviation for block in blocks if not block.observation.coarse), default=1.0)
    blocks = [b for b in blocks if not b.observation.coarse or plain > 100 * b.observation.eps**0.5]
    parted = cuts(blocks)
    studied = [_Candidates(block, parted) for block in blocks]
    total = sum(one.wrong for one in studied)
    best: tuple[Cause | None, list[bool]] = None, []
    for listed in _stages(max(studied, key=lambda one: one.wrong), mistakes):
        for cause in listed[:CANDIDATES]:
            agree = [one.agrees(cause) for one in studied]
            if any(one.contradicts and not agrees for one, agrees in zip(studied, agree, strict=True)):
                continue
            if (cause.free and total < cause.free + 2) or (cause.where and not any(o.tells(cause) for o in studied)):
                continue
            if best[0] is None or sum(agree) > sum(best[1]):
                best = cause, agree
            if all(agree):
                return best
        if best[0] is not None:
            break
    return best


def _stages(first: _Candidates, mistakes: Sequence[Mistake]) -> Iterator[list[Cause]]:
    """Causes of a block: plain mistakes, then costly ones, then places."""
    yield first.causes([mistake for mistake in mistakes if not mistake.last])
    yield first.causes([mistake for mistake in mistakes if mistake.last])
    yield first.causes([])


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


def worst(block: Block) -> tuple[int, int]:
    """Row and column of the entry whose error exceeds its tolerance most."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(np.where(block.wrong, block.analytic - block.numeric, 0))
        size = np.where(block.judged, block.estimate, 1) + block.floor + 1e-300
        row, column = np.unravel_index(int(np.argmax(gap / size)), gap.shape)
    return int(row), int(column)
