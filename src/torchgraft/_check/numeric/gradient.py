"""The backward pass against differences of the forward pass.

Along a random direction u one ladder of differences gives the derivative of every output. A random weight v for each
element of the outputs makes one number of it, <v, J u>, which must be <v J, u>, the number that the backward pass
gives. That takes some 30 forward calls whatever the size, and one wrong entry among a million changes the number by
as much as it is wrong.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from ..case import Case
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..points import untied
from .ladder import Ladder
from .pairing import Pairing, covector, pair, second_look
from .probe import Backward, BackwardRaises, Probe
from .vectors import GRIDS, flatten, signed

# -- the backward pass against differences of the forward pass -------------------------------------------------------

# Along a random direction u one ladder of differences gives the derivative of every output. A random weight v for each
# element of the outputs makes one number of it, <v, J u>, which must be <v J, u>, the number that the backward pass
# gives. That takes some 30 forward calls whatever the size, and one wrong entry among a million changes the number by
# as much as it is wrong.


WRONG_AT_TIES = "wrong-at-ties"
"""The code of what is wrong only along directions that keep equal elements equal."""


def gradient(case: Case) -> Iterator[Finding]:
    """Compare both sides along several directions, each with two weights; stop at the first that differs.

    It serves every case, also one whose function is itself a backward pass.
    """
    probe = Probe(case)
    if not probe.inputs.size:
        raise Skip("the arguments have no elements")
    try:
        yield from _Comparison(probe, Backward(probe)).findings()
    except BackwardRaises as error:
        yield raised(case, error.__cause__)


class _Comparison:
    """Both sides at one point."""

    def __init__(self, probe: Probe, backward: Backward) -> None:
        self.probe = probe
        self.backward = backward
        self.generator = torch.Generator().manual_seed(probe.case.seed)
        self.known = torch.zeros(probe.outputs.size, dtype=torch.bool)
        self.ladder: Ladder
        self.moving = False
        self.drowned: list[str] = []
        self.rough: list[str] = []
        self._repeatable()

    def _repeatable(self) -> None:
        """The same arguments and the same seed must give the same values, or there is nothing to compare."""
        values = self.probe.values
        finite = values.isfinite()
        apart = (self.backward.values - values)[finite].abs()
        if not (apart <= self.probe.grid.epsilon**0.5 * values[finite].abs().sum()).all():
            raise Inconclusive("the values differ from call to call, though the random numbers are the same")

    def findings(self) -> Iterator[Finding]:
        """What is wrong; where nothing is, and too little could be compared, it raises Inconclusive."""
        for direction, alone in itertools.chain(self._directions(), self._further()):
            found = self._along(direction, alone)
            yield from self._moving()
            if found is not None and self._hangs_on_ties():
                break
            if found is not None:
                yield found
                return
        ties = self._ties()
        found = None if ties is None else self._along(ties)
        if found is not None:
            yield found.but(code=WRONG_AT_TIES, title="The gradient is wrong where elements are equal")
            return
        self._conclude()

    def _hangs_on_ties(self) -> bool:
        """Whether there is nothing wrong once equal elements differ.

        The second smallest of three equal elements is smooth along every line, and has no derivative nevertheless.
        """
        case = self.probe.case
        if not any(_tied(primal) for primal in case.primals):
            return False
        apart = case.replaced(untied(case))
        if any(_tied(primal) for primal in apart.primals):
            return False
        with contextlib.suppress(Exception):
            return self._continues(flatten(apart.values())) and not any(gradient(apart))
        return False

    def _continues(self, neighbours: Tensor) -> bool:
        """Whether values nearby are nearly the same: equal labels of classes must be equal, or mean nothing."""
        values, finite = self.probe.values, self.probe.values.isfinite()
        near = (neighbours - values).abs() <= 2.0**-4 * (values.abs() + values[finite].abs().mean())
        return bool((near | ~finite).all())

    # -- directions -------------------------------------------------------------------------------------------------

    def _directions(self) -> Iterator[tuple[Tensor, str | None]]:
        """Changes as large as each tensor's elements are, then as large as each element is.

        With few digits a large input would drown a small one; there each has a direction of its own, and its name.
        Odd cases are many: each takes one of the two ways.
        """
        names = self.probe.case.names
        odd = bool(self.probe.case.traits)
        relative = odd and bool(torch.randint(2, (), generator=self.generator))
        if not relative and len(names) > 1 and self.probe.grid != GRIDS[torch.float64]:
            yield from ((self.probe.direction(self.generator, primals=[i]), name) for i, name in enumerate(names))
        elif not relative:
            yield self.probe.direction(self.generator), None
        if relative or not odd:
            yield self.probe.direction(self.generator, relative=True), None

    def _further(self) -> Iterator[tuple[Tensor, str | None]]:
        """Each input alone, where little could be compared: what jumps with one may be smooth in another."""
        names = self.probe.case.names
        if len(names) > 1 and not self._enough(self.known):
            self.known = torch.zeros_like(self.known)
            yield from ((self.probe.direction(self.generator, primals=[i]), name) for i, name in enumerate(names))

    def _ties(self) -> Tensor | None:
        """A direction that keeps equal elements equal, where there are any and something could not be compared.

        The largest of some equal elements has no derivative, but along such a direction it has.
        """
        if self.known.all():
            return None
        point, grid = self.probe.point, self.probe.grid
        values, which = point.unique(return_inverse=True)
        if len(values) == len(point):
            return None
        units = torch.cat([grid.unit(point[place]) for place in self.probe.inputs.slices])
        least = torch.full_like(values, torch.inf).scatter_reduce(0, which, units, "amin")
        return (signed(len(values), self.generator, grid.bits) * least)[which]

    # -- one direction ----------------------------------------------------------------------------------------------

    def _along(self, direction: Tensor, alone: str | None = None) -> Finding | None:
        telling = False
        ladder = self.ladder = self.probe.climb(direction)
        for balanced in (False, True):
            pairing = self._paired(ladder, direction, balanced)
            if not pairing.gradient.isfinite().all() and not (ladder.known | ~self.backward.wanted).all():
                found = not_a_number(self.probe, self.backward)
                if found is not None:
                    return found
                # 0 times the infinite slope of an output that has weight 0: of no use here, and no error
                direction = torch.where(pairing.gradient.isfinite(), direction, 0)
                ladder = self.ladder = self.probe.climb(direction)
                pairing = self._paired(ladder, direction, balanced)
            if not pairing.linear:
                return nonlinear(self.probe.case, pairing)
            if not pairing.precise:
                return imprecise(self.probe.case, pairing)
            if not pairing.agrees:
                pairing = second_look(self.probe, self.backward, ladder, pairing)
                if not pairing.agrees:
                    return deviation(self.probe, self.backward, pairing)
                if not pairing.precise:
                    return imprecise(self.probe.case, pairing)
            telling = telling or pairing.telling
        if direction.any():
            self.known |= ladder.known
        if alone is not None and not self._enough(ladder.known):
            self.rough.append(alone)
        elif alone is not None and not telling:
            self.drowned.append(alone)
        return None

    def _moving(self) -> Iterator[Finding]:
        """What an output that does not require grad does, said once."""
        found = None if self.moving else moving_output(self.probe, self.backward, self.ladder)
        if found is not None:
            self.moving = True
            yield found

    def _paired(self, ladder: Ladder, direction: Tensor, balanced: bool) -> Pairing:
        weight = covector(ladder, self.backward.wanted, self.generator, self.probe.grid, balanced=balanced)
        return pair(self.probe, self.backward, ladder, direction, weight)

    def _enough(self, known: Tensor) -> bool:
        """Whether at least half of what can have a derivative is known."""
        return 2 * int((known & self.backward.wanted).sum()) >= int(self.backward.wanted.sum())

    def _conclude(self) -> None:
        """Enough was compared, or it is said why not."""
        wanted = self.backward.wanted
        if self.drowned:
            drowned = " and ".join(f"`{name}`" for name in self.drowned)
            raise Inconclusive(f"the values have too few digits to show how they change with {drowned}")
        total, known = int(wanted.sum()), int((self.known & wanted).sum())
        if self._enough(self.known):
            if self.rough:
                rough = " and ".join(f"`{name}`" for name in self.rough)
                raise Inconclusive(f"the outputs jump or have kinks where {rough} changes")
            return
        finite = self.probe.values.isfinite()
        if not finite[wanted].any():
            raise Inconclusive("no element of the outputs is finite")
        left, kinked, jagged = wanted & finite & ~self.known, self.ladder.kinked, self.ladder.jagged
        reasons = {
            "not finite": wanted & ~finite,
            "at kinks": left & kinked,
            "on stairs": left & ~kinked & jagged,
            "at jumps or too rough": left & ~kinked & ~jagged,
        }
        counted = ", ".join(f"{int(mask.sum())} {reason}" for reason, mask in reasons.items() if mask.any())
        raise Inconclusive(f"{total - known} of {total} elements of the outputs could not be compared: {counted}")


def _tied(primal: Tensor) -> bool:
    """Whether some elements are equal."""
    values = flatten([primal])
    return len(values.unique()) < len(values)


# -- which output and which input a deviation comes from, and how it is reported -------------------------------------


_MANY = 16
"""Of more inputs than these, which one has a wrong gradient is left to whoever explains the finding."""


def deviation(probe: Probe, backward: Backward, pairing: Pairing) -> Finding:
    """The finding of a pairing whose sides differ, or of its part that does for a single output and input."""
    outputs, inputs = output_names(probe), [f"`{name}`" for name in probe.case.names]
    where = " and ".join(outputs) if len(outputs) <= 3 else f"{len(outputs)} outputs"
    moved = [name for name, place in zip(inputs, probe.inputs.slices, strict=True) if pairing.direction[place].any()]
    what = " and ".join(moved) if len(moved) <= 3 else f"{len(moved)} inputs"
    for i, o, part in _parts(probe, backward, pairing):
        if not part.agrees:
            where, what, pairing = outputs[o], inputs[i], part
            break
    code, severity, said = "loses-digits", Verdict.LOSES_DIGITS, "has fewer digits than its dtype"
    if pairing.wrong:
        code, severity, said = "wrong-gradient", Verdict.FAIL, "is wrong"
    return Finding(
        code, severity, f"The gradient of {what} {said}", f"{where} by {what}; {probe.case.label}",
        analytic=pairing.analytic, numeric=pairing.numeric, error=pairing.error, estimate=pairing.tolerance,
    )  # fmt: skip


def _parts(probe: Probe, backward: Backward, pairing: Pairing) -> Iterator[tuple[int, int, Pairing]]:
    """The same pairing for each input and output alone."""
    inputs, outputs = probe.inputs.slices, probe.outputs.slices
    moved = [i for i, place in enumerate(inputs) if pairing.direction[place].any()]
    if len(moved) * len(outputs) == 1 or len(moved) > _MANY:
        return
    for i in moved:
        direction = torch.zeros_like(pairing.direction)
        direction[inputs[i]] = pairing.direction[inputs[i]]
        try:
            ladder = probe.climb(direction)
        except Inconclusive:
            continue
        for o, place in enumerate(outputs):
            cotangent = torch.zeros_like(pairing.cotangent)
            cotangent[place] = torch.where(ladder.known, pairing.cotangent, 0)[place]
            yield i, o, pair(probe, backward, ladder, direction, cotangent)


def moving_output(probe: Probe, backward: Backward, ladder: Ladder) -> Finding | None:
    """An output that does not require grad must not change: its derivative would silently be taken for zero."""
    least = 16 * ladder.error + probe.grid.epsilon**0.5 * ladder.scale
    moving = ladder.known & ~backward.wanted & (ladder.derivative.abs() > least)
    for name, place in zip(output_names(probe), probe.outputs.slices, strict=True):
        if moving[place].any():
            largest = float(torch.where(moving, ladder.derivative, 0)[place].abs().max())
            return Finding(
                "nondifferentiable-output-moves", Verdict.INCONCLUSIVE,
                f"{name} does not require grad, but changes with the arguments", f"{name}; {probe.case.label}",
                analytic=0.0, numeric=largest, error=largest,
                cause="it is marked as non-differentiable, detached, or computed without grad mode",
                hint="give its derivative too, or do not return it",
            )  # fmt: skip
    return None


def output_names(probe: Probe) -> list[str]:
    """The outputs as reports call them."""
    outputs = range(len(probe.outputs.slices))
    return ["the output"] if len(outputs) == 1 else [f"output {i}" for i in outputs]


def raised(case: Case, error: BaseException | None) -> Finding:
    """A backward pass that raises."""
    return Finding(
        "backward-raises", Verdict.FAIL, f"The backward pass raises {type(error).__name__}", case.label,
        cause=str(error),
    )  # fmt: skip


def imprecise(case: Case, pairing: Pairing) -> Finding:
    """A backward pass whose rounding is larger than that of its dtype."""
    return Finding(
        "loses-digits", Verdict.LOSES_DIGITS, "The backward pass rounds to fewer digits than its dtype has",
        case.label, error=pairing.noise, estimate=pairing.grain,
    )  # fmt: skip


def not_a_number(probe: Probe, backward: Backward) -> Finding | None:
    """A gradient that is NaN, though the values are finite: not at a slope that is infinite, whose gradient is too."""
    if not probe.values[backward.wanted].isfinite().all():
        return None
    generator = torch.Generator().manual_seed(probe.case.seed)
    weight = signed(len(probe.values), generator, min(24, probe.grid.digits - 4))
    missing = backward.pull(torch.where(backward.wanted, weight, 0)).isnan()
    for name, place in zip(probe.case.names, probe.inputs.slices, strict=True):
        if missing[place].any():
            return Finding(
                "nan-gradient", Verdict.FAIL, f"The gradient of `{name}` is not a number, though the values are finite",
                f"{int(missing[place].sum())} of {len(missing[place])} elements of `{name}`; {probe.case.label}",
                analytic=math.nan, error=math.inf, cause="0 / 0 or 0 times infinity, where there is a kink",
                hint="choose the derivative of one side there, or 0: torch.where on the divisor, before dividing",
            )  # fmt: skip
    return None


def nonlinear(case: Case, pairing: Pairing) -> Finding:
    """A backward pass that does something else to the upstream gradient than multiplying it."""
    return Finding(
        "nonlinear-backward", Verdict.FAIL, "The backward pass is not linear in the upstream gradient",
        f"upstream gradient times 3; {case.label}", error=pairing.nonlinearity, estimate=pairing.tolerance,
    )  # fmt: skip
