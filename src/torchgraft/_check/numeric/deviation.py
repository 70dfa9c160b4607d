"""Findings about a deviation: the output and the input that it comes from, and the next step."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from ..finding import Finding, Inconclusive, Verdict
from .pairing import Pairing, pair
from .probe import Backward, Probe
from .vectors import signed

_MANY = 16
"""Of more inputs than these, which one has a wrong gradient is left to whoever explains the finding."""

FAINT = 2.0**-11
"""A part of the gradient that a kernel's own tolerance may well be the reason of."""

TOLERANCE = "if the kernel has a tolerance of its own (a solver, a quadrature, an iteration),"
"""The first words of a hint for a faint deviation."""


def deviation(probe: Probe, backward: Backward, pairing: Pairing) -> Finding:
    """The finding of a pairing whose sides differ, or of its part that does for a single output and input."""
    outputs, inputs = output_names(probe), [f"`{name}`" for name in probe.case.names]
    where = " and ".join(outputs) if len(outputs) <= 3 else f"{len(outputs)} outputs"
    moved = _moved(probe, pairing)
    what = " and ".join(inputs[i] for i in moved) if len(moved) <= 3 else f"{len(moved)} inputs"
    for i, o, part in _parts(probe, backward, pairing):
        if not part.agrees:
            where, what, pairing = outputs[o], inputs[i], part
            break
    code, severity, said = "loses-digits", Verdict.LOSES_DIGITS, f"has fewer digits than {claim(probe)}"
    if pairing.wrong:
        code, severity, said = "wrong-gradient", Verdict.FAIL, "is wrong"
    return Finding(
        code, severity, f"The gradient of {what} {said}", f"{where} by {what}; {probe.case.label}",
        analytic=pairing.analytic, numeric=pairing.numeric, error=pairing.error, estimate=pairing.tolerance,
        hint=tolerance_hint(probe, pairing.error, pairing) or _surrogate_hint(probe, pairing) or _hint_of_torch(probe),
    )  # fmt: skip


def _moved(probe: Probe, pairing: Pairing) -> list[int]:
    """The primals that the direction of a pairing moves."""
    return [i for i, place in enumerate(probe.inputs.slices) if pairing.direction[place].any()]


def _parts(probe: Probe, backward: Backward, pairing: Pairing) -> Iterator[tuple[int, int, Pairing]]:
    """Yield the pairing of each input and output alone."""
    moved, outputs = _moved(probe, pairing), probe.outputs.slices
    if len(moved) * len(outputs) == 1 or len(moved) > _MANY:
        return
    for i in moved:
        direction = torch.zeros_like(pairing.direction)
        direction[probe.inputs.slices[i]] = pairing.direction[probe.inputs.slices[i]]
        try:
            ladder = probe.climb(direction)
        except Inconclusive:
            continue
        for o, place in enumerate(outputs):
            cotangent = torch.zeros_like(pairing.cotangent)
            cotangent[place] = torch.where(ladder.known, pairing.cotangent, 0)[place]
            yield i, o, pair(probe, backward, ladder, direction, cotangent)


def _surrogate_hint(probe: Probe, pairing: Pairing) -> str | None:
    """The next step where the function is flat, and the gradient is not."""
    moved = _moved(probe, pairing)
    if len(moved) != 1 or not abs(pairing.numeric) <= pairing.numerics:
        return None
    name = probe.case.names[moved[0]]
    declared = (
        f'@f.surrogate("{name}", of=...)' if probe.case.target.kind == "operator" else f'surrogate={{"{name}": ...}}'
    )
    return f"if the derivative of another function is meant, such as a smooth one, declare it: {declared}"


def _hint_of_torch(probe: Probe) -> str | None:
    """The next step where all derivatives are torch's own, which are right."""
    if probe.case.is_own:
        return None
    return (
        "look for a part that is detached, computed without grad mode, or out of torch (.data, .item(), .numpy()), or "
        "for a hook; if that is meant, declare whose derivative it is: surrogate={...}"
    )


def output_names(probe: Probe) -> list[str]:
    """The outputs as reports call them."""
    return probe.case.target.output_names(len(probe.outputs.slices))


def claim(probe: Probe) -> str:
    """Name the source of the number of digits."""
    accuracy = probe.declared.accuracy
    return "its dtype has" if accuracy is None else f"accuracy={accuracy:g} declares"


def tolerance_hint(probe: Probe, error: float, pairing: Pairing) -> str | None:
    """The next step where the deviation is as small as the tolerances of solvers are."""
    if probe.declared.accuracy is not None or not 0 < error < FAINT * pairing.size:
        return None
    accuracy = 10.0 ** (2 + math.floor(math.log10(error / pairing.size)))
    return f"{TOLERANCE} declare what its values are right to: accuracy={accuracy:g}"


_OVERFLOWS = 50.0
"""The size of an argument from which on an exponential may be what is not finite."""

_KINK = (
    "0 / 0 or 0 times infinity",
    "give the derivative there, which is a limit, or at a kink that of one side: torch.where on the argument, before "
    "dividing; after it, it hides the value and not the gradient",
)
_OVERFLOW = (
    "infinity over infinity, or 0 times infinity: a number of the backward overflows",
    "write the derivative with functions that do not overflow, such as torch.sigmoid or torch.softmax, or with the "
    "exponential of a number that is never positive",
)


def not_a_number(probe: Probe, backward: Backward, cotangent: Tensor | None = None) -> Finding | None:
    """A gradient that is NaN, though the values are finite: not at a slope that is infinite, whose gradient is too."""
    if not probe.values[backward.wanted].isfinite().all():
        return None
    generator = torch.Generator().manual_seed(probe.case.seed)
    weight = signed(len(probe.values), generator, min(24, probe.grid.digits - 4)) if cotangent is None else cotangent
    missing = backward.vjp(torch.where(backward.wanted, weight, 0)).isnan()
    if cotangent is not None:
        missing &= ~backward.vjp(backward.wanted.double()).isinf()  # 0 times an infinite slope is NaN.
    for name, place in zip(probe.case.names, probe.inputs.slices, strict=True):
        if missing[place].any():
            largest = float(probe.point[place][missing[place]].abs().max())
            cause, hint = _KINK if largest < _OVERFLOWS else _OVERFLOW
            return Finding(
                "nan-gradient", Verdict.FAIL, f"The gradient of `{name}` is not a number, though the values are finite",
                f"{int(missing[place].sum())} of {len(missing[place])} elements of `{name}`; {probe.case.label}",
                analytic=math.nan, error=math.inf, cause=cause, hint=hint,
            )  # fmt: skip
    return None
