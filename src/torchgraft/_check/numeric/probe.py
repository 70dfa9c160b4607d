"""A case as a function of one real vector, at a point from which every step is exact."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...errors import RuleError
from ..baseline import generator
from ..case import Case, Linearization
from ..evidence import Evidence
from ..finding import Inconclusive
from ..late import alike
from ..target import differentiable
from .ladder import SAMPLES, Ladder, Rough, climb, ecnoise
from .vectors import GRIDS, Layout, flatten, grid_of

FAINTEST = torch.finfo(torch.float64).tiny / torch.finfo(torch.float64).eps
"""The errors of smaller numbers are no normal numbers themselves, and cannot be estimated."""

BOUND = 1 / 4
"""The worth of a declared accuracy, which is a bound, as the standard deviation of noise."""


class Probe:
    """A case near its primals, which are first snapped to a grid.

    Where the case has fewer digits than float64, and runs in float64 too, that is what its differences are taken of:
    the *reference*. What the case's own values are then off, and their noise, is what its derivatives may be off.

    A primal with a surrogate moves the surrogate, and the case itself all others: the sum of both changes has the
    derivative that is meant, in any direction.

    Args:
        case: what is called.
        point: the primals as one vector, where they are on a grid already.

    Attributes:
        declared: of the target: the accuracy of its values.
        grid: of steps and directions, for the dtype with the fewest digits among primals and outputs, or the accuracy.
        point: the snapped primals as one vector.
        values: of the outputs at the point, as one vector.
        inputs: how the primals lie in `point`.
        outputs: how the outputs lie in `values`.

    Raises:
        Inconclusive: there is nothing to differentiate, or by which.
    """

    def __init__(self, case: Case, point: Tensor | None = None) -> None:
        self.case = case
        primals = case.primals
        if not primals:
            raise case.nothing_to_differentiate() or Inconclusive("no argument is a floating-point or complex tensor")
        self.inputs = Layout(primals)
        outputs = case.values()
        if not outputs:
            raise Inconclusive("no output is a floating-point or complex tensor")
        self.outputs = Layout(outputs)
        self.declared = case.target.declared
        self._surrogates = case.surrogates()
        self.grid = grid_of([*primals, *outputs], self.declared.accuracy)
        self.point, self.values = flatten(primals), flatten(outputs)
        snapped = torch.cat([self.grid.snap(self.point[s]) for s in self.inputs.slices]) if point is None else point
        if not torch.equal(snapped, self.point):
            with contextlib.suppress(Exception):  # It may refuse: a matrix may have to be orthogonal.
                moved = self._called(case, snapped)
                if moved.shape == self.values.shape:
                    self.point, self.values = snapped, moved

    @functools.cached_property
    def reference(self) -> Probe | None:
        """The probe in float64, of which differences are taken; None where the case is in float64, or cannot be."""
        if self.grid == GRIDS[torch.float64]:
            return None
        doubled = [in_double(leaf) for leaf in self.case.replaced(self.inputs.unflatten(self.point)).leaves]
        try:
            probe = Probe(self.case.with_leaves(doubled), self.point)
        except Exception:
            return None
        if probe.grid.digits <= self.grid.digits or probe.values.shape != self.values.shape:
            return None
        near = (probe.values - self.values).abs() <= self.grid.epsilon**0.25 * self.values.abs().sum()
        unlike = ~near & self.values.isfinite()
        return probe if 2 * int(unlike.sum()) <= len(near) else None  # With most values unlike, it is another function.

    @functools.cached_property
    def faintest(self) -> float:
        """The least number that the outputs' dtypes hold; single precision may flush smaller ones than normal ones."""
        if self.grid == GRIDS[torch.float64]:
            return 0.0
        infos = [torch.finfo(output.dtype) for output in self.outputs.unflatten(self.values)]
        return max(min(info.tiny, max(info.smallest_normal * info.eps, 1e-37)) for info in infos)

    @functools.cached_property
    def units(self) -> Tensor:
        """The size of the changes of each element of the point, a power of two."""
        return torch.cat([self.grid.unit(self.point[place]) for place in self.inputs.slices])

    def at(self, point: Tensor) -> Tensor:
        """The values of the outputs, as one vector, with the changes of surrogates."""
        if not self._surrogates:
            return self._called(self.case, point)
        others, places = point.clone(), {i: self.inputs.slices[i] for i in self._surrogates}
        for place in places.values():
            others[place] = self.point[place]
        values = self.values if torch.equal(others, self.point) else self._called(self.case, others)
        for i, place in places.items():
            if not torch.equal(point[place], self.point[place]):
                alone = self.point.clone()
                alone[place] = point[place]
                values = values + self._change(i, alone)
        return values

    def _change(self, place: int, point: Tensor) -> Tensor:
        """The change of a surrogate's values; to first order, where autograd gives the derivative that is meant."""
        case = self._surrogates[place]
        if case.names[place] not in self.declared.straight_through:
            return self._called(case, point) - self._centers[place]
        given, moved = self.inputs.unflatten(self.point), self.inputs.unflatten(point)

        def of(primal: Tensor) -> tuple[Tensor, ...]:
            return tuple(case.outputs([*given[:place], primal, *given[place + 1 :]]))

        tangents = torch.autograd.functional.jvp(of, given[place], moved[place] - given[place])[1]
        return flatten(list(tangents))

    @functools.cached_property
    def _size(self) -> Tensor:
        """The size of each value, and of those of the surrogates."""
        return torch.stack([self.values, *self._centers.values()]).abs().amax(0)

    @functools.cached_property
    def _centers(self) -> dict[int, Tensor]:
        """The values of the surrogates at the point."""
        return {i: self._called(case, self.point) for i, case in self._surrogates.items()}

    def _called(self, case: Case, point: Tensor) -> Tensor:
        with torch.no_grad():
            return flatten(case.nearby(self.inputs.unflatten(point)))

    def direction(
        self, generator: torch.Generator, *, relative: bool = False, primals: Sequence[int] | None = None
    ) -> Tensor:
        """A random direction in the inputs.

        Args:
            relative: changes are in proportion to each element rather than to each tensor.
            primals: the only ones that change; all by default.
        """
        points = [self.point[s] for s in self.inputs.slices]
        pieces = [
            alike(self.case.target, self.grid.direction(point, generator, relative=relative), point) for point in points
        ]
        kept = range(len(pieces)) if primals is None else primals
        return torch.cat([piece if i in kept else torch.zeros_like(piece) for i, piece in enumerate(pieces)])

    @functools.cached_property
    def scale(self) -> Tensor:
        """The size of each value; at least that of the numbers that it is known to be computed from."""
        scale = self._size.clone()
        for place, least in zip(self.outputs.slices, self.case.scales, strict=False):
            scale[place] = scale[place].clamp(min=least)
        return scale

    @functools.cached_property
    def noise(self) -> Tensor:
        """The size of the errors of the values; at least what rounding the result does to them, and what is declared.

        All points lie on one side of the point, which is none of them: a kink or a jump at the point is no noise.
        """
        direction = self.direction(torch.Generator().manual_seed(self.case.seed))
        try:
            samples = [self.at(self.point + i * self.grid.smallest * direction) for i in range(1, 1 + SAMPLES)]
            measured = ecnoise(torch.stack(samples))
        except Inconclusive:
            raise
        except Exception:
            raise Inconclusive("the target fails at points next to the arguments") from None
        rounding = self.grid.epsilon / 2 * self.scale
        least = torch.where(self.scale == 0, 0, rounding + FAINTEST)
        for place in self.outputs.slices if self.declared.accuracy else ():
            finite = self.scale[place][self.scale[place].isfinite()]
            least[place] += BOUND * self.declared.error * (finite.max() if len(finite) else 0)
        return torch.maximum(measured.nan_to_num(), least)

    def climb(self, directions: Tensor) -> Ladder:
        """The derivative along a direction; along several, the rows, one after another in one ladder.

        Raises:
            Inconclusive: there is nothing to compare near the point.
        """
        rows = torch.atleast_2d(directions)
        if self.reference is not None:
            own = torch.maximum(self.noise, (self.values - self.reference.values).abs())
            ladder = self.reference.climb(rows)
            return ladder.blurred(own.repeat(len(rows)), self.reference._size.repeat(len(rows)), self.grid)
        values, noise, scale = (part.repeat(len(rows)) for part in (self.values, self.noise, self.scale))

        def along(step: float) -> Tensor:
            return torch.cat([self.at(self.point + move) for move in step * rows])

        try:
            return climb(along, values, noise, self.grid, scale)
        except Rough:
            raise Inconclusive("the target fails, or gives no finite values, next to the arguments") from None

    def climb_axis(self, column: int) -> Iterator[tuple[float, Ladder]]:
        """Ladders along one element, each with the length of its direction: the unit of its tensor, and its own size.

        Near a boundary of the domain the first is too wide.
        """
        unit, value = float(self.units[column]), abs(float(self.point[column]))
        own = 2.0 ** (math.frexp(value)[1] - 1) if value else unit
        for length in dict.fromkeys((unit, min(own, unit))):
            direction = torch.zeros_like(self.point)
            direction[column] = length
            with contextlib.suppress(Inconclusive):
                yield length, self.climb(direction)


def is_smooth(case: Case) -> bool:
    """Return True if the function has a derivative in all elements, along some direction."""
    probe = Probe(case)
    ladder = probe.climb(probe.direction(generator(case, 93)))
    return bool(ladder.known.all())


def in_double(leaf: Any) -> Any:
    """A tensor in double precision; all else as it is."""
    return leaf.to(torch.complex128 if leaf.is_complex() else torch.float64) if differentiable(leaf) else leaf


# -- the backward pass of a case as a linear map of one real vector --------------------------------------------------


class BackwardRaises(Exception):
    """The backward pass raised what is the cause of this."""


class Backward:
    """The backward pass at the point of a probe, or at another one.

    A graph that does not last for a second backward pass is recorded anew for each.

    Attributes:
        wanted: the elements of the outputs that require grad.

    Raises:
        BackwardRaises: a rule of an operator cannot be used.
        Inconclusive: nothing requires grad, or the values differ from those without grad mode.
    """

    def __init__(self, probe: Probe, point: Tensor | None = None) -> None:
        self._probe = probe
        self._point = probe.inputs.unflatten(probe.point if point is None else point)
        self._recorded = self._record()
        self._lasting = True
        outputs = self._recorded.outputs
        if not any(output.requires_grad for output in outputs):
            raise Inconclusive("no output requires grad")
        self.values = flatten(outputs)
        if self.values.shape != probe.values.shape:
            raise Inconclusive("the sizes of the outputs differ from call to call")
        self.wanted = torch.zeros(probe.outputs.size, dtype=torch.bool)
        for output, place in zip(outputs, probe.outputs.slices, strict=True):
            self.wanted[place] = output.requires_grad

    def vjp(self, cotangent: Tensor) -> Tensor:
        """V J, with zeros where there is no gradient.

        Raises:
            BackwardRaises: it raises, also on a graph of its own.
        """
        if self._lasting:
            try:
                return self._vjp(cotangent)
            except Exception:
                self._lasting = False
        self._recorded = self._record()
        try:
            return self._vjp(cotangent)
        except Exception as error:
            raise BackwardRaises from error

    def _record(self) -> Linearization:
        """The forward pass, recorded; a rule that cannot be used is refused there already."""
        try:
            return self._probe.case.linearize(self._point)
        except RuleError as error:
            raise BackwardRaises from error

    def _vjp(self, cotangent: Tensor) -> Tensor:
        recorded = self._recorded
        found = recorded.vjp(self._probe.outputs.unflatten(cotangent))
        made = [torch.zeros_like(p) if g is None else g for p, g in zip(recorded.primals, found, strict=True)]
        return flatten([g if g.layout == torch.strided else g.to_dense() for g in made])


# -- the ladder of the entry of a Jacobian that is most wrong, climbed once more to be shown -------------------------


def with_ladder(evidence: Evidence, case: Case) -> Evidence:
    """The evidence with the steps that lead to its worst numeric entry; as it is where they lead nowhere.

    Args:
        evidence: with both Jacobians of the case, as `jacobian` makes them.
        case: of some ten forward calls.
    """
    deviation = (evidence.analytic - evidence.numeric).abs()
    if evidence.estimate is not None:
        deviation = torch.where(evidence.estimate.isfinite(), deviation, 0)
    if not deviation.numel() or not deviation.max() > 0:
        return evidence
    row, column = divmod(int(deviation.argmax()), deviation.shape[1])
    found: list[tuple[float, Ladder]] = []
    with contextlib.suppress(Inconclusive):
        probe = Probe(case)
        if (probe.outputs.size, probe.inputs.size) == deviation.shape:
            found = [(unit, ladder) for unit, ladder in probe.climb_axis(column) if ladder.known[row]]
    if not found:
        return evidence
    unit, ladder = min(found, key=lambda pair: float(pair[1].error[row]) / pair[0])
    bars = ladder.bars[:, row]
    bars = torch.where(bars < torch.finfo(bars.dtype).max, bars / unit, torch.inf)  # NaN means that nothing is known.
    return replace(
        evidence,
        steps=tuple(step * unit for step in ladder.steps),
        ladder=tuple((ladder.table[:, row] / unit).tolist()),
        bars=tuple(bars.tolist()),
        chosen=int(bars.argmin()),
        along=evidence.analytic[row, column].item(),
    )
