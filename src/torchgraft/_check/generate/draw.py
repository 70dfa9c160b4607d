"""Choices: everything that is generated is chosen here."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_ODD_AT_MOST = 0.4
_ODDER_WITH_EACH = 0.08
_TRIES = 3  # of an option that is in refused cases only


class Impossible(Exception):
    """What was chosen leaves nothing to choose from: a domain of ``[1, n]`` where n is 0."""


class Draw:
    """Makes choices, the same for the same seed.

    Options stand in an order: the first is the plainest, what a reader would write down as an example; the later, the
    odder. The first case takes the front of every choice; from case to case more choices are odd, up to two in five.
    Among the odd options those come first that came least often, so that few cases show them all. An option that is in
    refused cases only is given up.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._times: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._accepted: set[str] = set()
        self._chosen: list[str] = []
        self._odd = -_ODDER_WITH_EACH

    def begin(self) -> None:
        """Begin the next case."""
        self._odd = min(_ODD_AT_MOST, self._odd + _ODDER_WITH_EACH)
        self._chosen.clear()

    def end(self, *, accepted: bool) -> None:
        """Say how the case ended."""
        if accepted:
            self._accepted.update(self._chosen)
        else:
            self._refused.update(self._chosen)

    def choose(self, what: str, options: Sequence[T]) -> T:
        """Choose one of the options.

        Args:
            what: is chosen, the same words for the same choice in every case.
            options: to choose from.
        """
        if len(options) == 1:
            return options[0]
        labels = [f"{what}: {option}" for option in options]
        places = [i for i, label in enumerate(labels) if not self._hopeless(label)] or range(len(labels))
        place = places[0]
        if len(places) > 1 and self._random.random() < self._odd:
            least = min(self._times[labels[i]] for i in places[1:])
            place = self._random.choice([i for i in places[1:] if self._times[labels[i]] == least])
            self._times[labels[place]] += 1
        self._chosen.append(labels[place])
        return options[place]

    def _hopeless(self, label: str) -> bool:
        return self._refused[label] >= _TRIES and label not in self._accepted

    def seed(self) -> int:
        """Draw a number from which a tensor's values are made."""
        return self._random.getrandbits(31)
