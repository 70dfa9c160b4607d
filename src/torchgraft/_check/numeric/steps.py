"""The ladder of the entry of a Jacobian that is most wrong, climbed once more to be shown."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ..case import Case
from ..evidence import Evidence
from ..finding import Inconclusive
from .ladder import Ladder
from .probe import Probe


def with_ladder(evidence: Evidence, case: Case) -> Evidence:
    """The evidence with the steps that lead to its worst numeric entry; as it is where they lead nowhere.

    Args:
        evidence: with both Jacobians of the case, as `jacobian` makes them.
        case: of some ten forward calls.
    """
    worst = _worst(evidence)
    if worst is None:
        return evidence
    row, column = worst
    try:
        probe = Probe(case)
    except Inconclusive:
        return evidence
    if (probe.outputs.size, probe.inputs.size) != evidence.numeric.shape:
        return evidence
    found = [(unit, ladder) for unit, ladder in _ladders(probe, column) if ladder.known[row]]
    if not found:
        return evidence
    unit, ladder = min(found, key=lambda pair: float(pair[1].error[row]) / pair[0])
    bars = ladder.bars[:, row]
    bars = torch.where(bars < torch.finfo(bars.dtype).max, bars / unit, torch.inf)  # nan: nothing is known
    return replace(
        evidence,
        steps=tuple(step * unit for step in ladder.steps),
        ladder=tuple((ladder.table[:, row] / unit).tolist()),
        bars=tuple(bars.tolist()),
        chosen=int(bars.argmin()),
        along=evidence.analytic[row, column].item(),
    )


def _worst(evidence: Evidence) -> tuple[int, int] | None:
    """The entry that deviates most, of those that differences tell."""
    deviation = (evidence.analytic - evidence.numeric).abs()
    if evidence.estimate is not None:
        deviation = torch.where(evidence.estimate.isfinite(), deviation, 0)
    if not deviation.numel() or not deviation.max() > 0:
        return None
    row, column = divmod(int(deviation.argmax()), deviation.shape[1])
    return row, column


def _ladders(probe: Probe, column: int) -> Iterator[tuple[float, Ladder]]:
    """By steps of the size of the tensor, and of the element: near a boundary of the domain the first are too wide."""
    place = next(place for place in probe.inputs.slices if place.start <= column < place.stop)
    unit = float(probe.grid.unit(probe.point[place])[column - place.start])
    value = abs(float(probe.point[column]))
    own = 2.0 ** (math.frexp(value)[1] - 1) if value else unit
    for step in dict.fromkeys((unit, min(own, unit))):
        with contextlib.suppress(Inconclusive):
            yield step, probe.climb(_axis(probe.point, column, step))


def _axis(point: Tensor, column: int, step: float) -> Tensor:
    direction = torch.zeros_like(point)
    direction[column] = step
    return direction
