"""Tensors inside of lists, tuples and dictionaries, as contexts keep them."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor


class _Kinds(dict[type, bool]):
    """For each type whether its values could be, or hold, tensors or arrays; asked of every attribute at every call."""

    def __missing__(self, kind: type) -> bool:
        found = self[kind] = issubclass(kind, (Tensor, np.ndarray, tuple, list, dict)) and kind is not torch.Size
        return found


may_hold_tensors = _Kinds()


_MANY = 64


def leaves_in(kinds: type[Any] | tuple[type[Any], ...], value: Any, depth: int = 8) -> Iterator[Any]:
    """What is of certain types in a value.

    A long list is a table: where it begins and ends with something that is no tensor, it is not gone through.
    """
    if isinstance(value, kinds):
        yield value
    elif depth and may_hold_tensors[type(value)] and not isinstance(value, (Tensor, np.ndarray)):
        items = list(value.values()) if isinstance(value, dict) else value
        for item in items if len(items) <= _MANY or may_hold_tensors[type(items[0])] else items[:: len(items) - 1]:
            yield from leaves_in(kinds, item, depth - 1)


def tensors_in(value: Any) -> Iterator[Tensor | np.ndarray]:
    """The tensors and arrays in a value."""
    return leaves_in((Tensor, np.ndarray), value)


def holds_tensors(value: Any) -> bool:
    """Whether there are any."""
    return any(True for _ in tensors_in(value))


def hides_tensors(value: Any, depth: int = 8) -> bool:
    """Whether there are detached tensors where only a search finds them: in objects, closures, sets, partials."""
    if isinstance(value, (Tensor, np.ndarray)):
        return not (isinstance(value, Tensor) and (value.requires_grad or not value.is_floating_point()))
    if depth == 0 or isinstance(value, (str, bytes, int, float, complex, type, types.ModuleType, torch.nn.Module)):
        return False
    if isinstance(value, dict):
        parts: Iterable[Any] = value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = value
    elif isinstance(value, functools.partial):
        parts = [value.func, value.args, value.keywords]
    elif isinstance(value, types.FunctionType):
        parts = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
    elif isinstance(value, types.MethodType):
        parts = [value.__self__]
    else:
        parts = [getattr(value, "__dict__", None)]
    return any(hides_tensors(part, depth - 1) for part in parts)


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def map_leaves(kind: type[Any], function: Callable[[Any], Any], value: Any) -> Any:
    """The value with everything of a type replaced by what `function` makes of it; itself where there is nothing."""
    if isinstance(value, kind):
        return function(value)
    if not any(True for _ in leaves_in(kind, value)):
        return value
    if isinstance(value, dict):
        return {key: map_leaves(kind, function, item) for key, item in value.items()}
    items = [map_leaves(kind, function, item) for item in value]
    return (
        type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    )  # a named tuple takes them one by one
