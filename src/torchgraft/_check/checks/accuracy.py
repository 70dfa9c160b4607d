"""The declared accuracy of values: between neighbouring arguments they jump by no more than it admits."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..case import Case
from ..finding import Finding, Verdict
from ..numeric.probe import Probe

SPACINGS, POINTS = (2.0**-6, 2.0**-10, 2.0**-14), 7
"""Distances of the neighbours that are looked at, and how many there are on each line."""

HALVINGS = 32
"""After so many a function without a jump has the same value at both ends, but for its rounding."""


def jumps(case: Case) -> Iterator[Finding]:
    """Look for a jump between neighbours, and narrow it down: what is continuous has none, however steep it is.

    A jump that is much larger than the accuracy belongs to the function, such as the count of an event.
    """
    probe = Probe(case)
    accuracy = probe.declared.error
    line = _Line(probe)
    for spacing in SPACINGS:
        values = torch.stack([line.at(i * spacing) for i in range(1, POINTS + 1)])
        bends = (values[2:] - 2 * values[1:-1] + values[:-2]).abs() / line.size
        start, element = divmod(int(bends.nan_to_num(posinf=0).argmax()), bends.shape[1])
        if not bends[start, element] > 4 * accuracy:
            continue
        part = line.jump((start + 1) * spacing, (start + 3) * spacing, element) / float(line.size[element])
        if 4 * accuracy + 64 * torch.finfo(torch.float64).eps < part < accuracy**0.5:
            yield Finding(
                "values-jump", Verdict.LOSES_DIGITS,
                f"The values jump by {part:.1g} of the largest, and accuracy={accuracy:g} is declared",
                f"next to the arguments; {case.label}", error=part, estimate=4 * accuracy,
                cause="the kernel's own tolerance is larger: it takes another number of steps, or rounds on the way",
                hint=f"make the kernel's tolerance smaller, or declare accuracy={10 * part:.0e}",
            )  # fmt: skip
            return


class _Line:
    """The values along a random direction from a point, and the largest of each output."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._direction = probe.direction(torch.Generator().manual_seed(probe.case.seed))
        self.size = torch.ones_like(probe.values)
        for place in probe.outputs.slices:
            finite = probe.values[place][probe.values[place].isfinite()].abs()
            self.size[place] = float(finite.max()) if finite.any() else 1.0

    def at(self, step: float) -> Tensor:
        return self._probe.at(self._probe.point + step * self._direction)

    def jump(self, low: float, high: float, element: int) -> float:
        """Halve an interval again and again; the half is kept in which an element changes most."""
        left, right = float(self.at(low)[element]), float(self.at(high)[element])
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            value = float(self.at(middle)[element])
            if abs(value - left) > abs(right - value):
                high, right = middle, value
            else:
                low, left = middle, value
        return abs(right - left)
