"""Where a derivative gets lost: torch functions that take something to be differentiated and return it detached.

What they return is tainted, and so is every floating result that is computed from it: a comparison with a detached
tensor harms nothing, a product with it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._spec.dtypes import is_inexact

_LIKE = frozenset({
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like",
    "new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided", "new", "resize_", "set_",
})  # fmt: skip
"""They look at the shape and dtype of a tensor alone."""

_AS = frozenset({"expand_as", "view_as", "reshape_as", "type_as", "to"})
"""They look at the shape or dtype alone of what they take besides the first."""

_LEAVE = frozenset({"data_ptr", "untyped_storage", "storage", "__dlpack__", "share_memory_"})
"""They hand the memory to somebody whom autograd does not see."""


class Watch(torch.overrides.TorchFunctionMode):
    """Within, follows what is detached.

    Args:
        forgiven: tells the tensors that are constant on purpose.

    Attributes:
        left: the name of a function by which numbers left torch, where nobody can follow them; None while none did.
    """

    def __init__(self, forgiven: Callable[[], Iterable[Tensor]]) -> None:
        super().__init__()
        self.left: str | None = None
        self._forgiven = forgiven
        self._tainted: dict[int, tuple[Tensor, str]] = {}  # with the tensor, so that no other one takes over its id

    def lost(self, value: Any) -> str | None:
        """The name of the function that lost a derivative which `value` should have; None if there is none."""
        if self.left is not None or not isinstance(value, Tensor):
            return self.left
        tensor, name = self._tainted.get(id(value), (None, None))
        return None if tensor is None or any(tensor is other for other in self._forgiven()) else name

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func`, and look at what goes in and what comes out."""
        name = func.__name__ if hasattr(func, "__name__") else str(func)
        read = _read(name, args, kwargs or {})
        levels = set[int]().union(*map(_torch.recording_levels, read))
        inherited = next((lost for lost in map(self.lost, read) if lost is not None), None)
        result = func(*args, **(kwargs or {}))
        if not levels and inherited is None:
            return result
        shown = _name_of_property(func) or name
        if levels and name in _LEAVE:
            self.left = self.left or shown
        for value in [args[0]] if name == "__setitem__" else _values(result):
            if not isinstance(value, Tensor):
                self.left = self.left or inherited or shown
            elif inherited is not None or levels - _torch.recording_levels(value):
                self._tainted[id(value)] = value, inherited or shown
        return result


def _read(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors whose values a function reads, as far as they can have a derivative."""
    if name in _LIKE:
        return []
    if name in _AS:
        args, kwargs = args[:1], {}
    return [t for t in _tensors((*args, *kwargs.values())) if is_inexact(t.dtype)]


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _values(result: Any) -> Iterator[Any]:
    """Each value among the results that can have a derivative."""
    if isinstance(result, Tensor):
        if is_inexact(result.dtype):
            yield result
    elif isinstance(result, (list, tuple)) and not isinstance(result, torch.Size):
        for item in result:
            yield from _values(item)
    elif isinstance(result, (float, complex)) or (
        isinstance(result, (np.ndarray, np.generic)) and result.dtype.kind in "fc"
    ):
        yield result


def _name_of_property(func: Any) -> str | None:
    """``data`` for the getter of ``Tensor.data``."""
    owner = getattr(func, "__self__", None)
    return getattr(owner, "__name__", None) if getattr(func, "__name__", "") == "__get__" else None
