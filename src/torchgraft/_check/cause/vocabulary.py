"""Numbers and functions that a wrong factor or term may be, by their names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .blocks import Array, Block, Side

# -- numbers: plain ones, sizes of axes, arguments, constants of mathematics ---------------------------------------

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
    for name, value in block.observation.numbers.items():
        yield Atom(name, abs(value), 1.05)
        yield Atom(f"{name}^2", value * value, 2.4)
        yield Atom(f"1 - {name}", abs(1 - value), 2.4)
    others = (side for side in block.observation.inputs if side is not block.input)
    for far, side in enumerate((block.input, block.output, *others)):
        yield from _counts(side, far)
    yield from (Atom(words, value, 2 + i / 50) for i, (words, value) in enumerate(CONSTANTS.items()))
    yield from (Atom(f"10^{k}", 10.0**k, 2.5, "number") for k in (2, 3, 4, 6))
    for side in (*block.observation.inputs, *block.observation.outputs):
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


# -- functions that a factor of the chain rule may be, of the tensors around ------------------------------------------

Curve = Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


CURVES: dict[str, tuple[Curve, float]] = {
    "{}": (lambda x: x, 0.0),
    "{}^2": (lambda x: x * x, 0.1),
    "exp({})": (np.exp, 0.2),
    "cos({})": (np.cos, 0.2),
    "sin({})": (np.sin, 0.2),
    "(1 - {})": (lambda x: 1 - x, 0.2),
    "(1 - {}^2)": (lambda x: 1 - x * x, 0.2),
    "{} (1 - {})": (lambda x: x * (1 - x), 0.3),
    "sqrt({})": (np.sqrt, 0.3),
    "|{}|": (np.abs, 0.3),
    "sign({})": (np.sign, 0.3),
    "{}^3": (lambda x: x**3, 0.4),
    "{}^4": (lambda x: x**4, 0.8),
    "log({})": (np.log, 0.4),
    "(1 + {})": (lambda x: 1 + x, 0.4),
    "(1 + {}^2)": (lambda x: 1 + x * x, 0.4),
    "sqrt(1 - {}^2)": (lambda x: np.sqrt(1 - x * x), 0.5),
    "sqrt(1 + {}^2)": (lambda x: np.sqrt(1 + x * x), 0.5),
    "tanh({})": (np.tanh, 0.4),
    "(1 - tanh({})^2)": (lambda x: 1 - np.tanh(x) ** 2, 0.5),
    "sigmoid({})": (_sigmoid, 0.4),
    "sigmoid({}) (1 - sigmoid({}))": (lambda x: _sigmoid(x) * (1 - _sigmoid(x)), 0.5),
    "(1 + exp({}))": (lambda x: 1 + np.exp(x), 0.6),
    "exp({}^2)": (lambda x: np.exp(x * x), 0.5),
    "tan({})": (np.tan, 0.6),
    "{}^1.5": (lambda x: x**1.5, 0.6),
    "1": (np.ones_like, 0.0),
}
"""Name and function, and how far-fetched it is; inverses are tried as well. The last is for pairs of functions only."""
COSTS = np.array([cost for _, cost in CURVES.values()])


@dataclass(frozen=True)
class Source:
    """Values of a tensor, one for each column or one for each row.

    Attributes:
        name: as ``x``.
        values: one-dimensional.
        rows: they belong to rows.
        cost: how far-fetched they are.
    """

    name: str
    values: Array
    rows: bool
    cost: float

    def curves(self) -> Array:
        """All functions of the values, ``(functions, values)``."""
        with np.errstate(all="ignore"):
            return np.stack([f(self.values) + 0 * self.values for f, _ in CURVES.values()])

    def label(self, curve: int) -> str:
        """A function of it, in words."""
        return list(CURVES)[curve].replace("{}", self.name)

    def spread_out(self, values: Array) -> Array:
        """Values like its own as they broadcast to a block."""
        return values[:, None] if self.rows else values[None, :]


def sources(block: Block) -> Iterator[Source]:
    """All tensors that fit the columns or the rows, the input itself first."""
    seen = block.observation
    for far, side in enumerate([block.input, *(s for s in seen.inputs if s is not block.input), *seen.outputs]):
        cost = 0.1 * min(far, 4)
        yield from _aligned(block, side.name, side.value, cost)
        if np.iscomplexobj(side.value):
            yield from _aligned(block, f"conj({side.name})", side.value.conj(), cost + 0.1)
            yield from _aligned(block, f"|{side.name}|", np.abs(side.value), cost + 0.2)
    for first, second in itertools.permutations(seen.inputs[:4], 2):
        try:
            gap, product = first.value - second.value, first.value * second.value
        except ValueError:  # they do not broadcast
            continue
        yield from _aligned(block, f"({first.name} - {second.name})", gap, 0.8)
        yield from _aligned(block, f"({first.name} {second.name})", product, 0.9)


def _aligned(block: Block, name: str, values: Array, cost: float) -> Iterator[Source]:
    sides = ((False, block.input_shape, block.input), (True, block.output_shape, block.output))
    for rows, shape, side in sides:
        if side.pairs and not block.folded:
            if np.iscomplexobj(values):
                continue
            values = np.asarray(values)[..., None]
        try:
            flat = np.broadcast_to(values, shape).ravel()
        except ValueError:
            continue
        yield Source(name, flat, rows, cost + 0.05 * rows)
