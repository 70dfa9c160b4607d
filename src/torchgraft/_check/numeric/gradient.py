"""The backward pass against differences of the forward pass.

Along a random direction u one ladder of differences gives the derivative of every output. A random weight v for each
element of the outputs makes one number of it, <v, J u>, which must be <v J, u>, the number that the backward pass
gives. That takes some 30 forward calls whatever the size, and one wrong entry among a million changes the number by
as much as it is wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ... import _torch
from ...errors import RuleError
from ..baseline import baseline
from ..case import Case
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..variations import nearby, untied
from .deviation import claim, deviation, not_a_number, output_names, tolerance_hint
from .ladder import SINGLE, Ladder
from .line import CLOSE, shown_right
from .pairing import Pairing, covector, pair, second_look
from .probe import Backward, BackwardRaises, Probe
from .vectors import GRIDS, flatten, signed

ROUNDED = 3
"""Calls whose results are rounded on the way, where both sides disagree."""

WRONG_AT_TIES = "wrong-at-ties"
"""The code of what is wrong only along directions that keep equal elements equal."""

SPREAD = 2.0**-7
"""The part by which elements that are nearly equal are moved from one another."""

PAIRS = 4
"""Pairs of directions that are asked for: those of a median of three elements add up along one pair by chance."""


def gradient(case: Case) -> Iterator[Finding]:
    """Compare both sides along several directions, each with two weights; stop at the first that is wrong.

    It serves every case, also one whose function is itself a backward pass. A case is compared once. Of one with odd
    arguments, beside which there are plain ones, one number is enough if it shows that the gradient is right.

    Raises:
        Inconclusive: that cannot be told.
    """
    if "gradient" not in case.memo:
        try:
            case.memo["gradient"] = [] if case.traits and shown_right(case) else list(compare(case))
            if case.memo["gradient"] and _draws_implicitly(case):
                raise Inconclusive(IMPLICIT)
        except Inconclusive as why:
            case.memo["gradient"] = why
    kept: list[Finding] | Inconclusive = case.memo["gradient"]
    if isinstance(kept, Inconclusive):
        raise kept.with_traceback(None)
    yield from kept


IMPLICIT = (
    "it draws from a gamma or Dirichlet distribution of torch's, whose gradient is that of the distribution "
    "(implicit reparameterization) and not of the draw: compare gradients of expectations, which have closed forms"
)


def _draws_implicitly(case: Case) -> bool:
    """Return True if torch draws in a way whose gradient differences of the draw do not show.

    It is that of Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients (2018), equation 2.
    """
    try:
        nodes = _torch.nodes_in_graph(case.linearize().outputs)
    except RuleError:  # What was found says so.
        return False
    return any(node.name().startswith(("StandardGamma", "_Dirichlet")) for node in nodes)


def is_right(case: Case) -> bool:
    """Tell whether the gradient is right.

    Raises:
        Skip: that cannot be told, and so neither can what else is wrong.
    """
    try:
        return not any(gradient(case))
    except Inconclusive as why:
        raise Skip(str(why)) from why


def is_shown_wrong(case: Case) -> bool:
    """Return True if the gradient is wrong for certain; where nothing can be told, False."""
    if not shown_right(case, CLOSE, rounding=64):
        with contextlib.suppress(Skip, Inconclusive):
            return any(found.severity is Verdict.FAIL for found in gradient(case))
    return False


def compare(case: Case, cotangent: Tensor | None = None) -> Iterator[Finding]:
    """Compare both sides along several directions; along one, for a cotangent of all outputs as one vector."""
    probe = Probe(case)
    if not probe.inputs.size:
        raise Inconclusive("the arguments have no elements: nothing can be compared")
    try:
        comparison = _Comparison(probe, Backward(probe))
        yield from comparison.findings() if cotangent is None else comparison.with_cotangent(cotangent)
    except BackwardRaises as error:
        if not probe.values.isfinite().all():
            raise Inconclusive("the outputs are not finite, and the backward raises there") from error
        title = f"The backward pass raises {type(error.__cause__).__name__}"
        yield Finding("backward-raises", Verdict.FAIL, title, case.label, cause=str(error.__cause__))


class _Comparison:
    """Both sides at one point."""

    def __init__(self, probe: Probe, backward: Backward) -> None:
        self.probe = probe
        self.backward = backward
        self.generator = torch.Generator().manual_seed(probe.case.seed)
        self.known = torch.zeros(probe.outputs.size, dtype=torch.bool)
        self.ladder: Ladder
        self.moving = self.factor_shows = False
        self.drowned: list[str] = []
        self.rough: list[str] = []
        values, finite = probe.values, probe.values.isfinite()
        apart = (backward.values - values)[finite].abs()
        if not (apart <= probe.grid.epsilon**0.5 * values[finite].abs().sum()).all():
            raise Inconclusive("the values differ from call to call, though the random numbers are the same")

    def findings(self) -> Iterator[Finding]:
        """Yield the worst that is found; where nothing is, and too little could be compared, raise Inconclusive."""
        slight: Finding | None = None
        for direction, alone in self._directions():
            found = self._along(direction, alone)
            yield from self._moving()
            if found is not None and (self._hangs_on_ties() or self._jumps(direction)):
                break
            if found is not None and found.severity is Verdict.FAIL:
                yield found
                return
            slight = slight or found
        if slight is not None:
            yield slight
            return
        ties = self._ties()
        if ties is not None:
            found = self._along(ties)
            if found is not None and not self._jumps(ties):
                yield found.but(code=WRONG_AT_TIES, title="The gradient is wrong where elements are equal")
                return
        reference = self.probe.reference
        if reference is not None and (self.drowned or self.probe.grid.digits < SINGLE):
            with contextlib.suppress(Inconclusive, Skip):  # Where fewer digits cannot tell, float64 may.
                wrong = [] if shown_right(reference.case) else list(gradient(reference.case))
                yield from wrong
                if wrong:
                    return
                self.drowned.clear()
        self._conclude()

    def with_cotangent(self, cotangent: Tensor) -> Iterator[Finding]:
        """Yield what is wrong along one direction."""
        direction = self.probe.direction(self.generator)
        self.ladder = self.probe.climb(direction)
        weight = torch.where(self.ladder.known & self.backward.wanted, cotangent, 0)
        pairing = pair(self.probe, self.backward, self.ladder, direction, weight)
        smooth, finite = (self.ladder.known | ~self.backward.wanted).all(), pairing.gradient.isfinite().all()
        found = None if finite else not_a_number(self.probe, self.backward, cotangent)
        if finite or (found is None and smooth):
            found = self._judged(second_look(self.probe, self.backward, self.ladder, pairing))
        if found is None or (_tied(self.probe.case.primals) and not self._additive()) or self._jumps(direction):
            return
        yield found

    def _hangs_on_ties(self) -> bool:
        """Return True if nothing is wrong once equal elements differ, by little or by more.

        The second smallest of three equal elements is smooth along every line, and has no derivative nevertheless. Nor
        have equal eigenvalues, which stay nearly equal where elements differ by little.
        """
        case = self.probe.case
        if not _tied(case.primals) or self._additive():
            return False
        apart = case.replaced(untied(case))
        return any(map(self._is_right_at, (apart, apart.replaced(nearby(apart, spread=SPREAD)))))

    def _is_right_at(self, apart: Case) -> bool:
        """Return True if nothing is wrong where elements differ, and values are nearly those here.

        Equal labels of classes must be equal, or mean nothing.
        """
        values = self.probe.values
        if _tied(apart.primals):
            return False
        sizes = values[values.isfinite()].abs()
        least = 2.0**-4 * float(sizes.max()) if sizes.any() else 1.0
        with contextlib.suppress(Exception):
            near = (flatten(apart.values()) - values).abs() <= 2.0**-4 * values.abs() + least
            return bool((near | ~values.isfinite()).all()) and not any(gradient(apart))
        return False

    def _jumps(self, direction: Tensor) -> bool:
        """Return True if values jump at the point itself along a direction, and nothing is wrong next to it.

        A QR decomposition of the identity has other signs than those of all matrices around it.
        """
        case, probe = self.probe.case, self.probe.reference or self.probe
        if "beside" in case.memo or probe.grid != GRIDS[torch.float64]:
            return False
        step = probe.grid.smallest
        with contextlib.suppress(Exception):
            near, far = (
                torch.stack([probe.at(probe.point + move * direction) for move in (-h, h)]) - probe.values
                for h in (step, 64 * step)
            )
            sizes = probe.values[probe.values.isfinite()].abs()
            least = probe.grid.epsilon**0.25 * float(sizes.max())
            if ((near.abs() > far.abs() / 4) & (near.abs() > least)).any():
                beside = case.replaced(self.probe.inputs.unflatten(probe.point + 64 * step * direction))
                beside.memo["beside"] = True
                return not any(gradient(beside))
        return False

    def _additive(self) -> bool:
        """Tell whether derivatives along two directions add up to that along their sum: else there is no derivative."""
        with contextlib.suppress(Inconclusive):
            return all(self._adds_up() for _ in range(PAIRS))
        return False

    def _adds_up(self) -> bool:
        first, second = (self.probe.direction(self.generator) for _ in range(2))
        one, two, both = (self.probe.climb(u) for u in (first, second, first + second))
        gap = (one.derivative + two.derivative - both.derivative).abs()
        slack = 8 * (one.error + two.error + both.error) + self.probe.grid.epsilon**0.5 * both.scale
        adds = (gap <= slack) & one.known & two.known & both.known
        return bool(adds[self.ladder.known].all())

    def _directions(self) -> Iterator[tuple[Tensor, str | None]]:
        """Changes as large as each tensor's elements are, then as large as each element is.

        With few digits a large input would drown a small one; there each has a direction of its own, and its name.
        Odd cases are many: each takes one of the two ways.
        """
        names = self.probe.case.names
        odd = bool(self.probe.case.traits)
        relative = odd and bool(torch.randint(2, (), generator=self.generator))
        if not relative and len(names) > 1 and self.probe.grid != GRIDS[torch.float64]:
            yield from self._each_alone()
        elif not relative:
            yield self.probe.direction(self.generator), None
        if relative or not odd:
            yield self.probe.direction(self.generator, relative=True), None
        if len(names) > 1 and not self._enough(self.known):  # A function that jumps with one may be smooth in another.
            self.known = torch.zeros_like(self.known)
            yield from self._each_alone()

    def _each_alone(self) -> Iterator[tuple[Tensor, str]]:
        for i, name in enumerate(self.probe.case.names):
            yield self.probe.direction(self.generator, primals=[i]), name

    def _ties(self) -> Tensor | None:
        """A direction that keeps equal elements equal, where there are any and something could not be compared.

        The largest of some equal elements has no derivative, but along such a direction it has.
        """
        if self.known.all():
            return None
        values, which = self.probe.point.unique(return_inverse=True)
        if len(values) == len(which):
            return None
        least = torch.full_like(values, torch.inf).scatter_reduce(0, which, self.probe.units, "amin")
        return (signed(len(values), self.generator, self.probe.grid.bits) * least)[which]

    def _along(self, direction: Tensor, alone: str | None = None) -> Finding | None:
        telling, probe, backward = False, self.probe, self.backward
        ladder = self.ladder = probe.climb(direction)
        for balanced in (False, True):
            weight = covector(ladder, backward.wanted, self.generator, probe.grid, balanced=balanced)
            pairing = pair(probe, backward, ladder, direction, weight)
            if not pairing.gradient.isfinite().all() and not (ladder.known | ~backward.wanted).all():
                found = not_a_number(probe, backward)
                if found is not None:
                    return found
                # An output of weight 0 may have an infinite slope: their product is no error.
                direction = torch.where(pairing.gradient.isfinite(), direction, 0)
                ladder = self.ladder = probe.climb(direction)
                weight = covector(ladder, backward.wanted, self.generator, probe.grid, balanced=balanced)
                pairing = pair(probe, backward, ladder, direction, weight)
            pairing = second_look(probe, backward, ladder, pairing)
            found = self._judged(pairing)
            if found is not None:
                return found
            telling = telling or pairing.telling
            self.factor_shows = self.factor_shows or pairing.factor_shows
        if direction.any():
            self.known |= ladder.known
        if alone is not None and not self._enough(ladder.known):
            self.rough.append(alone)
        elif alone is not None and not telling:
            self.drowned.append(alone)
        return None

    def _judged(self, pairing: Pairing) -> Finding | None:
        """The worst that a pairing shows: a wrong number before its noise, and noise before lost digits."""
        probe = self.probe
        if not pairing.agrees:
            hidden = 8 * self._hidden(pairing.cotangent)
            pairing = replace(pairing, numerics=pairing.numerics + hidden, tolerance=pairing.tolerance + hidden)
            if pairing.agrees:  # That is no proof.
                self.drowned = list(probe.case.names)
        if not pairing.linear and torch.equal(self.backward.vjp(pairing.cotangent), pairing.gradient):
            pairing = replace(pairing, grain=pairing.grain + self._rounding())
        if not pairing.linear and not (pairing.wrong and (not pairing.agrees or pairing.outweighs)):
            return Finding(
                "nonlinear-backward", Verdict.FAIL, "The backward pass is not linear in the upstream gradient",
                f"upstream gradient times 3; {probe.case.label}", error=pairing.nonlinearity,
                estimate=pairing.rounding, hint=tolerance_hint(probe, pairing.nonlinearity, pairing),
            )  # fmt: skip
        if not pairing.agrees or not pairing.linear:
            return deviation(probe, self.backward, pairing)
        if pairing.precise:
            return None
        return Finding(
            "loses-digits", Verdict.LOSES_DIGITS, f"The backward pass rounds to fewer digits than {claim(probe)}",
            probe.case.label, error=pairing.noise, estimate=pairing.grain,
            hint=tolerance_hint(probe, pairing.noise, pairing),
        )  # fmt: skip

    def _hidden(self, cotangent: Tensor) -> float:
        """By how much rounding on the way may change the values: where it hides a change, the values show no noise.

        So does log(1 + x^2) + b^2 with tiny numbers, in which x changes nothing. A step is one unit at most.
        """
        probe, generator = self.probe.reference or self.probe, torch.Generator().manual_seed(self.probe.case.seed)
        largest = 0.0
        with contextlib.suppress(Exception, _torch.TooMuch):
            for _ in range(ROUNDED):
                with _torch.Rounding(generator):
                    moved = probe.at(probe.point) - probe.values
                changes = torch.where(moved.isfinite() & (cotangent != 0), moved * cotangent, 0)
                largest = max(largest, float(torch.linalg.vector_norm(changes)))
        return largest

    def _rounding(self) -> float:
        """By how much rounding on the way may change <v J, u>: terms that cancel may be larger than what is left."""
        with contextlib.suppress(Skip, Inconclusive):
            return sum(baseline(self.probe.case).gradient_slack)
        return 0.0

    def _moving(self) -> Iterator[Finding]:
        """An output that does not require grad must not change: its derivative would silently be taken for zero."""
        probe, ladder = self.probe, self.ladder
        least = 16 * ladder.error + probe.grid.epsilon**0.5 * ladder.scale
        moves = torch.where(ladder.known & ~self.backward.wanted, ladder.derivative.abs(), 0)
        for name, place in zip(output_names(probe), probe.outputs.slices, strict=True):
            moving = moves[place] > least[place]
            if moving.any() and not self.moving:  # It is said once.
                self.moving, largest = True, float(moves[place][moving].max())
                yield Finding(
                    "nondifferentiable-output-moves", Verdict.INCONCLUSIVE,
                    f"{name} does not require grad, but changes with the arguments", f"{name}; {probe.case.label}",
                    analytic=0.0, numeric=largest, error=largest,
                    cause="it is marked as non-differentiable, detached, or computed without grad mode",
                    hint="give its derivative too, or do not return it",
                )  # fmt: skip

    def _enough(self, known: Tensor) -> bool:
        """Tell whether at least half of what can have a derivative is known."""
        return 2 * int((known & self.backward.wanted).sum()) >= int(self.backward.wanted.sum())

    def _conclude(self) -> None:
        """Enough was compared, or it is said why not."""
        wanted, finite = self.backward.wanted, self.probe.values.isfinite()
        # What is right to more digits than are declared needs no others.
        if self.probe.declared.error and not self.factor_shows and self.known.any():
            self.drowned = list(self.probe.case.names)
        if self.drowned and not (self.probe.declared.error and shown_right(self.probe.case)):
            drowned = " and ".join(f"`{name}`" for name in dict.fromkeys(self.drowned))
            raise Inconclusive(f"the values have too few digits to show how they change with {drowned}")
        if self._enough(self.known):
            if self.rough:
                rough = " and ".join(f"`{name}`" for name in self.rough)
                raise Inconclusive(
                    f"the outputs jump or have kinks where {rough} changes; give smooth points, or, "
                    "if it is data, let only others require grad"
                )
            return
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
        missing = f"{int((wanted & ~self.known).sum())} of {int(wanted.sum())}"
        raise Inconclusive(f"{missing} elements of the outputs could not be compared: {counted}")


def _tied(primals: Sequence[Tensor]) -> bool:
    """Tell whether some elements of a tensor are equal."""
    return any(len(values.unique()) < len(values) for values in (flatten([primal]) for primal in primals))
