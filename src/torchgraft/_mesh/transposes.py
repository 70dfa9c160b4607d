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

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _torch
from .watch import Watch


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
        places: along each axis of the mesh.
        placements: of the tensor, along each axis.
        once: mesh axes along which all ranks but the first take zeros.
        label: of the operator and the tensor, for errors.
    """

    def __init__(self, mesh: Any, places: Sequence[Place], shape: Any, dtype: torch.dtype, label: str) -> None:
        self.mesh, self.places, self.shape, self.dtype, self.label = mesh, places, shape, dtype, label
        self.placements = tuple([place.tensor for place in places])
        self.once = tuple([i for i, place in enumerate(places) if place.once])

    @cached_property
    def spec(self) -> Any:
        """The spec of the DTensor; it takes 10 us to make, and what only lies so needs none."""
        return _torch.make_spec(self.mesh, self.placements, self.shape, self.dtype)

    @cached_property
    def gradient(self) -> Side:
        """The side of its gradient, whose gradient lies as the tensor does."""
        turned = [Place(place.gradient, place.tensor) for place in self.places]
        made = Side(self.mesh, turned, self.shape, self.dtype, f"the gradient of {self.label}")
        made.gradient = self
        return made

    def mapped(self, size: int) -> Side:
        """The side of a tensor that has a mapped axis in front, which is not cut."""
        made = self._behind(size)
        made.gradient = self.gradient._behind(size)
        made.gradient.gradient = made
        return made

    def _behind(self, size: int) -> Side:
        from torch.distributed.tensor import Shard

        def behind(placement: Any) -> Any:
            return Shard(placement.dim + 1) if placement.is_shard() else placement

        places = [Place(behind(place.tensor), behind(place.gradient), place.once) for place in self.places]
        return Side(self.mesh, places, (size, *self.shape), self.dtype, self.label)

    def wrap(self, local: Tensor) -> Any:
        """The DTensor of which this is the part."""
        return _torch.make_dtensor(local.contiguous(), self.spec)

    def has(self, tensor: Any) -> bool:
        """Return True if a DTensor lies so."""
        return not self.once and self.lies(tensor)

    def lies(self, tensor: Any) -> bool:
        """Return True if a DTensor has these placements, so that its own part is read."""
        return _torch.lies_as(tensor, self.placements)

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


def _recorded(make: Callable[[Side, Any], Any]) -> Any:
    """A forward that makes a new tensor of each, for the maps below."""

    def forward(ctx: Any, sides: Sequence[Side], watch: Watch | None, *tensors: Any) -> Any:
        ctx.sides, ctx.watch = sides, watch
        ctx.set_materialize_grads(False)
        return _one_or_all([make(side, tensor) for side, tensor in zip(sides, tensors, strict=True)])

    return staticmethod(forward)


class ToLocal(_torch.SingleLevelFunction):  # type: ignore[misc]
    """The parts of DTensors on this rank; the transpose of `ToGlobal`."""

    plain = staticmethod(Side.part)
    forward = _recorded(lambda side, tensor: side.part(tensor).detach())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        return None, None, *_mapped_back(ToGlobal, ctx.sides, grads, ctx.watch)


class ToGlobal(_torch.SingleLevelFunction):  # type: ignore[misc]
    """DTensors of the tensors of this rank; the transpose of `ToLocal`."""

    plain = staticmethod(Side.wrap)
    forward = _recorded(lambda side, local: side.wrap(local.detach()))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if ctx.watch is not None:  # All ways into what a rank computes, at every order, begin here.
            ctx.watch.look()
        return None, None, *_mapped_back(ToLocal, ctx.sides, grads, ctx.watch)


def _at_levels(function: Any) -> Any:
    """Make a function for tensors that levels of ``torch.func`` have wrapped: torch unwraps them, which takes 20 us."""

    def forward(sides: Sequence[Side], watch: Watch | None, *tensors: Any) -> Any:
        return _one_or_all([function.plain(side, tensor).detach() for side, tensor in zip(sides, tensors, strict=True)])

    def setup_context(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        ctx.sides, ctx.watch = inputs[:2]
        ctx.set_materialize_grads(False)

    def vmap(info: Any, in_dims: Any, sides: Sequence[Side], watch: Watch | None, *tensors: Any) -> tuple[Any, Any]:
        dims = in_dims[2:]
        sides = [side if d is None else side.mapped(info.batch_size) for side, d in zip(sides, dims, strict=True)]
        moved = [tensor if d is None else tensor.movedim(d, 0) for tensor, d in zip(tensors, dims, strict=True)]
        made = _mapped(function, sides, moved, watch)
        return _one_or_all(made), _one_or_all([None if d is None else 0 for d in dims])

    methods = {"forward": forward, "setup_context": setup_context, "backward": function.backward, "vmap": vmap}
    return type(function.__name__, (torch.autograd.Function,), {k: staticmethod(v) for k, v in methods.items()})


_AT_LEVELS = {function: _at_levels(function) for function in (ToLocal, ToGlobal)}


def to_local(
    sides: Sequence[Side], tensors: Sequence[Any], watch: Watch | None = None, *, as_wanted: bool = False
) -> list[Tensor]:
    """The parts of DTensors on this rank; `as_wanted` if it is known that all lie as the sides say."""
    if as_wanted and not torch.is_grad_enabled() and not _torch.functorch_active():
        return [_torch.local_part(tensor) for tensor in tensors]
    return _mapped(ToLocal, sides, tensors, watch)


def to_global(sides: Sequence[Side], locals: Sequence[Tensor], watch: Watch | None = None) -> list[Any]:
    """DTensors of the tensors of this rank."""
    made = _mapped(ToGlobal, sides, locals, watch)
    if watch is not None:
        watch.add(made)
    return made


def _mapped(function: Any, sides: Sequence[Side], tensors: Sequence[Any], watch: Watch | None) -> list[Any]:
    """Map tensors, and record it where a gradient is wanted."""
    if _torch.functorch_active():
        return _listed(_AT_LEVELS[function].apply(sides, watch, *tensors))
    recorded = [i for i, t in enumerate(tensors) if t.requires_grad] if torch.is_grad_enabled() else []
    if len(recorded) == len(tensors):
        return _listed(function.apply(sides, watch, *tensors)) if tensors else []
    made = [None if i in recorded else function.plain(sides[i], tensor) for i, tensor in enumerate(tensors)]
    if recorded:
        some = function.apply([sides[i] for i in recorded], watch, *[tensors[i] for i in recorded])
        for i, value in zip(recorded, _listed(some), strict=True):
            made[i] = value
    return made


def _mapped_back(function: Any, sides: Sequence[Side], grads: Sequence[Any], watch: Watch | None) -> list[Any]:
    """Map the gradients that there are."""
    if any(grad is not None and _torch.is_legacy_batched(grad) for grad in grads):
        return list(_torch.map_legacy(lambda *samples: _mapped_back(function, sides, samples, watch), grads))
    there = [i for i, grad in enumerate(grads) if grad is not None]
    made = iter(_mapped(function, [sides[i].gradient for i in there], [grads[i] for i in there], watch))
    return [None if grad is None else next(made) for grad in grads]


def _one_or_all(made: list[Any]) -> Any:
    return made[0] if len(made) == 1 else tuple(made)


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [made]
