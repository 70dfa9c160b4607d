"""Between DTensors and the tensors of a rank: two linear maps, each the transpose of the other to any order.

torch's `to_local` and `from_local` are not: where a tensor is the sum over ranks, a second derivative lacks a sum.

A tensor on a mesh and its gradient lie in one of four ways along each mesh axis:

================  ============  ====================================================
the tensor        its gradient  for example
================  ============  ====================================================
``Shard(d)``      ``Shard(d)``  an input that has the axis that is cut
``Replicate()``   ``Partial()`` an input that all parts read: each adds to its gradient
``Partial()``     ``Replicate()`` the terms of a sum: each gets the gradient of the sum
``Replicate()``   ``Replicate()`` all ranks compute the same
================  ============  ====================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _torch


class Place(NamedTuple):
    """The place of a tensor along one mesh axis.

    Attributes:
        tensor: its placement.
        gradient: that of its gradient.
        once: it is brought to `tensor`, and then taken for a term of a sum, with zeros for the other terms.
    """

    tensor: Any
    gradient: Any
    once: bool = False


class Side:
    """The places of one tensor of a call, along all axes of the mesh.

    Attributes:
        spec: of the DTensor.
        placements: along each mesh axis.
        once: mesh axes along which all ranks but the first take zeros.
        gradient: how its gradient lies.
        label: of the operator and the tensor, for errors.
    """

    __slots__ = ("gradient", "label", "mesh", "once", "placements", "spec")

    def __init__(self, mesh: Any, places: Sequence[Place], shape: Any, dtype: torch.dtype, label: str) -> None:
        self._fill(mesh, tuple(p.tensor for p in places), shape, dtype, label)
        self.once = tuple(i for i, place in enumerate(places) if place.once)
        self.gradient = object.__new__(Side)
        self.gradient._fill(mesh, tuple(p.gradient for p in places), shape, dtype, f"the gradient of {label}")
        self.gradient.gradient = self

    def _fill(self, mesh: Any, placements: tuple[Any, ...], shape: Any, dtype: torch.dtype, label: str) -> None:
        self.mesh, self.placements, self.label, self.once = mesh, placements, label, ()
        self.spec = _torch.make_spec(mesh, placements, shape, dtype)

    def mapped(self, size: int) -> Side:
        """The side of a tensor with one more axis in front, along which it is whole."""
        wider = object.__new__(Side)
        for side, old in ((wider, self), (gradient := object.__new__(Side), self.gradient)):
            placements = tuple(type(p)(p.dim + 1) if p.is_shard() else p for p in old.placements)
            side._fill(old.mesh, placements, (size, *old.spec.shape), old.spec.tensor_meta.dtype, old.label)
            side.once = old.once
        wider.gradient, gradient.gradient = gradient, wider
        return wider

    def wrap(self, local: Tensor) -> Any:
        """The DTensor of which this is the part."""
        return _torch.make_dtensor(local.contiguous(), self.spec)

    def part(self, tensor: Any) -> Tensor:
        """The part of a DTensor, which is brought to where it should lie."""
        once = self.once
        if not _torch.lies_as(tensor, self.placements):
            tensor, more = self._placed(tensor)
            once += more
        local = _torch.local_part(tensor)
        return _on_first(local, self.mesh, once) if once else local

    def _placed(self, tensor: Any) -> tuple[Any, tuple[int, ...]]:
        """The DTensor at its place. torch makes no terms of a sum: there it is replicated, for one rank to keep."""
        from torch.distributed.tensor import Replicate

        pairs = list(zip(tensor.placements, self.placements, strict=True))
        terms = tuple(i for i, (now, wanted) in enumerate(pairs) if wanted.is_partial() and now != wanted)
        wanted = [Replicate() if i in terms else placement for i, placement in enumerate(self.placements)]
        message = (
            f"{self.label} lies as {_words(tensor.placements)}, and is wanted as {_words(self.placements)}, which takes"
            " communication: call redistribute before, or print the operator to see what may be cut"
        )
        return _torch.redistributed(tensor, wanted, message), terms


def _words(placements: Sequence[Any]) -> str:
    return f"[{', '.join(map(repr, placements))}]"


def _on_first(local: Tensor, mesh: Any, axes: Sequence[int]) -> Tensor:
    """Keep a tensor on the first rank along the mesh axes, and put zeros in its place on the others."""
    coordinate = mesh.get_coordinate()
    if all(type(coordinate[axis]) is int for axis in axes):
        return local if all(coordinate[axis] == 0 for axis in axes) else torch.zeros_like(local)
    kept = local  # Ranks that are simulated in one process have numbers of their own in the tensors alone.
    for axis in axes:
        number = torch.full((), coordinate[axis], dtype=torch.int64, device=local.device)
        kept = torch.where(number == 0, kept, torch.zeros_like(kept))
    return kept


class ToLocal(_torch.SingleLevelFunction):  # type: ignore[misc]
    """The parts of DTensors on this rank; the transpose of `ToGlobal`."""

    plain = staticmethod(Side.part)

    @staticmethod
    def forward(ctx: Any, sides: Sequence[Side], *tensors: Any) -> Any:
        ctx.sides = sides
        ctx.set_materialize_grads(False)
        return _one_or_all([side.part(tensor).detach() for side, tensor in zip(sides, tensors, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        return None, *_mapped_back(ToGlobal, ctx.sides, grads)


class ToGlobal(_torch.SingleLevelFunction):  # type: ignore[misc]
    """DTensors of the tensors of this rank; the transpose of `ToLocal`."""

    plain = staticmethod(Side.wrap)

    @staticmethod
    def forward(ctx: Any, sides: Sequence[Side], *locals: Tensor) -> Any:
        ctx.sides = sides
        ctx.set_materialize_grads(False)
        return _one_or_all([side.wrap(local.detach()) for side, local in zip(sides, locals, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, *_mapped_back(ToLocal, ctx.sides, grads)


def _at_levels(function: Any) -> Any:
    """Make a function for tensors that levels of ``torch.func`` have wrapped: torch unwraps them, which takes 20 us."""

    def forward(sides: Sequence[Side], *tensors: Any) -> Any:
        return _one_or_all([function.plain(side, tensor).detach() for side, tensor in zip(sides, tensors, strict=True)])

    def setup_context(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        ctx.sides = inputs[0]
        ctx.set_materialize_grads(False)

    def vmap(info: Any, in_dims: Sequence[Any], sides: Sequence[Side], *tensors: Any) -> Any:
        dims = in_dims[1:]
        wider = [side if dim is None else side.mapped(info.batch_size) for side, dim in zip(sides, dims, strict=True)]
        moved = [t if dim is None else t.movedim(dim, 0) for t, dim in zip(tensors, dims, strict=True)]
        made = _mapped(function, wider, moved)
        return _one_or_all(made), _one_or_all([None if dim is None else 0 for dim in dims])

    methods = {"forward": forward, "setup_context": setup_context, "backward": function.backward, "vmap": vmap}
    return type(function.__name__, (torch.autograd.Function,), {k: staticmethod(v) for k, v in methods.items()})


_AT_LEVELS = {function: _at_levels(function) for function in (ToLocal, ToGlobal)}


def to_local(sides: Sequence[Side], tensors: Sequence[Any]) -> list[Tensor]:
    """The parts of DTensors on this rank."""
    return _mapped(ToLocal, sides, tensors)


def to_global(sides: Sequence[Side], locals: Sequence[Tensor]) -> list[Any]:
    """DTensors of the tensors of this rank."""
    return _mapped(ToGlobal, sides, locals)


def _mapped(function: Any, sides: Sequence[Side], tensors: Sequence[Any]) -> list[Any]:
    """Map tensors, and record it where a gradient is wanted."""
    if _torch.functorch_active():
        return _listed(_AT_LEVELS[function].apply(sides, *tensors))
    recorded = [i for i, t in enumerate(tensors) if t.requires_grad] if torch.is_grad_enabled() else []
    if len(recorded) == len(tensors):
        return _listed(function.apply(sides, *tensors)) if tensors else []
    made = [None if i in recorded else function.plain(sides[i], tensor) for i, tensor in enumerate(tensors)]
    if recorded:
        some = function.apply([sides[i] for i in recorded], *[tensors[i] for i in recorded])
        for i, value in zip(recorded, _listed(some), strict=True):
            made[i] = value
    return made


def _mapped_back(function: Any, sides: Sequence[Side], grads: Sequence[Any]) -> list[Any]:
    """Map the gradients that there are."""
    there = [i for i, grad in enumerate(grads) if grad is not None]
    made = iter(_mapped(function, [sides[i].gradient for i in there], [grads[i] for i in there]))
    return [None if grad is None else next(made) for grad in grads]


def _one_or_all(made: list[Any]) -> Any:
    return made[0] if len(made) == 1 else tuple(made)


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [made]
