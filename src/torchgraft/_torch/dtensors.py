"""DTensors: the tensor of this rank, and the spec that says how it lies on the mesh."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from .on_import import once_loaded
from .wrappers import below_differentiation, is_wrapped

DTENSOR = "torch.distributed.tensor"
"""The module of DTensors. Its import takes half a second."""

_class: Any = None
_unfinished: Any = None


def _take_classes() -> None:
    global _class, _unfinished
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.distributed.tensor import DTensor

    _class, _unfinished = DTensor, AsyncCollectiveTensor


once_loaded(DTENSOR, _take_classes)


def any_dtensor(values: Iterable[Any]) -> bool:
    """Return True if a DTensor is among the values; nothing is imported to find out."""
    return _class is not None and any(isinstance(value, _class) for value in values)


def all_dtensors(values: Sequence[Any]) -> bool:
    """Return True if each value is a DTensor or None, and one of them a DTensor."""
    return any_dtensor(values) and all(value is None or isinstance(value, _class) for value in values)


def any_dtensor_below(tensors: Iterable[Tensor]) -> bool:
    """Return True if a DTensor is among the tensors, or below the differentiating levels of one.

    Where a level maps over one of them, it is False: the rule of that level sees the DTensors below.
    """
    if _class is None:
        return False
    below = [below_differentiation(tensor) for tensor in tensors]
    return any(isinstance(tensor, _class) for tensor in below) and not any(map(is_wrapped, below))


def dtensor_below(tensor: Tensor) -> Any:
    """The DTensor below the differentiating levels of a tensor; None if it is a plain tensor."""
    found = below_differentiation(tensor)
    return found if isinstance(found, _class) else None


def replicates_implicitly() -> bool:
    """Return True inside of ``torch.distributed.tensor.experimental.implicit_replication``."""
    return bool(getattr(_class._op_dispatcher, "_allow_implicit_replication", False))


def register_dtensor_rule(library: Any, qualname: str, rule: Callable[..., Any]) -> None:
    """Have an operator call ``rule(*args)`` where a DTensor reaches it below autograd."""

    def register() -> None:
        torch.library.register_torch_dispatch(
            qualname, _class, lambda mode, operator, types, args, kwargs: rule(*args, **kwargs), lib=library
        )

    once_loaded(DTENSOR, register)


def local_part(tensor: Any) -> Tensor:
    """The tensor of this rank; what a collective still computes is waited for."""
    local: Tensor = tensor._local_tensor
    return cast(Any, local).wait() if isinstance(local, _unfinished) else local


def spec_of(tensor: Any) -> Any:
    """Return mesh, placements, shape and dtype of a DTensor; they can be hashed."""
    return tensor._spec


def make_spec(mesh: Any, placements: Sequence[Any], shape: Sequence[Any], dtype: torch.dtype) -> Any:
    """The spec of a contiguous DTensor."""
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step = step * (max(size, 1) if isinstance(size, int) else size)
    meta = TensorMeta(torch.Size(shape), tuple(reversed(strides)), dtype)
    return DTensorSpec(mesh, tuple(placements), tensor_meta=meta)


def make_dtensor(local: Tensor, spec: Any) -> Any:
    """The DTensor whose part on this rank is a tensor."""
    if torch.compiler.is_exporting():  # Its constructor tells the exporter of it, which takes 3 us.
        return _class(local, spec, requires_grad=local.requires_grad)
    return _class.__new__(_class, local, spec, requires_grad=local.requires_grad)


def lies_as(tensor: Any, placements: tuple[Any, ...]) -> bool:
    """Return True if a DTensor has just these placements.

    Several mesh axes may cut one axis of a tensor in another order than theirs, which the placements do not tell.
    """
    spec = tensor._spec
    if spec.placements != placements:
        return False
    order = getattr(spec, "shard_order", None)
    return order is None or len(placements) == 1 or order == spec.compute_default_shard_order(placements)


def redistributed(tensor: Any, placements: Sequence[Any], message: str) -> Any:
    """A DTensor that lies as the placements say, and without a gradient.

    Contexts that refuse such communication see it as an operator's own.

    Raises:
        RuntimeError: by ``ExplicitRedistributionContext``, with the message.
    """
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor._utils import ExplicitRedistributionContext

    spec = tensor._spec
    if lies_as(tensor, tuple(placements)):
        return tensor
    wanted = make_spec(spec.mesh, placements, tensor.shape, tensor.dtype)
    ExplicitRedistributionContext.observe_redistribution(spec, wanted, cast(Any, message))
    with torch.no_grad():
        # Before 2.13, the result would require grad like the tensor, and lose that by no rule.
        tensor = _class(tensor._local_tensor, spec, requires_grad=False)
        if spec.placements == wanted.placements:  # They lie in another order, see `lies_as`.
            tensor = tensor.redistribute(spec.mesh, [Replicate() if p.is_shard() else p for p in placements])
        return tensor.redistribute(spec.mesh, placements)


def laid_as(tensor: Any, value: Any) -> Any:
    """A new value for a tensor, laid on its mesh as the tensor is: torch copies no other where a rank has nothing."""
    if not all_dtensors([tensor, value]) or any(p.is_partial() for p in tensor.placements):
        return value
    return value.redistribute(tensor.device_mesh, tensor.placements)


class _Memo(OrderedDict[Any, Any]):
    """The memory of one mesh. A mesh that is pickled or copied takes none of it along."""

    def __reduce__(self) -> Any:
        return OrderedDict, ()


def memo_of(mesh: Any) -> dict[Any, Any]:
    """The memory of one mesh, for as long as that lives: entries hold the mesh, so it must hold them."""
    found = mesh.__dict__.get("_torchgraft")
    if type(found) is not _Memo:
        found = mesh.__dict__["_torchgraft"] = _Memo()
    return found
