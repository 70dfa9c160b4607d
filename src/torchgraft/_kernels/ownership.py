"""Ownership of a kernel's results: they belong to the caller alone.

A kernel may return its input, a view of it, a table that it keeps, or a buffer that it will fill again at the next
call: all of them legal functions of their arguments, and all of them wrong numbers as soon as someone writes into the
output, or a compiler reuses its memory. What somebody else still holds is copied.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import _torch


def release(result: Any) -> Any:
    """The arrays that a NumPy function returned, each copied if anybody else holds it or its memory.

    To be called with a result that one local variable holds.
    """
    if isinstance(result, (tuple, list)):
        all_held = sys.getrefcount(result) > _alone()
        held = [all_held or sys.getrefcount(result[i]) > _ITEM for i in range(len(result))]
        return tuple(_copied(item, is_held) for item, is_held in zip(result, held, strict=True))
    is_held = sys.getrefcount(result) > _alone()
    return _copied(result, is_held)


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
        all_held = sys.getrefcount(result) > _alone()
        return [
            all_held or sys.getrefcount(result[i]) > _ITEM or _torch.borrows_storage(result[i])
            for i in range(len(result))
        ]
    return [sys.getrefcount(result) > _alone() or _torch.borrows_storage(result)]


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


_ITEM = _measure_item()
_BASE = _measure_base()
HOT_ALONE = min(_measure_hot(), _measure_hot_item())
"""References to an output in the generated code, where two names hold it."""
