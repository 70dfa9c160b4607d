"""The mistakes that are known, one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .blocks import Array, Block, Proposal
from .factors import another, chain, conjugate, constant, factor, nan, precision, sign, zero
from .rearranged import adjoint, order, permuted, swapped, symmetric
from .terms import elementwise, ignored, offset, overwritten, straight_through, sum_term, term, upstream

Propose = Callable[[Block, Array], Iterator[Proposal]]
"""Proposes what a block would be, given the mask of the entries to be explained."""


@dataclass(frozen=True)
class Mistake:
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
    Mistake(zero, large=True),
    Mistake(nan, large=True),
    Mistake(sign, large=True),
    Mistake(factor, large=True),
    Mistake(constant, large=True),
    Mistake(precision, large=True, bends=True),
    Mistake(chain),
    Mistake(another, last=True),
    Mistake(conjugate),
    Mistake(order),
    Mistake(symmetric),
    Mistake(adjoint),
    Mistake(swapped),
    Mistake(permuted),
    Mistake(elementwise),
    Mistake(straight_through),
    Mistake(overwritten),
    Mistake(offset),
    Mistake(term, last=True),
    Mistake(sum_term, last=True),
    Mistake(ignored, bends=True),
    Mistake(upstream, bends=True),
)
