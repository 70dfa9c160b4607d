"""Ownership of a kernel's results: they belong to the caller alone.

A kernel may return its input, a view of it, a table that it keeps, or a buffer that it will fill again at the next
call: all of them legal functions of their arguments, and all of them wrong numbers as soon as someone writes into the
output, or a compiler reuses its memory. What somebody else still holds is copied.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _torch


def release(result: Any) -> Any:
    """The arrays that a NumPy function returned, each copied if anybody else holds it or its memory.

    To be called with a result that one local variable holds.
    """
    if isinstance(result, (tuple, list)):
        return _released(result, held=sys.getrefcount(result) > _alone())
    is_held = sys.getrefcount(result) > _alone()
    return _copied(result, is_held)


def _released(items: Any, *, held: bool) -> Sequence[Any]:
    """The arrays of a tuple or list, and of a list in it; a list stays one.

    Args:
        held: somebody else holds it, and with it all that is in it.
    """
    held_items = [held or sys.getrefcount(items[i]) > _ITEM for i in range(len(items))]
    made = [
        _released(items[i], held=is_held) if isinstance(items[i], (tuple, list)) else _copied(items[i], is_held)
        for i, is_held in enumerate(held_items)
    ]
    return made if isinstance(items, list) else tuple(made)


def _copied(value: Any, held: bool) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return value.copy() if held or _borrows(value) else value


def _borrows(array: Any) -> bool:
    """Return True if the memory belongs to something that outlives the array."""
    if array.flags.owndata:
        return False
    base = array.base
    return not isinstance(base, np.ndarray) or sys.getrefcount(base) > _BASE or _borrows(base)


def held_elsewhere(result: Any) -> list[bool]:
    """For each tensor that a torch function returned, whether anybody else holds it or its memory.

    To be called with a result that one local variable holds.
    """
    if _torch.dispatch_modes():  # A tracer holds what it traces; `Lowering` copies views and inputs.
        return [False] * (len(result) if isinstance(result, (tuple, list)) else 1)
    if isinstance(result, (tuple, list)):
        return _held_items(result, held=sys.getrefcount(result) > _alone())
    return [sys.getrefcount(result) > _alone() or _torch.borrows_storage(result)]


def _held_items(items: Any, *, held: bool) -> list[bool]:
    """The answer for each tensor of a tuple or list, and of a list in it; `held` as above."""
    answers: list[bool] = []
    for i in range(len(items)):
        is_held = held or sys.getrefcount(items[i]) > _ITEM
        if isinstance(items[i], (tuple, list)):
            answers += _held_items(items[i], held=is_held)
        else:
            answers.append(is_held or _torch.borrows_storage(items[i]))
    return answers


# The interpreter holds references of its own, and their number differs from version to version. It is measured here, in
# functions of the same form, on something that nobody else holds.


def _count(result: Any) -> int:
    return sys.getrefcount(result)


def _alone() -> int:
    """For a parameter whose caller has it in one variable.

    Measured anew each time: once Dynamo has set its hook in the interpreter, a call holds its arguments once more.
    """
    result = object()
    return _count(result)


def _measure_item() -> int:
    result = (object(),)
    return sys.getrefcount(result[0])


def _measure_base() -> int:
    view = np.empty(2)[:1]
    base = view.base
    return sys.getrefcount(base)


def _measure_hot() -> int:
    tensor = out = object()
    count = sys.getrefcount(tensor)
    del out
    return count


def _measure_hot_item() -> int:
    out = (object(),)
    (tensor,) = out
    return sys.getrefcount(tensor)


def _measure_hot_list() -> int:
    (*items,) = _out = (object(),)
    return max(sys.getrefcount(item) for _, item in enumerate(items))


_ITEM = _measure_item()
_BASE = _measure_base()
HOT_ALONE = min(_measure_hot(), _measure_hot_item())
"""References to an output in the generated code, where two names hold it."""
HOT_ALONE_IN_LIST = _measure_hot_list()
"""References to a tensor of a returned list in the generated code: two lists and a name hold it."""
