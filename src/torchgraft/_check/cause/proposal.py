"""A mechanism: one kind of mistake, and what the derivative under test would be if it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .look import Array, Block


@dataclass(frozen=True)
class Proposal:
    """What a mistake would give.

    Attributes:
        code: of the mechanism, stable, as ``"sign"``.
        words: what goes on after "the gradient for x", as "has the wrong sign"; equal in all cases where the cause is.
        predicted: the block of the Jacobian that it gives.
        spread: the error of `predicted` that numerics explain.
        cost: how far-fetched it is; the cheapest that fits is named.
        hint: the next step.
        free: numbers that were fitted; as many entries show nothing.
    """

    code: str
    words: str
    predicted: Array
    spread: Array
    cost: float
    hint: str = ""
    free: int = 0


Mechanism = Callable[[Block, Array], Iterator[Proposal]]
"""Proposes what a block would be, given the mask of the entries to be explained."""

MECHANISMS: dict[str, Mechanism] = {}


def mechanism(name: str) -> Callable[[Mechanism], Mechanism]:
    """Add to the table."""

    def add(propose: Mechanism) -> Mechanism:
        MECHANISMS[name] = propose
        return propose

    return add
