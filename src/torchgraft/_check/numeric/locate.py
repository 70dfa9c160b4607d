"""Which output and which input a deviation comes from, and how it is reported."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from ..case import Case
from ..finding import Finding, Inconclusive, Verdict
from .backward import Backward
from .grid import signed
from .ladder import Ladder
from .pairing import Pairing, pair
from .probe import Probe

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
