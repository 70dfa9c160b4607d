"""The right formula at the wrong point: at the output, at another input, at a rounded or overwritten value."""

from __future__ import annotations

from collections.abc import Iterator

from .look import Array, Block
from .proposal import Proposal, mechanism


@mechanism("point")
def point(block: Block, mask: Array) -> Iterator[Proposal]:
    """The derivative elsewhere."""
    for rank, (words, matrix) in enumerate(block.look.others.items()):
        yield Proposal(
            "point", f"is the derivative {words}", block.take(matrix), block.estimate, 1.4 + rank / 50,
            "save what the formula needs, and do not write to it afterwards",
        )  # fmt: skip
