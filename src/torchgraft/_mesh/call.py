"""One call with DTensors: what is decided once for tensors that lie alike, and the call itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._record import Record
from .._spec.outputs import leaf_names, spread
from .._spec.plan import Plan, leaf_counts
from .._spec.shape_rule import missing_shape
from ..errors import ArgumentError, ShapeError, UnsupportedError
from .choice import choose
from .seed import with_global_seeds
from .transposes import Place, Side, to_global, to_local
from .watch import Watch

_CALLS = 1024
"""Calls that are remembered for one mesh."""


class _Way:
    """The sides of all tensors in calls whose tensors lie alike.

    Attributes:
        outside: this rank is none of the mesh: it has no parts, and computes nothing.
        inputs: a side for each tensor of the call.
        as_wanted: all of them lie so already.
        outputs: one for each output, a list flattened; None for those whose shape is not known before the call.
        places: of each output along all axes of the mesh.
        shown: the numbers of the outputs that are not `Saved`.
    """

    __slots__ = ("as_wanted", "inputs", "mesh", "outputs", "outside", "places", "shown")

    def __init__(self, record: Record, values: Sequence[Any], plan: Plan, leaves: Sequence[Any], mesh: Any) -> None:
        self.mesh = mesh
        self.outside = mesh.get_coordinate() is None
        taken = choose(record, values, plan, leaves, mesh)
        self.inputs = [
            Side(mesh, [c.inputs[i] for c in taken], leaf.shape, leaf.dtype, f"{record.name}: {leaf.name}")
            for i, leaf in enumerate(plan.leaves)
        ]
        self.as_wanted = all(side.has(leaf) for side, leaf in zip(self.inputs, leaves, strict=True))
        outputs = record.signature.outputs
        names = leaf_names(outputs, len(plan.outputs))
        self.places = [[c.outputs[i] for c in taken] for i in range(len(plan.outputs))]
        self.outputs = [
            None if shape is None else Side(mesh, self.places[i], shape, dtype, f"{record.name}: {names[i]}")
            for i, (shape, dtype) in enumerate(plan.outputs)
        ]
        self.shown = [i for i, output in enumerate(spread(outputs, len(plan.outputs))) if not output.saved]


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
    values = with_global_seeds(record, values, lead)
    leaves = record.leaves(values)
    dtensors = [_torch.dtensor_below(leaf) for leaf in leaves]
    if any(tensor is None for tensor in dtensors):
        leaves = _replicated(record, values, lead, leaves)
        dtensors = [_torch.dtensor_below(leaf) for leaf in leaves]
    way = _way(record, values, lead, dtensors)
    numbers = way.shown if shown else range(len(way.outputs))
    watch = _watch(way, leaves)
    parts = to_local(way.inputs, leaves, watch, as_wanted=way.as_wanted)
    results = [_nothing(parts)] * len(numbers) if way.outside else run(record.replace(values, parts))
    if len(results) != len(numbers):
        raise _other_length(record, len(numbers), len(results))
    sides = [
        # Without a shape nothing is cut: the part is as large as the whole.
        way.outputs[i] or Side(way.mesh, way.places[i], result.shape, result.dtype, record.name)
        for i, result in zip(numbers, results, strict=True)
    ]
    return to_global(sides, results, watch)


def _other_length(record: Record, whole: int, part: int) -> ShapeError:
    others = len(record.signature.outputs) - 1
    return ShapeError(
        "the part of a rank makes a list of another length than the whole call",
        operator=f"{record.name}.shape", expected=f"{whole - others} tensors, whatever the size of an axis that is cut",
        got=f"{part - others}", hint="replicate the inputs: x.redistribute(placements=[Replicate()])",
    )  # fmt: skip


def _watch(way: _Way, leaves: Sequence[Any]) -> Watch | None:
    """A watch for the DTensors whose own parts a rule may save; None where no gradient is wanted."""
    if not torch.is_grad_enabled() or torch.compiler.is_compiling() or _torch.functorch_active():
        return None
    if not any(leaf.requires_grad for leaf in leaves):
        return None
    if way.as_wanted:
        return Watch(leaves)
    return Watch([leaf for side, leaf in zip(way.inputs, leaves, strict=True) if side.lies(leaf)])


def _nothing(parts: Sequence[Tensor]) -> Tensor:
    """The empty result of a rank that has empty parts, through which gradients flow as on the others."""
    return torch.cat([part.flatten() for part in parts])


def replicated_call(name: str, run: Callable[[list[Tensor]], Sequence[Tensor]], tensors: Sequence[Any]) -> list[Any]:
    """A call whose tensors are whole on every rank, where nothing is known of their axes; without a gradient."""
    found = [_torch.dtensor_below(tensor) for tensor in tensors]
    mesh = next(tensor.device_mesh for tensor in found if tensor is not None)
    sides = [_whole(mesh, tensor, name) for tensor in tensors]
    parts = [
        side.part(tensor) if dtensor is not None else tensor
        for side, tensor, dtensor in zip(sides, tensors, found, strict=True)
    ]
    return [_whole(mesh, result, name).wrap(result) for result in run(parts)]


def _whole(mesh: Any, tensor: Any, label: str) -> Side:
    from torch.distributed.tensor import Replicate

    return Side(mesh, [Place(Replicate(), Replicate())] * mesh.ndim, tensor.shape, tensor.dtype, label)


def _way(record: Record, values: Sequence[Any], lead: int, dtensors: Sequence[Any]) -> _Way:
    specs = [_torch.spec_of(tensor) for tensor in dtensors]
    mesh = specs[0].mesh
    memo = _torch.memo_of(mesh)
    key = (record.state, lead, *specs, leaf_counts(record.signature, values), record.shape_values(values))
    try:
        way: _Way | None = memo.get(key)
    except TypeError:  # A tracer's SymInts cannot be hashed.
        return _Way(record, values, record.plan(values, lead), dtensors, mesh)
    if way is None:
        plan = record.plan(values, lead)
        if plan.open:
            raise UnsupportedError(
                "a mesh needs the length of the list before the call", operator=record.name,
                expected="a shape rule, which gives the shape of each tensor", got="none",
                hint=missing_shape(record.signature),
            )  # fmt: skip
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


def _replicated(record: Record, values: Sequence[Any], lead: int, leaves: Sequence[Any]) -> list[Any]:
    """The tensors as DTensors.

    A plain one without axes is taken to be the same on all ranks, as torch does; others are where torch is told so.
    """
    from torch.distributed.tensor import DTensor, Replicate

    dtensors = [_torch.dtensor_below(leaf) for leaf in leaves]
    mesh = next(found.device_mesh for found in dtensors if found is not None)
    made: list[Any] = []
    for leaf, planned in zip(leaves, record.plan(values, lead).leaves, strict=True):
        if _torch.dtensor_below(leaf) is not None:
            made.append(leaf)
        elif leaf.dim() == 0 or _torch.replicates_implicitly():
            made.append(DTensor.from_local(leaf, mesh, [Replicate()] * mesh.ndim, run_check=False))
        else:
            raise ArgumentError(
                "is a plain tensor beside a DTensor", operator=record.name, argument=planned.name,
                expected=f"a DTensor on {mesh}", got="Tensor",
                hint=f"pass distribute_tensor({planned.name}, mesh, [{', '.join(['Replicate()'] * mesh.ndim)}])",
            )  # fmt: skip
    return made
