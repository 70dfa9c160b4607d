"""Numbers that a factor may be: plain ones, sizes of axes, arguments, constants of mathematics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .look import Array, Block, Side

CONSTANTS = {
    "pi": math.pi,
    "2 pi": 2 * math.pi,
    "e": math.e,
    "ln 2": math.log(2),
    "ln 10": math.log(10),
    "sqrt(2)": math.sqrt(2),
    "sqrt(3)": math.sqrt(3),
    "sqrt(pi)": math.sqrt(math.pi),
    "sqrt(2 pi)": math.sqrt(2 * math.pi),
    "sqrt(2/pi)": math.sqrt(2 / math.pi),
    "2/sqrt(pi)": 2 / math.sqrt(math.pi),
    "pi/180": math.pi / 180,
    "Euler's gamma": float(np.euler_gamma),
}

FRACTIONS = {"3/2": 1.5, "4/3": 4 / 3, "5/2": 2.5}


@dataclass(frozen=True)
class Atom:
    """A number with a name.

    Attributes:
        words: without the number itself where that depends on the case.
        value: positive.
        cost: how far-fetched it is as a factor.
        kind: a count is of something that a sum and a mean differ by.
    """

    words: str
    value: float
    cost: float
    kind: Literal["number", "count", "named"] = "named"


def atoms(block: Block) -> Iterator[Atom]:
    """All numbers above 1 or below it that a factor in this block may be; their inverses are not listed."""
    yield from (Atom(str(k), float(k), 1 + k / 20, "number") for k in range(2, 13))
    yield from (Atom(words, value, 2.2, "number") for words, value in FRACTIONS.items())
    for name, value in block.look.numbers.items():
        yield Atom(name, abs(value), 1.05)
        yield Atom(f"{name}^2", value * value, 2.4)
        yield Atom(f"1 - {name}", abs(1 - value), 2.4)
    others = (side for side in block.look.inputs if side is not block.input)
    for far, side in enumerate((block.input, block.output, *others)):
        yield from _counts(side, far)
    yield from (Atom(words, value, 2 + i / 50) for i, (words, value) in enumerate(CONSTANTS.items()))
    yield from (Atom(f"10^{k}", 10.0**k, 2.5, "number") for k in (2, 3, 4, 6))
    for side in (*block.look.inputs, *block.look.outputs):
        yield from _statistics(side)


def _counts(side: Side, far: int) -> Iterator[Atom]:
    shape, cost = side.value.shape, 1.3 + min(far, 4) / 10
    total = f"the number of elements of {side.name}"
    named = [(f"the size of axis {axis} of {side.name}", size) for axis, size in enumerate(shape)]
    named = [(total, shape[0])] if len(shape) == 1 else [*named, (total, math.prod(shape))]
    for words, n in named:
        if n < 2:
            continue
        yield Atom(words, float(n), cost, "count")
        yield Atom(f"the square root of {words}", math.sqrt(n), cost + 1)
        if n > 2:
            yield Atom(f"n - 1 (n is {words})", n - 1.0, cost + 1, "count")
            yield Atom(f"n/(n - 1) (n is {words})", n / (n - 1.0), cost + 1.2)


def _statistics(side: Side) -> Iterator[Atom]:
    x: Array = np.abs(side.value) if np.iscomplexobj(side.value) else side.value
    if not x.size >= 1 or not np.isfinite(x).all():
        return
    if x.size == 1:
        yield Atom(side.name, abs(float(x.reshape(()))), 3)
        return
    flat = x.astype(float).ravel()
    found = {
        "sum": flat.sum(), "mean": flat.mean(), "norm": math.sqrt((flat * flat).sum()),
        "squared norm": (flat * flat).sum(), "largest element": flat.max(), "smallest element": flat.min(),
        "standard deviation": flat.std(), "variance": flat.var(),
    }  # fmt: skip
    yield from (Atom(f"the {words} of {side.name}", abs(float(value)), 3.5) for words, value in found.items())


def digits(value: float) -> str:
    """A number in words, short: ``1.25``, ``1e-06``."""
    return f"{value:.5g}"
