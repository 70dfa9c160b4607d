"""Tensors inside of lists, tuples and dictionaries, as contexts keep them."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._spec.dtypes import is_inexact


class _Kinds(dict[type, bool]):
    """For each type whether it is one of some, which is asked of every attribute at every call."""

    def __init__(self, *among: type[Any]) -> None:
        super().__init__()
        self._among = among

    def __missing__(self, kind: type) -> bool:
        found = self[kind] = issubclass(kind, self._among) and kind is not torch.Size
        return found


_NUMBERS = float, complex, np.inexact

may_hold_tensors = _Kinds(Tensor, np.ndarray, tuple, list, dict)
is_number = _Kinds(*_NUMBERS)
"""Tells for a type if its values are floating numbers, which may have been taken out of tensors."""

_MANY = 64


def leaves_in(kinds: type[Any] | tuple[type[Any], ...], value: Any, depth: int = 8) -> Iterator[Any]:
    """List the leaves of certain types in a value.

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
    """Return True if a value holds tensors."""
    return any(True for _ in tensors_in(value))


def numbers_in(value: Any) -> Iterator[float | complex | np.inexact[Any]]:
    """The floating numbers in a value, which may have been taken out of tensors."""
    return leaves_in(_NUMBERS, value)


def holds_results(value: Any) -> bool:
    """Return True if a value holds tensors, arrays or floating numbers."""
    return any(True for _ in leaves_in((Tensor, np.ndarray, *_NUMBERS), value))


_NO_WAY = (str, bytes, int, float, complex, type, types.ModuleType, types.CodeType, torch.nn.Module)
"""Through these nothing is looked for: they hold no results, or were there before."""


def hides_tensors(value: Any, known: Iterable[Any] = ()) -> bool:
    """Return True if a floating tensor or array without a derivative can be reached from a value, in whatever way.

    In containers, in objects, as keys, in closures and default arguments, bound to methods and iterators: all that the
    garbage collector knows of.

    Args:
        value: what is searched.
        known: what does not count, with all that is reached from it alone.
    """
    seen = {id(item): item for item in known}
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, _NO_WAY) or id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, Tensor):
            if is_inexact(item.dtype) and not item.requires_grad:
                return True
        elif isinstance(item, np.ndarray) and item.dtype.kind != "O":
            if item.dtype.kind in "fc":
                return True
        elif isinstance(item, types.FunctionType):  # Its globals reach everything.
            rest += [item.__closure__, item.__defaults__, item.__kwdefaults__]
        else:
            rest += gc.get_referents(item)
    return False


def as_outputs(output: Any) -> tuple[Any, ...]:
    """Return the outputs of forward or jvp as a tuple; a subclass of tuple is one, as autograd has it."""
    return tuple(output) if isinstance(output, tuple) else (output,)


def map_leaves(kind: type[Any], function: Callable[[Any], Any], value: Any) -> Any:
    """The value with everything of a type replaced by what `function` makes of it; itself where there is nothing."""
    if isinstance(value, kind):
        return function(value)
    if not any(True for _ in leaves_in(kind, value)):
        return value
    if isinstance(value, dict):
        return {key: map_leaves(kind, function, item) for key, item in value.items()}
    items = [map_leaves(kind, function, item) for item in value]
    # A named tuple takes them one by one.
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
