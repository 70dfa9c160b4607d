"""Where a derivative gets lost: torch functions that take something to be differentiated and return it detached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._spec.dtypes import is_inexact

_IGNORE_VALUES = frozenset({
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like",
    "new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided", "new",
})  # fmt: skip
"""They look at the shape and dtype of a tensor alone."""

_SECOND_FOR_SHAPE = frozenset({"expand_as", "view_as", "reshape_as", "type_as"})
"""They look at the shape or dtype alone of what they take besides the first."""

_LEAVE = frozenset({"data_ptr", "untyped_storage", "storage", "__dlpack__", "share_memory_"})
"""They hand the memory to somebody whom autograd does not see."""


class Watch(torch.overrides.TorchFunctionMode):
    """Within, remembers the first torch function that lost a derivative.

    Attributes:
        lost: its name; None while nothing was lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lost: str | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func`, and look at what goes in and what comes out."""
        if self.lost is not None:
            return func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", str(func))
        read = _read(name, args, kwargs or {})
        before = [_torch.recording_levels(tensor) for tensor in read]
        result = func(*args, **(kwargs or {}))
        levels = set[int]().union(*before)
        if levels and self._loses(func, name, levels, args, result):
            self.lost = _name_of_property(func) or name
        return result

    def _loses(self, func: Any, name: str, levels: set[int], args: Sequence[Any], result: Any) -> bool:
        if name in _LEAVE:
            return True
        if name == "__setitem__":
            return bool(levels - _torch.recording_levels(args[0]))
        return any(levels - kept for kept in _kept(result))


def _read(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors whose values a function reads."""
    if name in _IGNORE_VALUES:
        return []
    if name in _SECOND_FOR_SHAPE:
        args, kwargs = args[:1], {}
    if name == "to" and len(args) > 1 and isinstance(args[1], Tensor):
        args = args[:1]
    return [t for t in _tensors((*args, *kwargs.values())) if is_inexact(t.dtype)]


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _kept(result: Any) -> Iterator[set[int]]:
    """For each value among the results that can have a derivative, the levels at which it does."""
    if isinstance(result, Tensor):
        if is_inexact(result.dtype):
            yield _torch.recording_levels(result)
    elif isinstance(result, (list, tuple)) and not isinstance(result, torch.Size):
        for item in result:
            yield from _kept(item)
    elif isinstance(result, (float, complex)) or (
        isinstance(result, (np.ndarray, np.generic)) and result.dtype.kind in "fc"
    ):
        yield set()


def _name_of_property(func: Any) -> str | None:
    """``data`` for the getter of ``Tensor.data``."""
    owner = getattr(func, "__self__", None)
    return getattr(owner, "__name__", None) if getattr(func, "__name__", "") == "__get__" else None
