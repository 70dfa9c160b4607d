"""Functions that a factor of the chain rule may be, of the tensors around."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .look import Array, Block

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
    look = block.look
    for far, side in enumerate([block.input, *(s for s in look.inputs if s is not block.input), *look.outputs]):
        cost = 0.1 * min(far, 4)
        yield from _aligned(block, side.name, side.value, cost)
        if np.iscomplexobj(side.value):
            yield from _aligned(block, f"conj({side.name})", side.value.conj(), cost + 0.1)
            yield from _aligned(block, f"|{side.name}|", np.abs(side.value), cost + 0.2)
    for first, second in itertools.permutations(look.inputs[:4], 2):
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
