"""The cause of a wrong block: the simplest that gives exactly the numbers found, in every look at the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import chain, conjugate, exchange, factor, order, point, precision, terms, upstream
from .cuts import Cut, cuts
from .exchange import element
from .look import POLE, Array, Block, Side
from .proposal import MECHANISMS, Proposal
from .region import Region, regions, telling, tight

TABLE = (chain, conjugate, exchange, factor, order, point, precision, terms, upstream)
"""The files whose mechanisms are known."""
UNKNOWN = 9.0
"""The cost of naming only where it is wrong."""
COSTLY = ("point", "chain-replaced", "term", "sum-term")
"""Mechanisms that are tried only where no other explains a block."""
PLAIN = ("zero", "nan", "sign", "factor", "constant", "precision")
"""Mechanisms that are tried on a large block."""
LARGE = 5000
"""Entries of a large block."""
SOME = 32
"""So many rows and columns of a large block are looked at."""
CANDIDATES = 80
"""So many causes that explain one block are tried on the others."""


@dataclass(frozen=True)
class Cause:
    """One mistake, in words.

    Attributes:
        code: of the mechanism; ``"unknown"`` where only the place is known.
        what: after "the gradient for x", as "has the wrong sign".
        where: the place, as "where x < 0"; empty for everywhere.
        cost: how far-fetched it is.
        hint: the next step.
        mechanism: the one that proposed it.
        free: numbers that were fitted to the block.
    """

    code: str
    what: str
    where: str
    cost: float
    hint: str = ""
    mechanism: str = ""
    free: int = 0

    @property
    def words(self) -> str:
        """Both."""
        return f"{self.what} {'only ' * (self.code == 'unknown')}{self.where}".strip()


class Study:
    """A block with its regions, and what mechanisms propose for them."""

    def __init__(self, block: Block, parted: Sequence[Cut]) -> None:
        self.block = block
        self.wrong = bool(block.wrong.any())
        self.contradicts = self.wrong and not _cancelled(block)
        self.regions = regions(block, parted)
        self._fitting = dict[tuple[str, bytes], list[Proposal]]()

    def fitting(self, mechanism: str, region: Region) -> list[Proposal]:
        """What a mechanism proposes that gives exactly this block."""
        key = mechanism, region.mask.tobytes()
        if key not in self._fitting:
            with np.errstate(all="ignore"):  # formulas have poles, and what is infinite is not compared
                proposals = MECHANISMS[mechanism](self.block, region.mask)
                self._fitting[key] = [p for p in proposals if self.block.fits(p.predicted, p.spread, region.mask)]
        return self._fitting[key]

    def causes(self, names: Sequence[str]) -> list[Cause]:
        """Causes by these mechanisms that give exactly this block, the simplest first."""
        found = [
            Cause(p.code, p.words, region.words, p.cost + region.cost, p.hint, name, p.free)
            for region in self._possible() for name in names for p in self.fitting(name, region)
        ]  # fmt: skip
        return sorted(found, key=lambda cause: cause.cost)

    def places(self) -> list[Cause]:
        """The same without a mechanism: only where it is wrong."""
        found = [
            Cause("unknown", "is wrong", region.words, UNKNOWN + region.cost)
            for region in self._possible() if region.words and tight(self.block, region)
        ]  # fmt: skip
        return sorted(found, key=lambda cause: cause.cost)

    def _possible(self) -> Iterator[Region]:
        return (region for region in self.regions.values() if not (self.block.wrong & ~region.mask).any())

    def agrees(self, cause: Cause) -> bool:
        """Whether a cause gives exactly this block, wrong or not."""
        block, region = self.block, self.regions.get(cause.where)
        alive: Array = block.judged & (np.abs(block.numeric) > 4 * block.estimate)
        if region is None or not (region.mask & (alive | block.wrong)).any():
            return not self.wrong
        if cause.code == "unknown":
            return self.wrong and not (block.wrong & ~region.mask).any() and tight(block, region)
        return any(p.words == cause.what for p in self.fitting(cause.mechanism, region))

    def tells(self, cause: Cause) -> bool:
        """Whether this block shows that the cause acts nowhere else."""
        region = self.regions.get(cause.where)
        return region is not None and telling(self.block, region)


def _cancelled(block: Block) -> bool:
    """Whether odd arguments made all that is wrong next to nothing, so that no factor can be read off."""
    with np.errstate(invalid="ignore"):
        plain = block.wrong & (np.abs(block.analytic) < POLE * np.abs(block.numeric))
    return block.look.coarse and not plain.any()


def recognise(blocks: Sequence[Block], names: Sequence[str] | None = None) -> tuple[Cause | None, list[bool]]:
    """The simplest cause that explains all blocks, and for each block whether it does.

    A cause may be contradicted by blocks that are right, if no other is not: then it acts in some cases only. One that
    a wrong block contradicts is none, and so is a place that is all there is.

    Args:
        names: the only mechanisms to think of.
    """
    plain = max((block.deviation for block in blocks if not block.look.coarse), default=1.0)
    blocks = [b for b in blocks if not b.look.coarse or plain > 100 * b.look.eps**0.5]  # others do not show it
    parted = cuts(blocks)
    studies = [Study(block, parted) for block in blocks]
    first = max(studies, key=_told)
    best: tuple[Cause | None, list[bool]] = None, []
    for listed in _stages(first, names):
        for cause in listed[:CANDIDATES]:
            agree = [study.agrees(cause) for study in studies]
            if any(study.contradicts and not agrees for study, agrees in zip(studies, agree, strict=True)):
                continue
            if cause.free and sum(_told(study) for study in studies) < cause.free + 2:
                continue
            if cause.where and not any(study.tells(cause) for study in studies):
                continue
            if best[0] is None or sum(agree) > sum(best[1]):
                best = cause, agree
            if all(agree):
                return best
        if best[0] is not None:
            return best
    return best


def recognise_large(block: Block) -> Cause | None:
    """The cause of a large block, from some of its wrong entries; the place is a list of elements."""
    rows, columns = (np.flatnonzero(block.wrong.any(axis))[:SOME] for axis in (1, 0))
    part = np.ix_(rows, columns)
    look = replace(
        block.look, analytic=block.analytic[part], numeric=block.numeric[part], estimate=block.estimate[part],
        outputs=(Side(block.output.name, np.zeros(len(rows))),), scaled=None, elsewhere=None,
        inputs=(Side(block.input.name, block.input.value.ravel()[columns]),),
    )  # fmt: skip
    if block.input.pairs or block.output.pairs:
        return None
    cause, _ = recognise([Block(look, 0, 0)], PLAIN)
    if cause is None:
        return None
    count, total = int(block.wrong.any(0).sum()), block.wrong.shape[1]
    where = f"in {count} of its {total} elements" if count < total else ""
    if count <= 4:
        where = f"in {'one element' if count == 1 else 'elements'} "
        where += ", ".join(element(block.input_shape, int(column)) for column in columns)
    return replace(cause, where=where)


def _told(study: Study) -> int:
    return int(study.block.wrong.sum())


def _stages(study: Study, names: Sequence[str] | None) -> Iterator[list[Cause]]:
    """Causes of a block: by plain mechanisms, then by costly ones, then places."""
    known = [name for name in MECHANISMS if names is None or name in names]
    yield study.causes([name for name in known if name not in COSTLY])
    yield study.causes([name for name in known if name in COSTLY])
    yield study.places()


def worst(block: Block) -> tuple[int, int]:
    """Row and column of the entry whose error exceeds its tolerance most."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(np.where(block.wrong, block.analytic - block.numeric, 0))
        size = np.where(block.judged, block.estimate, 1) + block.floor + 1e-300
        row, column = np.unravel_index(int(np.argmax(gap / size)), gap.shape)
    return int(row), int(column)
