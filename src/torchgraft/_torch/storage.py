"""The memory of tensors: who shares it, who lent it, how often it was written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import _C, Tensor

from .plain import PLAIN_TYPES

storage_address: Callable[[Tensor], int] = _C._storage_address  # type: ignore[attr-defined]
storage_holders: Callable[[int], int] = _C._storage_Use_Count


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


def is_view(tensor: Tensor) -> bool:
    """Return True if the tensor is a view of another one."""
    return tensor._is_view()
