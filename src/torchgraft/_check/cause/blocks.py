"""Two Jacobians of a case, in blocks of one output by one input, and the values around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SLACK = 4.0
"""An error estimate is trusted up to this factor, as in the comparison that found the error."""
FAINT = 1e-4
"""A derivative with more noise than this part of it is not taken for one with less precision."""
POLE = 1e3
"""With odd arguments what is more than so many times the right one is next to a pole, where digits cancel."""


@dataclass(frozen=True)
class Side:
    """An input or an output.

    Attributes:
        name: as reports call it.
        value: real or complex.
        start: its first column, or row.
        pairs: its entries count twice, real and imaginary part next to each other.
    """

    name: str
    value: Array
    start: int = 0
    pairs: bool = False

    @property
    def place(self) -> slice:
        """Slice of Jacobian columns (input) or rows (output)."""
        return slice(self.start, self.start + self.value.size * (2 if self.pairs else 1))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape behind the place, in real numbers."""
        return tuple(self.value.shape) + (2,) * self.pairs


@dataclass(frozen=True)
class Observation:
    """One set of arguments, and both Jacobians there, real, ``(rows of all outputs, columns of all inputs)``.

    Attributes:
        analytic: by the derivative under test.
        numeric: by differences.
        estimate: error of each entry of `numeric`; not finite where there is none to compare with.
        outputs: what the rows are.
        inputs: what the columns are.
        numbers: arguments that are no tensors, and other numbers with a name.
        eps: of the dtype in which the derivative was computed.
        scaled: ``scaled(s)`` is `analytic` from cotangents times ``s``, divided by ``s``; None where unknown.
        scale: of the cotangents that gave `analytic`; 1 but where only another one shows that it is wrong.
        absent: pairs of output and input for which no gradient at all came.
        repeats: whether the same cotangents gave the same once more.
        coarse: the arguments are so odd that cancellation may have cost half of the digits.
    """

    analytic: Array
    numeric: Array
    estimate: Array
    outputs: tuple[Side, ...]
    inputs: tuple[Side, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)
    eps: float = float(np.finfo(float).eps)
    scaled: Callable[[float], Array] | None = None
    scale: float = 1.0
    absent: frozenset[tuple[int, int]] = frozenset()
    repeats: bool = True
    coarse: bool = False

    def blocks(self) -> Iterator[Block]:
        """All pairs of an output and an input."""
        for i in range(len(self.outputs)):
            for j in range(len(self.inputs)):
                yield Block(self, i, j)

    @property
    def size(self) -> int:
        """Entries of the Jacobian."""
        return int(self.numeric.size)

    def linear(self, scales: Sequence[float]) -> bool:
        """Whether cotangents of these sizes and signs give the same Jacobian."""
        if self.scaled is None:
            return True
        known = np.where(np.isfinite(self.analytic), np.abs(self.analytic), 0)
        slack = 1e3 * self.eps * (known + known.max(initial=0)) + 1e-9 * known.max(initial=0)
        with np.errstate(invalid="ignore"):
            gaps = [np.abs(self.scaled(scale) - self.analytic) for scale in scales]
        return all(bool((~(gap > slack)).all()) for gap in gaps)

    def blurred(self) -> Observation:
        """Return the observation with the precision that the derivative under test has itself, where it has some noise.

        Then a mistake that is much larger than the noise is seen beside it.
        """
        if self.scaled is None:
            return self
        size = np.where(np.isfinite(self.analytic), np.abs(self.analytic), 0).max(initial=0)
        gaps = [np.abs(self.scaled(scale) - self.analytic).max(initial=0) for scale in (-1.0, 8.0)]
        noise = max(gaps) / size if size else 0.0
        return replace(self, eps=noise) if self.eps < noise < FAINT else self

    @property
    def wrong(self) -> bool:
        """Whether any entry is wrong."""
        return any(block.wrong.any() for block in self.blocks())

    def at_scale(self, scale: float) -> Observation:
        """Return the observation with cotangents of another size or sign."""
        assert self.scaled is not None
        return replace(self, analytic=self.scaled(scale), scale=scale)


@dataclass(frozen=True)
class Block:
    """The part of an observation that belongs to one output and one input.

    Complex entries are complex numbers where both Jacobians are complex-linear there, and pairs of real ones, a last
    axis of size 2, where one of them is not. A complex entry is what multiplies the input's tangent; the gradient that
    a backward returns has its conjugate.
    """

    observation: Observation
    row: int
    column: int

    @property
    def output(self) -> Side:
        """What the rows are."""
        return self.observation.outputs[self.row]

    @property
    def input(self) -> Side:
        """What the columns are."""
        return self.observation.inputs[self.column]

    @cached_property
    def folded(self) -> bool:
        """Whether complex entries are single numbers."""
        a, j = self._part(self.observation.analytic), self._part(self.observation.numeric)
        return (self.output.pairs or self.input.pairs) and _linear(self, a) and _linear(self, j)

    @cached_property
    def analytic(self) -> Array:
        """By the derivative under test, ``(rows, columns)``; what is not finite is infinite."""
        taken = self.take(self.observation.analytic)
        return np.where(np.isfinite(taken), taken, np.inf)

    @cached_property
    def numeric(self) -> Array:
        """By differences."""
        return self.take(self.observation.numeric)

    @cached_property
    def estimate(self) -> Array:
        """Error of each entry of `numeric`; infinite where there is nothing to compare with."""
        part = self._part(self.observation.estimate)
        part = np.where(np.isfinite(part) & np.isfinite(self._part(self.observation.numeric)), part, np.inf)
        if not self.folded:
            return part
        rows, columns = 1 + self.output.pairs, 1 + self.input.pairs
        folded: Array = part.reshape(len(part) // rows, rows, part.shape[1] // columns, columns).max((1, 3))
        return folded

    @cached_property
    def floor(self) -> Array:
        """What rounding of the derivative under test may have changed in each entry."""
        size = np.where(np.isfinite(self.numeric), np.abs(self.numeric), 0)
        whole = np.sqrt(size.max(0, keepdims=True, initial=0) * size.max(1, keepdims=True, initial=0))
        floor: Array = self.observation.eps * (16 * size + 4 * whole)
        return floor + (self.observation.eps**0.5 * size.max(initial=0) if self.observation.coarse else 0)

    @cached_property
    def judged(self) -> Array:
        """Entries of which the right value is known."""
        judged: Array = np.isfinite(self.estimate)
        return judged

    @cached_property
    def wrong(self) -> Array:
        """Entries in which the two differ by more than numerics explain."""
        return self.judged & ~self.agree(self.numeric, self.estimate)

    def agree(self, predicted: Array, spread: Array) -> Array:
        """Entries that the derivative under test has as `predicted`; infinite where it is not finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(self.analytic - predicted)
            digits = self.observation.eps**0.5 if self.observation.coarse else 16 * self.observation.eps
            close = gap <= SLACK * spread + self.floor + digits * np.abs(predicted)
        agree: Array = close & np.isfinite(self.analytic) | np.isinf(self.analytic) & np.isinf(predicted)
        return agree

    @property
    def deviation(self) -> float:
        """The largest error as a part of the largest entry."""
        with np.errstate(invalid="ignore"):
            gap = np.where(self.wrong, np.abs(self.analytic - self.numeric), 0).max(initial=0)
        return float(gap / max(np.abs(self.numeric[self.judged]).max(initial=0), 1e-300))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape behind the rows."""
        return tuple(self.output.value.shape) + ((2,) if self.output.pairs and not self.folded else ())

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape behind the columns."""
        return tuple(self.input.value.shape) + ((2,) if self.input.pairs and not self.folded else ())

    def take(self, matrix: Array) -> Array:
        """This block of a matrix like the observation's; complex if the block is."""
        part = self._part(matrix)
        return _fold(self, part) if self.folded else part

    def _part(self, matrix: Array) -> Array:
        return matrix[self.output.place, self.input.place]

    def fits(self, proposal: Proposal, mask: Array) -> bool:
        """Whether the derivative under test is as proposed within `mask`, and right outside."""
        if (self.wrong & ~mask).any():
            return False
        spread = self.estimate if proposal.spread is None else proposal.spread
        compared = mask & self.judged & np.isfinite(spread) & ~np.isnan(proposal.predicted)
        wrong = self.wrong & mask
        enough = 2 * (wrong & compared).sum() > wrong.sum() or not wrong.any()  # a formula may have a pole or two
        enough = enough or self.observation.coarse  # and many where arguments are odd
        return bool(enough and self.agree(proposal.predicted, spread)[compared].all())


def _parts(block: Block, part: Array) -> Array:
    rows, columns = 1 + block.output.pairs, 1 + block.input.pairs
    return part.reshape(part.shape[0] // rows, rows, part.shape[1] // columns, columns)


def _linear(block: Block, part: Array) -> bool:
    """Whether a Jacobian in real pairs is multiplication by complex numbers."""
    if not (block.output.pairs and block.input.pairs):
        return True
    p = _parts(block, part)
    e = _parts(block, block._part(block.observation.estimate))
    slack = SLACK * e.max((1, 3), initial=0) + 64 * block.observation.eps * np.abs(p).max((1, 3), initial=0)
    with np.errstate(invalid="ignore"):
        first = np.abs(p[:, 0, :, 0] - p[:, 1, :, 1]) <= slack
        second = np.abs(p[:, 0, :, 1] + p[:, 1, :, 0]) <= slack
    return bool((first & second).all())


def _fold(block: Block, part: Array) -> Array:
    p = _parts(block, part)
    if block.output.pairs:  # the derivative of the output's parts by a real step
        folded: Array = p[:, 0, :, 0] + 1j * p[:, 1, :, 0]
    else:  # of a real output: what a real and what an imaginary step do
        folded = p[:, 0, :, 0] - 1j * p[:, 0, :, 1]
    return folded


@dataclass(frozen=True)
class Proposal:
    """The block of a Jacobian that a mistake would give.

    Attributes:
        words: what goes on after "the gradient for x", as "has the wrong sign"; equal in all cases where the cause is.
        predicted: the block.
        cost: how far-fetched it is; the cheapest that fits is named.
        hint: the next step.
        spread: the error of `predicted` that numerics explain; that of the right block by default.
        free: numbers that were fitted; as many entries show nothing.
    """

    words: str
    predicted: Array
    cost: float
    hint: str = ""
    spread: Array | None = None
    free: int = 0
