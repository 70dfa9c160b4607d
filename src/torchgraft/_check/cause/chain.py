"""A factor that varies from entry to entry: a function of an input or of an output that is missing, extra or wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .curves import COSTS, CURVES, Source, sources
from .look import POLE, SLACK, Array, Block
from .proposal import Proposal, mechanism

SAMPLES = 12
"""A function is tried on so many entries before it is on all."""
TIMES = {1.0: "", 2.0: "2 ", 3.0: "3 ", 4.0: "4 ", 0.5: "1/2 ", -1.0: "-", -2.0: "-2 ", -3.0: "-3 ", -0.5: "-1/2 "}
"""Numbers that a function may come with."""


class _Samples:
    """A few entries of a block that are wrong, and what they are times of what they should be."""

    def __init__(self, block: Block, mask: Array) -> None:
        with np.errstate(all="ignore"):
            doubt = SLACK * block.estimate / np.abs(block.numeric)
            near = np.abs(block.analytic) < _pole(block) * np.abs(block.numeric)
        rows, columns = np.nonzero(block.wrong & mask & near & (doubt < 0.01) & (block.analytic != 0))
        order = np.argsort(columns * 7919 % 104729 + rows / 1e6, kind="stable")  # from many columns
        chosen = order[:: max(1, len(order) // SAMPLES)][:SAMPLES]
        self.rows, self.columns = rows[chosen], columns[chosen]
        self.ratio = block.analytic[self.rows, self.columns] / block.numeric[self.rows, self.columns]
        self.doubt = float(doubt[self.rows, self.columns].max(initial=0)) * 2 + 256 * block.look.eps
        self.doubt += block.look.eps**0.5 * block.look.coarse

    def __len__(self) -> int:
        return len(self.ratio)

    def at(self, source: Source, curves: Array) -> Array:
        """Curves at the samples."""
        taken: Array = curves[:, self.rows if source.rows else self.columns]
        return taken

    def constants(self, quotients: Array) -> Array:
        """For each row of quotients the one number that it is, or NaN."""
        with np.errstate(all="ignore"):
            first = quotients[..., :1]
            apart = np.abs(quotients - first).max(-1)
            even = apart <= 4 * self.doubt * np.abs(first[..., 0])
            return np.where(even, first[..., 0], np.nan)


def _numbers(block: Block) -> dict[float, str]:
    return TIMES | {value: f"{name} " for name, value in block.look.numbers.items() if value not in TIMES}


def _named(block: Block, c: complex, doubt: float) -> Iterator[tuple[float, str]]:
    """Simple numbers that a number is."""
    for value, words in _numbers(block).items():
        if abs(c - value) <= (8 * doubt + 1e-9) * abs(value):
            yield value, words


@mechanism("chain")
def chain(block: Block, mask: Array) -> Iterator[Proposal]:
    """A factor of the chain rule that is missing, or one too many."""
    samples = _Samples(block, mask)
    if not len(samples):
        return
    for source in sources(block):
        curves = source.curves()[:-1]
        at = samples.at(source, curves)
        with np.errstate(all="ignore"):
            kinds = (
                ("lacks the factor", True, 1 / (samples.ratio * at)),
                ("has the extra factor", False, samples.ratio / at),
            )
        for what, missing, quotients in kinds:
            constants = samples.constants(quotients)
            for curve in np.flatnonzero(np.isfinite(constants)):
                with np.errstate(all="ignore"):
                    times = source.spread_out(1 / curves[curve] if missing else curves[curve])
                name = source.label(int(curve))
                for value, words in _named(block, complex(constants[curve]), samples.doubt):
                    cost = 1.6 + source.cost + COSTS[curve] + (value != 1) / 2
                    hint = f"multiply by {words}{name}" if missing else f"leave out {words}{name}"
                    exact = 1 / value if missing else value
                    yield _times(block, exact * times, f"{what} {words}{name}", cost, hint)


def _pole(block: Block) -> float:
    """What is more than so many times the right one is next to a pole, where digits cancel."""
    return POLE if block.look.coarse else 1e6


def _even(values: Array) -> bool:
    """Whether values are one number: then it is a factor, and no function."""
    finite = np.abs(values[np.isfinite(values)])
    return len(finite) == 0 or (len(finite) > 1 and bool(np.ptp(finite) <= 1e-9 * finite.max()))


def _times(block: Block, times: Array, words: str, cost: float, hint: str) -> Proposal:
    """The right block times values; next to a pole nothing can be told."""
    with np.errstate(all="ignore"):
        predicted = np.where(np.abs(times) < _pole(block), block.numeric * times, np.nan)
        return Proposal("chain", words, predicted, block.estimate * np.abs(times), cost, hint)


@mechanism("chain-replaced")
def another(block: Block, mask: Array) -> Iterator[Proposal]:
    """One function where another belongs: of the input, of the output, or of one in the place of the other."""
    samples = _Samples(block, mask)
    if not len(samples):
        return
    own = {block.input.name, block.output.name}
    known = [(source, source.curves()) for source in sources(block) if source.name in own]
    for first, have in known:
        for second, want in known:
            if first.rows != second.rows:
                continue
            with np.errstate(all="ignore"):
                quotients = samples.ratio * samples.at(second, want) / samples.at(first, have)[:, None]
            constants = samples.constants(quotients)
            for i, j in zip(*np.nonzero(np.isfinite(constants)), strict=True):
                if (first.name == second.name and i == j) or min(i, j) == len(CURVES) - 1 == max(i, j):
                    continue
                with np.errstate(all="ignore"):
                    times = have[i] / want[j]
                if _even(times):
                    continue
                for value, words in _named(block, complex(constants[i, j]), samples.doubt):
                    has, wants = f"{words}{first.label(i)}", second.label(j)
                    cost = 3.5 + first.cost + second.cost + COSTS[i] + COSTS[j] + (value != 1) / 2
                    what = f"has {has} where {wants} belongs"
                    hint = f"write {wants} in place of {has}"
                    yield replace(_times(block, value * first.spread_out(times), what, cost, hint), free=2)
