"""The cause of a wrong block: the simplest that gives exactly the numbers found, in every look at the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from . import chain, conjugate, exchange, factor, order, point, precision, terms, upstream
from .look import Array, Block
from .proposal import MECHANISMS, Proposal
from .region import Region, regions, tight

__all__ = ["Cause", "causes", "explains", "recognise", "worst"]

_ = (chain, conjugate, exchange, factor, order, point, precision, terms, upstream)  # they fill the table

UNKNOWN = 9.0
"""The cost of naming only where it is wrong."""
COSTLY = ("point", "chain-replaced", "term", "sum-term")
"""Mechanisms that are tried only where no other explains a block."""
PLAIN = ("zero", "nan", "sign", "factor", "constant", "upstream", "precision")
"""Mechanisms that are tried on a large block."""
LARGE = 20_000


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
    """

    code: str
    what: str
    where: str
    cost: float
    hint: str = ""
    mechanism: str = ""

    @property
    def words(self) -> str:
        """Both."""
        return f"{self.what} {self.where}".strip()


def recognise(blocks: Sequence[Block]) -> tuple[Cause | None, int]:
    """The simplest cause that explains the first block, which is wrong, and how many of the others it contradicts.

    Where it contradicts only blocks that are right, it is a cause that acts in some cases only. One that another
    wrong block contradicts is none.
    """
    first, *others = blocks
    best: tuple[Cause | None, int] = (None, len(blocks))
    for names in (_names(first, costly=False), _names(first, costly=True), ()):
        for cause in causes(first, names):
            found = [explains(cause, block) for block in others]
            if any(not agrees and block.wrong.any() for agrees, block in zip(found, others, strict=True)):
                continue
            if found.count(False) < best[1]:
                best = cause, found.count(False)
            if best[1] == 0:
                return best
    return best


def _names(block: Block, *, costly: bool) -> tuple[str, ...]:
    if block.wrong.size > LARGE:
        return () if costly else PLAIN
    return tuple(name for name in MECHANISMS if (name in COSTLY) == costly)


def causes(block: Block, names: Sequence[str]) -> list[Cause]:
    """Causes by these mechanisms that give exactly this block, the simplest first; without names the places only."""
    return sorted(_fitting(block, names), key=lambda cause: cause.cost)


def _fitting(block: Block, names: Sequence[str]) -> Iterator[Cause]:
    known = dict[bytes, list[tuple[str, Proposal]]]()
    for region in regions(block):
        if (block.wrong & ~region.mask).any():
            continue
        if not names:
            if region.words and tight(block, region):
                yield Cause("unknown", "is wrong", f"only {region.words}", UNKNOWN + region.cost)
            continue
        key = region.mask.tobytes()
        if key not in known:
            known[key] = [
                (name, p) for name in names for p in MECHANISMS[name](block, region.mask)
                if block.fits(p.predicted, p.spread, region.mask)
            ]  # fmt: skip
        for name, p in known[key]:
            yield Cause(p.code, p.words, region.words, p.cost + region.cost, p.hint, name)


def explains(cause: Cause, block: Block) -> bool:
    """Whether a cause gives exactly this block, wrong or not."""
    if not block.wrong.any() and not (block.judged & (block.numeric != 0)).any():
        return True
    return any(_holds(cause, block, region) for region in regions(block, cause.where.removeprefix("only ")))


def _holds(cause: Cause, block: Block, region: Region) -> bool:
    if cause.code == "unknown":
        inside: Array = block.judged & region.mask & (np.abs(block.numeric) > 4 * block.estimate)
        if not block.wrong.any():
            return not inside.any()
        return not (block.wrong & ~region.mask).any() and tight(block, region)
    if not region.mask.any():
        return not block.wrong.any()
    proposals = (p for p in MECHANISMS[cause.mechanism](block, region.mask) if p.words == cause.what)
    return any(block.fits(p.predicted, p.spread, region.mask) for p in proposals)


def worst(block: Block) -> tuple[int, int]:
    """Row and column of the entry whose error exceeds its tolerance most."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(np.where(block.wrong, block.analytic - block.numeric, 0))
        size = np.where(block.judged, block.estimate, 1) + block.floor + 1e-300
        row, column = np.unravel_index(int(np.argmax(gap / size)), gap.shape)
    return int(row), int(column)
