"""Points, drawn the same in every run."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .entry import Entry

POINTS = 1000


class Draw:
    """A generator of so many numbers at a time."""

    def __init__(self, seed: str, count: int) -> None:
        self.random = np.random.default_rng(zlib.crc32(seed.encode()))
        self.count = count

    def uniform(self, low: float, high: float) -> Any:
        return self.random.uniform(low, high, self.count)

    def log(self, low: float, high: float) -> Any:
        """Powers of ten, of exponents between these."""
        return 10 ** self.uniform(low, high)

    def integers(self, low: int, high: int) -> Any:
        return self.random.integers(low, high + 1, self.count).astype(float)

    def choice(self, *values: float) -> Any:
        return self.random.choice(values, self.count)

    def signed(self, values: Any) -> Any:
        return values * self.choice(-1, 1)

    def about(self, values: Any, low: float = -16, high: float = -1) -> Any:
        """Both sides of numbers, at relative distances of 10^low to 10^high."""
        return values * (1 + self.signed(self.log(low, high)))

    def mixed(self, *arrays: Any) -> Any:
        """Each number from one of the arrays."""
        which = self.random.integers(0, len(arrays), self.count)
        return np.choose(which, [np.broadcast_to(array, self.count) for array in arrays])

    def order(self, top: float, low: float = 0) -> Any:
        """Orders from `low` to `top`: any, integers and halves of them, those next to integers, tiny ones and 0."""
        integers = self.integers(int(np.ceil(low)), int(top))
        return self.mixed(
            self.uniform(low, top), integers, integers - 0.5 if low < 0 else integers + 0.5,
            integers + self.signed(self.log(-12, -6)), self.uniform(low / 20, top / 20), self.log(-13, 0), 0 * integers,
        )  # fmt: skip


def points(entry: Entry, count: int | None = None) -> Any:
    """The points of a function, one a row; a quarter of them numbers of float32.

    Args:
        entry: of the function.
        count: how many of them, always the same ones; all by default.
    """
    each = -(-POINTS * 11 // (10 * len(entry.regions)))  # some are the same, and some have no reference
    drawn = [
        np.column_stack(np.broadcast_arrays(*region(Draw(f"{entry.formula} {i}", each))))
        for i, region in enumerate(entry.regions)
    ]
    every = np.concatenate(drawn).astype(float)
    with np.errstate(over="ignore", under="ignore"):
        narrow = every.astype(np.float32).astype(float)
    fits = (abs(narrow) >= np.finfo(np.float32).tiny) & np.isfinite(narrow) | (every == 0)
    every[::4] = np.where(fits.all(axis=1, keepdims=True), narrow, every)[::4]
    every = every[np.random.default_rng(0).permutation(len(every))]
    every = np.concatenate([np.array(entry.hard, dtype=float).reshape(-1, every.shape[1]), every])
    first = np.unique(every, axis=0, return_index=True)[1]
    return every[np.sort(first)][:count]
