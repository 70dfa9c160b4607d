"""The backward pass against differences of the forward pass.

Along a random direction u one ladder of differences gives the derivative of every output. A random weight v for each
element of the outputs makes one number of it, <v, J u>, which must be <v J, u>, the number that the backward pass
gives. That takes some 30 forward calls whatever the size, and one wrong entry among a million changes the number by
as much as it is wrong.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from ..case import Case
from ..finding import Finding, Inconclusive, Skip
from ..points import untied
from .backward import Backward, BackwardRaises
from .flat import flatten
from .grid import GRIDS, signed
from .ladder import Ladder
from .locate import deviation, imprecise, moving_output, nonlinear, not_a_number, raised
from .pairing import Pairing, covector, pair, second_look
from .probe import Probe

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
