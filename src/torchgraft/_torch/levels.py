"""The levels of `torch.func`: what the one at hand is, and which ones a tensor belongs to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from torch import _C, Tensor
from torch._functorch import pyfunctorch as _pyfunctorch

functorch_active: Callable[[], bool] = _C._are_functorch_transforms_active


def current_level() -> Any:
    """The interpreter of the outermost transform level: its `key()` says of which kind, `lower()` goes below it."""
    return _pyfunctorch.retrieve_current_functorch_interpreter()


class _Level(threading.local):
    depth = 0


_level = _Level()


def inside_level() -> bool:
    """Return True if this thread is inside the processing of a transform level, where no other can be pushed."""
    return _level.depth > 0


@contextlib.contextmanager
def level() -> Iterator[None]:
    """Marks the processing of one transform level."""
    _level.depth += 1
    try:
        yield
    finally:
        _level.depth -= 1


@contextlib.contextmanager
def outside_level() -> Iterator[None]:
    """Marks a kernel at the bottom, where all transform levels have been left."""
    before, _level.depth = _level.depth, 0
    try:
        yield
    finally:
        _level.depth = before


def opens_no_level(error: RuntimeError) -> bool:
    """Return True if torch could not open a transform level: inside of another one's processing, or of hooks."""
    return any(words in str(error) for words in _NO_LEVEL)


_NO_LEVEL = ("savedLocalDispatchKeySet_", "Nested forward mode AD", "don't yet support saved tensor hooks")


def requires_grad_inside(tensor: Tensor) -> Tensor:
    """`tensor.requires_grad_()`, also inside a transform, which forbids it to user code."""
    before = _C._functorch.get_inplace_requires_grad_allowed()
    _C._functorch.set_inplace_requires_grad_allowed(True)
    try:
        return tensor.requires_grad_()
    finally:
        _C._functorch.set_inplace_requires_grad_allowed(before)


def recording_levels(tensor: Tensor) -> set[int]:
    """The transform levels at which the tensor requires grad; 0 stands for plain autograd.

    ``requires_grad`` tells about the outermost wrapper alone.
    """
    functorch = _C._functorch
    levels: set[int] = set()
    while functorch.is_functorch_wrapped_tensor(tensor):
        level = functorch.maybe_get_level(tensor)
        if level > 0 and functorch.is_gradtrackingtensor(tensor) and tensor.requires_grad:  # A level below 0 has ended.
            levels.add(level)
        tensor = functorch.get_unwrapped(tensor)
    return levels | {0} if tensor.requires_grad else levels
