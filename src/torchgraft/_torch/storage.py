"""The memory of tensors: who shares it, who lent it, how often it was written to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import _C, Tensor

from .plain import PLAIN_TYPES

storage_address: Callable[[Tensor], int] = _C._storage_address  # type: ignore[attr-defined]
storage_holders: Callable[[int], int] = _C._storage_Use_Count
count_writes: Callable[[Iterable[Tensor]], None] = getattr(
    _C, "_increment_version", torch.autograd.graph.increment_version
)
"""Counts a write into each of some tensors; torch's public function is a call of Python more."""


def memory(tensor: Any) -> int:
    """A key that tensors have in common if they share memory."""
    if not isinstance(tensor, Tensor):
        return id(tensor)
    while _C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _C._functorch.get_unwrapped(tensor)
    try:
        return storage_address(tensor)
    except NotImplementedError:  # Gradcheck's own vmap batched it: it has no memory to ask for.
        return id(tensor)


def shares_memory(value: Any, tensor: Tensor) -> bool:
    """Return True if a tensor or an array lies in the memory of a tensor; False where there is none."""
    try:
        storage = tensor.untyped_storage()
        start = value.data_ptr() if isinstance(value, Tensor) else value.__array_interface__["data"][0]
        return 0 <= start - storage.data_ptr() < storage.nbytes()
    except (RuntimeError, NotImplementedError):
        return False


def is_freed(tensor: Tensor) -> bool:
    """Return True if the memory of a dense tensor was given back, as reversible blocks do: to read it is a crash."""
    if tensor.layout != torch.strided or not tensor.numel():
        return False
    try:
        return tensor.untyped_storage().nbytes() == 0
    except (RuntimeError, NotImplementedError):
        return False


def borrows_storage(tensor: Any) -> bool:
    """Return True if another tensor, or something outside of torch, has a hold on the memory of a plain tensor."""
    if type(tensor) not in PLAIN_TYPES:
        return False
    # The address comes first: asking for the storage makes it a Python object, which is one more holder.
    return storage_holders(storage_address(tensor)) > 1 or borrows_memory(tensor)


def borrows_memory(tensor: Tensor) -> bool:
    """Return True if the memory is not torch's own: an array's, or what another library lent."""
    return not tensor.untyped_storage().resizable()


def borrows_plainly(tensor: Tensor) -> bool:
    """`borrows_memory`, and False for what has no memory of its own to ask about."""
    wrapped = type(tensor) not in PLAIN_TYPES or _C._functorch.is_functorch_wrapped_tensor(tensor)
    return not wrapped and borrows_memory(tensor)


def version(tensor: Tensor) -> int:
    """Count how often the tensor was written to; 0 for an inference tensor, which does not count."""
    try:
        return tensor._version
    except RuntimeError:
        return 0


def overlaps_itself(tensor: Tensor) -> bool:
    """Return True if two elements of a tensor may be one place in memory, as those of an expanded one are."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def span(tensor: Tensor) -> int:
    """Count the bytes between the first element's begin and the last one's end."""
    if not tensor.numel():
        return 0
    steps = (stride * (size - 1) for stride, size in zip(tensor.stride(), tensor.shape, strict=True))
    return (sum(steps) + 1) * tensor.element_size()


def overlap(one: Tensor, other: Tensor) -> bool:
    """Return True if two plain tensors reach into the same memory."""
    return -span(one) < one.data_ptr() - other.data_ptr() < span(other)


def overlap_in_storage(one: Tensor, other: Tensor) -> bool:
    """Return True if tensors of one storage reach into the same part; fake tensors too, which have no addresses."""
    begins = [tensor.storage_offset() * tensor.element_size() for tensor in (one, other)]
    return one.untyped_storage()._cdata == other.untyped_storage()._cdata and (
        -span(one) < begins[0] - begins[1] < span(other)
    )


def counts_with(one: Tensor, other: Tensor) -> bool:
    """Return True if two tensors count their writes together: views of one memory do."""
    return storage_address(one) == storage_address(other)


def is_view(tensor: Tensor) -> bool:
    """Return True if the tensor is a view of another one."""
    return tensor._is_view()
