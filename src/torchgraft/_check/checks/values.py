"""The values between neighbouring arguments: they jump by no more than their digits, or their accuracy, admit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..case import Case
from ..finding import Finding, Skip, Verdict
from ..numeric.ladder import SINGLE
from ..numeric.pairing import PRECISE
from ..numeric.probe import Probe

SPACINGS, POINTS = (2.0**-6, 2.0**-10, 2.0**-14), 7
"""Distances of the neighbours that are looked at, and how many there are on each line.

The first is for tolerances, which make few jumps. A dtype makes one next to each number.
"""

HALVINGS = 32
"""After so many a function without a jump has the same value at both ends, but for its rounding."""

IN_SINGLE = (2.0**-26, 2.0**-20)
"""The part of the largest value by which one jumps that float32 holds; more where some are added."""

At = Callable[[float], Tensor]


def values(case: Case) -> Iterator[Finding]:
    """Look for a jump between neighbours, and narrow it down: what is continuous has none, however steep it is.

    A jump that is much larger than what is admitted belongs to the function, such as the count of an event.

    Raises:
        Skip: the dtype has so few digits that its own steps are as large, or there are no values.
    """
    probe = Probe(case)
    if not len(probe.values):
        raise Skip("the outputs have no elements")
    declared, rounding = probe.declared.error, torch.finfo(torch.float64).eps
    if not declared and probe.grid.digits < SINGLE:
        raise Skip("half precision itself goes in steps")
    accuracy = declared or probe.grid.epsilon**PRECISE
    size = torch.ones_like(probe.values)
    direction = probe.direction(torch.Generator().manual_seed(case.seed))
    for place in probe.outputs.slices:
        finite = probe.values[place][probe.values[place].isfinite()].abs()
        size[place] = float(finite.max()) if finite.any() else 1.0

    def at(step: float) -> Tensor:
        return probe.at(probe.point + step * direction)

    for spacing in SPACINGS if declared else SPACINGS[1:]:
        line = torch.stack([at(i * spacing) for i in range(1, POINTS + 1)])
        if not (line.diff(n=POINTS - 1, dim=0).abs() / size).nan_to_num(posinf=0).max() > accuracy:
            continue  # It is smooth: differences of a high order fade.
        bends = (line.diff(n=2, dim=0).abs() / size).nan_to_num(posinf=0)
        start, element = divmod(int(bends.argmax()), bends.shape[1])
        jump, beside = _jump(at, (start + 1) * spacing, (start + 3) * spacing, element)
        part = jump / float(size[element])
        if 4 * accuracy + 64 * rounding < part < accuracy**0.5 and jump > 4 * beside:
            yield _finding(case, part, accuracy, declared)
            return


def _finding(case: Case, part: float, accuracy: float, declared: float) -> Finding:
    cause = "the kernel's own tolerance is larger: it takes another number of steps, or rounds on the way"
    hint = f"make the kernel's tolerance smaller, or declare accuracy={10 * part:.0e}"
    if IN_SINGLE[0] < part < IN_SINGLE[1]:
        cause = "a number on the way is float32, such as an accumulator that is a float of C"
        hint = f"compute in the dtype of the arguments, or declare accuracy={10 * part:.0e}"
    admitted = f"accuracy={accuracy:g} is declared" if declared else "their dtype has more digits"
    return Finding(
        "values-jump", Verdict.LOSES_DIGITS, f"The values jump by {part:.1g} of the largest, and {admitted}",
        f"next to the arguments; {case.label}", error=part, estimate=4 * accuracy, cause=cause, hint=hint,
    )  # fmt: skip


def _jump(at: At, low: float, high: float, element: int) -> tuple[float, float]:
    """Halve an interval again and again; the half is kept in which an element changes most.

    Returns:
        by how much it changes in the last one, and at most in its neighbours, where a steep function changes as much.
    """

    def value(step: float) -> float:
        return float(at(step)[element])

    left, right = value(low), value(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        between = value(middle)
        if abs(between - left) > abs(right - between):
            high, right = middle, between
        else:
            low, left = middle, between
    beside = max(abs(left - value(2 * low - high)), abs(value(2 * high - low) - right))
    return abs(right - left), beside
