"""A case along one direction: numbers that its derivatives give, beside differences of a few calls.

It is the cheap look before the ladder. A case that is right shows that it is right in two forward calls; where numbers
disagree, or tell nothing, the checks look closely.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ..baseline import Value, distance, generator, scale_of, signed
from ..case import Case, Linearization
from ..late import alike
from .probe import in_double
from .vectors import flatten

STEP = 2.0**-11
"""Of the finest difference, in units of each tensor; two wider ones extrapolate it where it tells too little."""

CLOSE, FINE = 1e-6, 1e-9
"""The relative deviation of a number that is looked at closely; and that which shows a loss of digits too."""


class Line:
    """A case along one direction, for one cotangent.

    Args:
        case: what is called.
        cotangents: their kind, as `cotangent` takes it.
        recorded: the case linearized, if that was done before.

    Attributes:
        kind: of the cotangents, as it was given.
        cotangents: one for each output that requires grad, None for the others.
        gradients: given by the backward for them.
        direction: a tensor for each primal.
    """

    def __init__(self, case: Case, cotangents: str = "", recorded: Linearization | None = None) -> None:
        self.case, self.primals = case, case.primals
        recorded = recorded or case.linearize()
        source = generator(case, 91)
        self.outputs = recorded.outputs
        self.cotangents = [cotangent(o, cotangents, source) if o.requires_grad else None for o in recorded.outputs]
        self.gradients = [None if g is None else g.detach() for g in recorded.vjp(self.cotangents)]
        self.direction = [alike(case.target, unit(p) * signed(p, source), p) for p in self.primals]
        self.kind, self._source = cotangents, source
        self._weights: list[list[Value]] = []

    @property
    def dense(self) -> Tensor:
        """The cotangents as one vector, with zeros where there is none."""
        given = zip(self.outputs, self.cotangents, strict=True)
        return flatten([torch.zeros_like(o) if c is None else c for o, c in given])

    @property
    def double(self) -> bool:
        """True if differences have enough digits."""
        return all(t.dtype in (torch.float64, torch.complex128) for t in (*self.primals, *self.outputs))

    @property
    def epsilon(self) -> float:
        """The machine epsilon of the least precise primal."""
        return max(torch.finfo(primal.dtype).eps for primal in self.primals)

    @property
    def scale(self) -> float:
        """The size of the numbers that derivatives are computed from, and rounded with."""
        return max(scale_of(primal, self.outputs, self.cotangents) for primal in self.primals)

    def agrees(self, close: float = CLOSE, *, rounding: float = 64) -> bool:
        """Return True if the backward gives the number that differences give; with few digits, as in double precision.

        False proves nothing: there may be no differences, or too rough ones.

        Args:
            close: the relative deviation of the number that is allowed.
            rounding: the deviation of gradients with few digits that is allowed, in epsilons of the largest.
        """
        if self.double:
            weights = self.dense
            terms = products(self.gradients, self.direction)
            return is_slope(terms, lambda step: float(flatten(self.case.values(self._moved(step))) @ weights), close)
        wide = self.wide()
        return wide is not None and near(self.gradients, wide.gradients, rounding * self.epsilon) and wide.agrees(close)

    def wide(self) -> Line | None:
        """Return the line in double precision; None where the target does not take it."""
        try:
            wide = Line(self.case.with_leaves([in_double(leaf) for leaf in self.case.leaves]), self.kind)
        except Exception:
            return None
        return wide if wide.double else None

    def alone(self, output: int) -> Line:
        """Return the line with an upstream gradient for one output only, for derivatives of the backward."""
        other = copy.copy(self)
        other.cotangents = [c if i == output else None for i, c in enumerate(self.cotangents)]
        other._weights = []
        other.__dict__.pop("moves", None)
        return other

    def _moved(self, step: float) -> list[Tensor]:
        return [primal + step * u for primal, u in zip(self.primals, self.direction, strict=True)]

    # -- derivatives of the backward -------------------------------------------------------------------------------

    def agrees_at(self, order: int) -> bool:
        """Return True if differences of derivatives of the order before give the derivative of an order.

        Derivatives are by primals and cotangents together. Those that raise, or that nothing flows to, agree.
        """
        moves = self.moves
        try:
            number, leaves = self._contracted(order - 1, moves, 0.0, graph=True)
            found = torch.autograd.grad(number, leaves, allow_unused=True)
        except Exception:
            return True
        return is_slope(products(found, moves), lambda step: float(self._contracted(order - 1, moves, step)[0]))

    def tangents_agree(self, tangents: Callable[[Sequence[Tensor]], Sequence[Value]]) -> bool:
        """Return True if the tangents of the gradients are what differences of the gradients give."""
        moves = self.moves
        self._contracted(1, moves, 0.0, graph=True)
        terms = products(self._weights[0], tangents(moves))
        return is_slope(terms, lambda step: float(self._contracted(1, moves, step)[0]))

    @functools.cached_property
    def moves(self) -> list[Tensor]:
        """A direction of primals and cotangents together."""
        return [*self.direction, *(unit(c) * signed(c, self._source) for c in self.cotangents if c is not None)]

    def _contracted(
        self, order: int, moves: Sequence[Tensor], step: float, *, graph: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """Return a derivative of an order of <v, f(x)>, each time along fixed weights, and the leaves x and v.

        The first is by x, others by x and v. Parts that are detached from the graph at the point are left out.
        """
        used = [i for i, c in enumerate(self.cotangents) if c is not None]
        given = [*self.primals, *(c for c in self.cotangents if c is not None)]
        leaves = [(t + step * u).requires_grad_() for t, u in zip(given, moves, strict=True)]
        primals, cotangents = leaves[: len(self.primals)], leaves[len(self.primals) :]
        outputs = self.case.record(primals).outputs
        with torch.enable_grad():
            number = _sum(inner(c, outputs[i]) for i, c in zip(used, cotangents, strict=True))
            for level in range(order):
                last = level == order - 1 and not graph
                wanted = leaves if level else primals
                found: Sequence[Value] = torch.autograd.grad(number, wanted, create_graph=not last, allow_unused=True)
                if level == len(self._weights):
                    self._weights.append([self._weight(gradient) for gradient in found])
                pairs = zip(self._weights[level], found, strict=True)
                number = _sum(inner(w, g) for w, g in pairs if w is not None and g is not None)
        return number, leaves

    def _weight(self, gradient: Value) -> Value:
        return None if gradient is None or not gradient.requires_grad else signed(gradient.detach(), self._source)


def shown_right(case: Case, close: float = FINE, *, rounding: float = 4) -> bool:
    """Return True if one number shows already that the gradient is right, to the digits that it has.

    Args:
        close: as `Line.agrees` takes it.
        rounding: the same.
    """
    if not any(primal.numel() for primal in case.primals):
        return False
    with contextlib.suppress(Exception):
        line = Line(case)
        # One that does not require grad must not move, which the ladder sees.
        return all(c is not None for c in line.cotangents) and line.agrees(close, rounding=rounding)
    return False


def _sum(terms: Iterator[Tensor]) -> Tensor:
    return torch.stack(list(terms)).sum()


def inner(left: Tensor, right: Tensor) -> Tensor:
    """Return the real inner product."""
    return (left.conj() * right).real.sum() if left.is_complex() or right.is_complex() else (left * right).sum()


def cotangent(output: Tensor, kind: str, source: torch.Generator) -> Tensor:
    """Make an upstream gradient of a kind: random by default."""
    made = signed(output.detach(), source)
    match kind:
        case "that sum to zero" if made.numel() > 1:
            made = _balanced(made)
        case "that are tiny":
            made = made * 1e-9
        case "with one element" if made.numel():
            at = torch.zeros(made.numel(), dtype=made.dtype, device=made.device)
            at[made.numel() // 2] = 1
            made = at.view(made.shape)
        case "of ones":
            made = torch.ones((), dtype=made.dtype, device=made.device).expand(made.shape)
        case "of zeros":
            made = torch.zeros_like(made)
    return made


def _balanced(values: Tensor) -> Tensor:
    """Numbers with few digits whose sum along the last axis is zero, in whatever order they are added."""
    if values.is_complex():
        return torch.complex(_balanced(values.real), _balanced(values.imag))
    rows = values if values.shape[-1] > 1 else values.reshape(-1)
    half = rows[..., : rows.shape[-1] // 2].mul(64).round() / 64
    rest = torch.zeros_like(rows[..., : rows.shape[-1] % 2])
    return torch.cat([half, -half, rest], -1).view(values.shape)


def unit(tensor: Tensor) -> float:
    """Return the largest magnitude, at most 1; 1 for zeros."""
    largest = float(tensor.abs().max()) if tensor.numel() else 1.0
    return min(largest, 1.0) or 1.0


def products(left: Sequence[Value], right: Sequence[Value]) -> Tensor:
    """Return the products of all elements in double precision; their sum is the inner product."""
    pairs = [(a.detach(), b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    return flatten([a for a, _ in pairs]) * flatten([b for _, b in pairs])


def is_slope(terms: Tensor, function: Callable[[float], float], close: float = CLOSE) -> bool:
    """Return True if the sum of terms is the slope at 0 of a function of a step, as far as differences tell."""
    size, expected = float(torch.linalg.vector_norm(terms)), float(terms.sum())

    def slope(step: float) -> float:
        return (function(step) - function(-step)) / (2 * step)

    fine = slope(STEP)
    if abs(expected - fine) <= close * max(size, abs(fine)):
        return True
    middle, coarse = slope(2 * STEP), slope(4 * STEP)
    limit, other = (4 * fine - middle) / 3, (4 * middle - coarse) / 3
    size, doubt = max(size, abs(limit)), 2 * abs(limit - other)
    # The slope may vanish, and the terms of third order that are taken off are large then.
    return abs(expected - limit) <= close * size + doubt and doubt <= 1e-3 * max(size, abs(coarse))


def near(found: Sequence[Value], expected: Sequence[Value], part: float) -> bool:
    """Return True if values differ by no more than a part of the largest element."""
    bound = part * largest(expected)
    return all(distance(a, b) <= bound for a, b in zip(found, expected, strict=True))


def factor(found: Value, expected: Value) -> float:
    """Return the multiple of what is expected that is nearest to what was found; 1 where nothing is to be told."""
    if found is None or expected is None or found.is_complex() or not (found.isfinite() & expected.isfinite()).all():
        return 1.0
    wide, other = expected.detach().flatten().double(), found.detach().flatten().double()
    size = float(wide @ wide)
    return float(other @ wide) / size if size else 1.0


def largest(values: Sequence[Value]) -> float:
    """Return the largest magnitude of all elements, 0 if there are none."""
    return max((float(v.abs().max()) for v in values if v is not None and v.numel()), default=0.0)
