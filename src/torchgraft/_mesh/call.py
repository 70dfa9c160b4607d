"""One call with DTensors: what is decided once for tensors that lie alike, and the call itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from .. import _torch
from .._record import Record
from .._spec.plan import Plan, leaf_counts
from ..errors import ArgumentError
from .choice import choose
from .transposes import Side, to_global, to_local

_CALLS = 1024
"""Calls that are remembered for one mesh."""


class _Way:
    """The sides of all tensors in calls whose tensors lie alike.

    Attributes:
        inputs: a side for each tensor of the call.
        outputs: one for each output; None for those whose shape is not known before the call.
        places: of each output along all axes of the mesh.
    """

    __slots__ = ("inputs", "outputs", "places")

    def __init__(self, record: Record, values: Sequence[Any], plan: Plan, leaves: Sequence[Any], mesh: Any) -> None:
        taken = choose(record, values, plan, leaves, mesh)
        self.inputs = [
            Side(mesh, [c.inputs[i] for c in taken], leaf.shape, leaf.dtype, f"{record.name}: {leaf.name}")
            for i, leaf in enumerate(plan.leaves)
        ]
        names = [output.name for output in record.signature.outputs]
        self.places = [[c.outputs[i] for c in taken] for i in range(len(names))]
        self.outputs = [
            None if shape is None else Side(mesh, self.places[i], shape, dtype, f"{record.name}: {names[i]}")
            for i, (shape, dtype) in enumerate(plan.outputs)
        ]


def call(
    record: Record, values: Sequence[Any], lead: int, run: Callable[[list[Any]], Sequence[Tensor]], *, shown: bool
) -> list[Any]:
    """The outputs of a call with DTensors.

    Args:
        values: the arguments, converted.
        lead: how many leading axes each tensor has beside its annotation.
        run: the operator on plain tensors.
        shown: it returns what callers see alone, and no `Saved` outputs.

    Raises:
        ArgumentError: a plain tensor stands beside a DTensor, or one on another mesh.
    """
    leaves = record.leaves(values)
    dtensors = [_torch.dtensor_below(leaf) for leaf in leaves]
    mesh = next(found.device_mesh for found in dtensors if found is not None)
    if None in dtensors:
        leaves = _replicated(record, values, lead, leaves, mesh)
        dtensors = [_torch.dtensor_below(leaf) for leaf in leaves]
    way = _way(record, values, lead, dtensors, mesh)
    results = run(record.replace(values, to_local(way.inputs, leaves)))
    there = [i for i, output in enumerate(record.signature.outputs) if not (shown and output.saved)]
    sides = [
        # Without a shape nothing is cut: the part is as large as the whole.
        way.outputs[i] or Side(mesh, way.places[i], result.shape, result.dtype, record.name)
        for i, result in zip(there, results, strict=True)
    ]
    return to_global(sides, results)


def _way(record: Record, values: Sequence[Any], lead: int, dtensors: Sequence[Any], mesh: Any) -> _Way:
    memo = _torch.memo_of(mesh)
    key = (
        record.state, lead, tuple([_torch.spec_of(tensor) for tensor in dtensors]),
        leaf_counts(record.signature, values), record.shape_values(values),
    )  # fmt: skip
    try:
        way: _Way | None = memo.get(key)
    except TypeError:  # A tracer's SymInts cannot be hashed.
        return _Way(record, values, record.plan(values, lead), dtensors, mesh)
    if way is None:
        plan = record.plan(values, lead)
        for leaf, tensor in zip(plan.leaves, dtensors, strict=True):
            if tensor.device_mesh != mesh:
                raise ArgumentError(
                    "is on another mesh", operator=record.name, argument=leaf.name,
                    expected=str(mesh), got=str(tensor.device_mesh),
                    hint=f"pass distribute_tensor({leaf.name}.full_tensor(), mesh, placements)",
                )  # fmt: skip
        way = _Way(record, values, plan, dtensors, mesh)
        if len(memo) >= _CALLS:
            memo.clear()
        memo[key] = way
    return way


def _replicated(record: Record, values: Sequence[Any], lead: int, leaves: Sequence[Any], mesh: Any) -> list[Any]:
    """The tensors as DTensors. A plain one without axes is taken to be the same on all ranks, as torch does."""
    from torch.distributed.tensor import DTensor, Replicate

    made: list[Any] = []
    for leaf, planned in zip(leaves, record.plan(values, lead).leaves, strict=True):
        if _torch.dtensor_below(leaf) is not None:
            made.append(leaf)
        elif leaf.dim() == 0:
            made.append(DTensor.from_local(leaf, mesh, [Replicate()] * mesh.ndim, run_check=False))
        else:
            raise ArgumentError(
                "is a plain tensor beside a DTensor", operator=record.name, argument=planned.name,
                expected=f"a DTensor on {mesh}", got="Tensor",
                hint=f"pass distribute_tensor({planned.name}, mesh, [{', '.join(['Replicate()'] * mesh.ndim)}])",
            )  # fmt: skip
    return made
