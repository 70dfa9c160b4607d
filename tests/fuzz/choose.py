"""Choices: drawn by Hypothesis, which shrinks towards the first of each, or by a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

A = TypeVar("A")


class Chooser(Protocol):
    def pick(self, options: Sequence[A]) -> A: ...


class Drawn:
    """By Hypothesis."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def pick(self, options: Sequence[A]) -> A:
        count = len(options)
        if count not in _BELOW:
            _BELOW[count] = st.integers(0, count - 1)
        return options[self._draw(_BELOW[count])]


_BELOW: dict[int, st.SearchStrategy[int]] = {}
"""Strategies, kept since Hypothesis takes its time to make one."""


class Seeded:
    """By a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[A]) -> A:
        return options[self._random.randrange(len(options))]


def chance(c: Chooser, percent: int) -> bool:
    """True so many times of a hundred; False is the simpler answer."""
    return c.pick(range(20)) >= 20 - round(percent / 5)


def some(c: Chooser, items: Sequence[A], *, least: int = 0) -> list[A]:
    """A subset."""
    count = len(items)
    chosen = [item for item in items if c.pick((True, False))]
    return chosen if len(chosen) >= least else list(items[: max(least, min(count, least))])


def weighted(c: Chooser, options: dict[A, int]) -> A:
    """A key, by weight; the first is the simplest."""
    return c.pick([key for key, weight in options.items() for _ in range(weight)])
