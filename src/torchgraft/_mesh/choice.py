"""Choosing along which axis each axis of a mesh cuts a call: where the fewest numbers travel."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from .._record import Record
from .._spec.plan import Plan, owners_of
from .cuts import Cut, find_cuts, linear_inputs
from .transposes import Place


@dataclass(frozen=True)
class Choice:
    """One way for a mesh axis to divide a call.

    Attributes:
        axis: that is cut; ``whole`` where all ranks compute the same.
        inputs: the place of each tensor of the call.
        outputs: the place of each output.
        slices: of the axis, where every rank needs one; None where ranks may be left without.
    """

    axis: Hashable
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    slices: Any = None


def choose(record: Record, values: Sequence[Any], plan: Plan, leaves: Sequence[Any], mesh: Any) -> list[Choice]:
    """The choice for each axis of the mesh.

    Args:
        values: the arguments of the call.
        plan: of the call.
        leaves: its tensors, as DTensors.
    """
    choices = _choices(record, values, plan)
    sizes = [math.prod(leaf.shape) for leaf in plan.leaves]
    taken: list[Choice] = []
    for axis in range(mesh.ndim):
        placements = [leaf.placements[axis] for leaf in leaves]
        fitting = [choice for choice in choices if _has_slices(choice, taken, mesh, axis)]
        taken.append(min(fitting, key=lambda choice: _travelling(choice, placements, sizes)))
    return taken


def _choices(record: Record, values: Sequence[Any], plan: Plan) -> list[Choice]:
    """All choices, the one that cuts nothing first."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    whole, part = Replicate(), Partial()
    same, read, term = Place(whole, whole), Place(whole, part), Place(part, whole)

    def cut_at(axis: int) -> Place:
        shard = Shard(axis)
        return Place(shard, shard)

    def of_cut(cut: Cut) -> Choice:
        lacking = [Place(whole, whole, once=True) if once else read for once in cut.once]
        inputs = [other if axis is None else cut_at(axis) for axis, other in zip(cut.inputs, lacking, strict=True)]
        outputs = [term if axis is None else cut_at(axis) for axis in cut.outputs]
        return Choice(cut.axis, tuple(inputs), tuple(outputs), None if cut.kind == "batch" else cut.size)

    owners = owners_of(record.signature, values)
    count = len(plan.outputs)
    choices = [Choice("whole", (same,) * len(owners), (same,) * count)]
    choices += [of_cut(cut) for cut in find_cuts(record, values, plan)]
    for i in linear_inputs(record, values):  # A sum goes through what is linear in it, term by term.
        inputs = tuple(term if j == i else read for j in range(len(owners)))
        choices.append(Choice(("terms", i), inputs, (term,) * count))
    return choices


def _has_slices(choice: Choice, taken: Sequence[Choice], mesh: Any, axis: int) -> bool:
    """Return True if no rank is left without a slice of an axis that has a name.

    Kernels and rules know empty batches. What the sum of no terms is they need not know, nor a layer without outputs.
    """
    if choice.slices is None:
        return True
    ranks = mesh.size(axis)
    for other, earlier in enumerate(taken):
        ranks *= mesh.size(other) if earlier.axis == choice.axis else 1
    return bool(-(-choice.slices // ranks) * (ranks - 1) < choice.slices)


def _travelling(choice: Choice, placements: Sequence[Any], sizes: Sequence[int]) -> float:
    """Count the numbers that would travel, to a factor that all choices have."""
    total = 0.0
    for place, now, size in zip(choice.inputs, placements, sizes, strict=True):
        if now == place.tensor or (now.is_replicate() and not place.tensor.is_partial()):
            continue
        if place.tensor.is_partial():
            return float("inf")  # Who has no sum makes none.
        total += size * (2 if now.is_partial() and place.tensor.is_replicate() else 1)
    return total
