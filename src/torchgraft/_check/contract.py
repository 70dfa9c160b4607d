"""A contract: one thing that every derivative must keep, and the function that looks whether it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from .case import Case
from .finding import Finding

Look = Callable[[Case], Iterator[Finding]]
Cost = Literal["every", "cheap", "once", "inductor"]


@dataclass(frozen=True)
class Contract:
    """One check of the battery.

    Attributes:
        name: stable, for options and reports, such as ``"layouts"``.
        title: what holds when it passes, one sentence.
        look: yields what is wrong; raises `Skip` or `Inconclusive` with the reason.
        cost: ``every`` runs on all cases, ``cheap`` on a few, ``once`` on one, ``inductor`` on one when asked for.
    """

    name: str
    title: str
    look: Look
    cost: Cost = "cheap"


CONTRACTS: dict[str, Contract] = {}


def contract(name: str, title: str, *, cost: Cost = "cheap") -> Callable[[Look], Look]:
    """Add a check to the battery; checks run in the order in which they were added."""

    def add(look: Look) -> Look:
        CONTRACTS[name] = Contract(name, title, look, cost)
        return look

    return add
