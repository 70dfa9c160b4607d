"""Two Jacobians of a case, in blocks of one output by one input, and the values around them."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..case import Case
from ..finding import Inconclusive
from ..numeric.probe import Backward, Probe

Array = np.ndarray[Any, Any]

SLACK = 4.0
"""An error estimate is trusted up to this factor, as in the comparison that found the error."""
FAINT = 1e-4
"""A derivative with more noise than this part of it is not taken for one with less precision."""


@dataclass(frozen=True)
class Side:
    """An input or an output: its name, its value, its first column or row in the Jacobian.

    Each complex element has a pair of columns or rows, its real and its imaginary part.
    """

    name: str
    value: Array
    start: int = 0
    pairs: bool = False

    @property
    def place(self) -> slice:
        """Slice of Jacobian columns (input) or rows (output)."""
        return slice(self.start, self.start + math.prod(self.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape behind the place, in real numbers."""
        return (*self.value.shape, *(2,) * self.pairs)


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
        absent: the inputs for which no gradient at all came.
        repeats: whether the same cotangents gave the same once more.
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
    absent: frozenset[int] = frozenset()
    repeats: bool = True

    @property
    def wrong(self) -> list[Block]:
        """Pairs of an output and an input for which some entry is wrong."""
        pairs = np.ndindex(len(self.outputs), len(self.inputs))
        return [block for i, j in pairs if (block := Block(self, i, j)).wrong.any()]

    def _gaps(self, scales: Sequence[float]) -> Iterator[Array]:
        """By how much cotangents of other sizes and signs change each entry."""
        with np.errstate(invalid="ignore"):
            yield from (np.abs(self.scaled(s) - self.analytic) for s in scales if self.scaled is not None)

    def linear(self, scales: Sequence[float]) -> bool:
        """Tell whether cotangents of these sizes and signs give the same Jacobian."""
        known = np.where(np.isfinite(self.analytic), np.abs(self.analytic), 0)
        slack = 1e3 * self.eps * (known + known.max(initial=0)) + 1e-9 * known.max(initial=0)
        return not any((gap > slack).any() for gap in self._gaps(scales))

    def blurred(self) -> Observation:
        """Return the observation with the precision that the derivative under test has itself, where it has some noise.

        Then a mistake that is much larger than the noise is seen beside it.
        """
        size = np.where(np.isfinite(self.analytic), np.abs(self.analytic), 0).max(initial=0)
        noise = max((gap.max(initial=0) for gap in self._gaps((-1.0, 8.0))), default=0) / (size or math.inf)
        return replace(self, eps=noise) if self.eps < noise < FAINT else self

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

    @cached_property
    def output(self) -> Side:
        """The side of the rows."""
        return self.observation.outputs[self.row]

    @cached_property
    def input(self) -> Side:
        """The side of the columns."""
        return self.observation.inputs[self.column]

    @cached_property
    def output_shape(self) -> tuple[int, ...]:
        """The shape behind the rows."""
        return self.output.value.shape if self.folded else self.output.shape

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """The shape behind the columns."""
        return self.input.value.shape if self.folded else self.input.shape

    @cached_property
    def folded(self) -> bool:
        """Tell whether complex entries are single numbers."""
        if not (self.output.pairs and self.input.pairs):
            return self.output.pairs or self.input.pairs
        seen, linear = self.observation, True
        estimate = SLACK * self._parts(seen.estimate).max((1, 3), initial=0)
        for matrix in (seen.analytic, seen.numeric):
            p = self._parts(matrix)
            slack = estimate + 64 * seen.eps * np.abs(p).max((1, 3), initial=0)
            with np.errstate(invalid="ignore"):
                linear &= bool((np.abs(p[:, 0, :, 0] - p[:, 1, :, 1]) <= slack).all())
                linear &= bool((np.abs(p[:, 0, :, 1] + p[:, 1, :, 0]) <= slack).all())
        return linear

    def _parts(self, matrix: Array) -> Array:
        """The real and imaginary parts of a matrix like the observation's on axes of their own."""
        part, rows, columns = matrix[self.output.place, self.input.place], 1 + self.output.pairs, 1 + self.input.pairs
        return part.reshape(part.shape[0] // rows, rows, part.shape[1] // columns, columns)

    def take(self, matrix: Array) -> Array:
        """This block of a matrix like the observation's; complex if the block is."""
        if not self.folded:
            return matrix[self.output.place, self.input.place]
        p = self._parts(matrix)  # A complex output tells of the real step, a real output of both.
        folded: Array = p[:, 0, :, 0] + (1j * p[:, 1, :, 0] if self.output.pairs else -1j * p[:, 0, :, 1])
        return folded

    @cached_property
    def analytic(self) -> Array:
        """By the derivative under test, ``(rows, columns)``; what is not finite is infinite."""
        taken = self.take(self.observation.analytic)
        return np.where(np.isfinite(taken), taken, np.inf)

    @cached_property
    def numeric(self) -> Array:
        """The derivative by differences."""
        return self.take(self.observation.numeric)

    @cached_property
    def estimate(self) -> Array:
        """Error of each entry of `numeric`; infinite where there is nothing to compare with."""
        seen = self.observation
        known = np.where(np.isfinite(seen.estimate) & np.isfinite(seen.numeric), seen.estimate, np.inf)
        estimate: Array = self._parts(known).max((1, 3)) if self.folded else self.take(known)
        return estimate

    @cached_property
    def floor(self) -> Array:
        """The error of each entry that rounding of the derivative under test may have made."""
        size = np.where(np.isfinite(self.numeric), np.abs(self.numeric), 0)
        whole = np.sqrt(size.max(0, keepdims=True, initial=0) * size.max(1, keepdims=True, initial=0))
        floor: Array = self.observation.eps * (16 * size + 4 * whole)
        return floor

    @cached_property
    def judged(self) -> Array:
        """Entries of which the right value is known."""
        return np.asarray(np.isfinite(self.estimate))

    @cached_property
    def alive(self) -> Array:
        """Entries that are known not to be zero."""
        return self.judged & (np.abs(self.numeric) > 4 * self.estimate)

    @cached_property
    def wrong(self) -> Array:
        """Entries in which the two differ by more than numerics explain."""
        return self.judged & ~self.agree(self.numeric, self.estimate)

    def agree(self, predicted: Array, spread: Array) -> Array:
        """Entries that the derivative under test has as `predicted`; infinite where it is not finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(self.analytic - predicted)
            close = gap <= SLACK * spread + self.floor + 16 * self.observation.eps * np.abs(predicted)
        agree: Array = close & np.isfinite(self.analytic) | np.isinf(self.analytic) & np.isinf(predicted)
        return agree

    @cached_property
    def worst(self) -> tuple[int, int]:
        """Row and column of the entry whose error exceeds its tolerance most."""
        with np.errstate(invalid="ignore"):
            gap = np.abs(np.where(self.wrong, self.analytic - self.numeric, 0))
            size = np.where(self.judged, self.estimate, 1) + self.floor + 1e-300
            row, column = np.unravel_index(int(np.argmax(gap / size)), gap.shape)
        return int(row), int(column)

    def fits(self, proposal: Proposal, mask: Array) -> bool:
        """Tell whether the derivative under test is as proposed within `mask`, and right outside."""
        if (self.wrong & ~mask).any():
            return False
        spread = self.estimate if proposal.spread is None else proposal.spread
        compared = mask & self.judged & np.isfinite(spread) & ~np.isnan(proposal.predicted)
        enough = (
            2 * (self.wrong & compared).sum() > self.wrong.sum() or not self.wrong.any()
        )  # A formula may have poles.
        return bool(enough and self.agree(proposal.predicted, spread)[compared].all())


def element(shape: tuple[int, ...], flat: int) -> str:
    """A place as it is indexed: ``[0, 2]``."""
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(flat, shape))}]"


class Proposal(NamedTuple):
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


# -- from a case to an observation ---------------------------------------------------------------------------------

MOST = 1 << 21
"""Jacobians with more entries are not made."""
_AT_ONCE = 32
_REPEATS = 8  # Now and then, several tosses of a coin fall the same way.


def observe(case: Case) -> Observation:
    """Both Jacobians at a case's primals, snapped to the grid of the differences.

    Raises:
        Inconclusive: there is nothing to differentiate, or too much.
    """
    probe = Probe(case)
    rows, columns = probe.outputs.size, probe.inputs.size
    if rows * columns > MOST:
        raise Inconclusive("the Jacobian has too many entries")
    backward = Backward(probe)
    units = probe.units
    parts = [_columns(probe, some, units) for some in torch.arange(columns).split(_AT_ONCE)]
    numeric, estimate = (torch.cat(part).mT.numpy() for part in zip(*parts, strict=True))

    @functools.cache
    def scaled(scale: float) -> Array:
        found = [backward.vjp(row * scale) / scale for row in torch.eye(rows, dtype=torch.float64)]
        return torch.stack(found).numpy() if found else np.zeros((0, columns))

    twos = torch.full((rows,), 2.0, dtype=torch.float64)  # Ones would hide what is multiplied by them.
    first, slack = backward.vjp(twos).clone(), 256 * probe.grid.epsilon  # Sums may have another order.
    repeats = all(
        torch.isclose(first, backward.vjp(twos), rtol=slack, atol=0, equal_nan=True).all() for _ in range(_REPEATS)
    )
    leaves = zip(case.leaf_names, case.leaves, strict=True)
    numbers = {name: float(leaf) for name, leaf in leaves if type(leaf) in (int, float) and leaf not in (0, 1)}
    numbers = {name: value for name, value in numbers.items() if math.isfinite(value)}
    outputs = probe.outputs.unflatten(probe.values)
    names = [name.removeprefix("the ") for name in case.target.output_names(len(outputs))]
    return Observation(
        scaled(1.0), numeric, estimate, _sides(names, outputs), _sides(case.names, probe.inputs.unflatten(probe.point)),
        numbers=numbers, eps=probe.grid.epsilon, scaled=scaled, absent=_absent(case), repeats=repeats,
    )  # fmt: skip


def _columns(probe: Probe, some: Tensor, units: Tensor) -> tuple[Tensor, Tensor]:
    """Some columns and their errors, in one ladder; one by one if that leaves something open."""
    directions = torch.zeros(len(some), len(units), dtype=torch.float64)
    directions[torch.arange(len(some)), some] = units[some]
    try:
        ladder = probe.climb(directions)
        if bool(ladder.known.all()):
            derivative, error = (t.view(len(some), probe.outputs.size) for t in (ladder.derivative, ladder.error))
            return derivative / units[some, None], error / units[some, None]
    except Inconclusive:
        pass
    derivatives, errors = zip(*[_column(probe, int(i)) for i in some], strict=True)
    return torch.stack(derivatives), torch.stack(errors)


def _column(probe: Probe, i: int) -> tuple[Tensor, Tensor]:
    """One column, by steps of the tensor's size, and where these are too wide by steps of the element's."""
    derivative = torch.zeros(probe.outputs.size, dtype=torch.float64)
    error = torch.full_like(derivative, torch.inf)
    for step, ladder in probe.climb_axis(i):
        known = torch.where(ladder.kinked | ladder.jagged, torch.inf, ladder.error.nan_to_num(nan=torch.inf)) / step
        derivative = torch.where(known < error, ladder.derivative / step, derivative)
        error = torch.minimum(known, error)
        if bool(ladder.known.all()):
            break
    return derivative, error


def _sides(names: Sequence[str], tensors: Sequence[Tensor]) -> tuple[Side, ...]:
    sides, start = list[Side](), 0
    for name, tensor in zip(names, tensors, strict=True):
        wide = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
        sides.append(Side(name, wide.contiguous().numpy(), start, tensor.is_complex()))
        start = sides[-1].place.stop
    return tuple(sides)


def _absent(case: Case) -> frozenset[int]:
    """Inputs for which the backward gives None."""
    recorded = case.linearize()
    with contextlib.suppress(Exception):  # Nothing can be told.
        found = recorded.vjp([torch.ones_like(output) for output in recorded.outputs])
        return frozenset(i for i, gradient in enumerate(found) if gradient is None)
    return frozenset()
