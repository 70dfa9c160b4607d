"""Modes and hooks that look at every call of torch, and torch's own comparison."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import torch
from torch.nn.modules import module as modules
from torch.utils._python_dispatch import _disable_current_modes


@contextlib.contextmanager
def without_onlookers() -> Iterator[None]:
    """Within, no dispatch mode is active, and no hook of all modules, with which modes find out who calls."""
    hooks = (modules._global_forward_pre_hooks, modules._global_forward_hooks)
    before = [dict(each) for each in hooks]
    for each in hooks:
        each.clear()
    try:
        with _disable_current_modes():
            yield
    finally:
        for each, kept in zip(hooks, before, strict=True):
            each.update(kept)


def profiling() -> bool:
    """Return True if torch's profiler is on."""
    return torch.autograd.profiler._is_profiler_enabled


@contextlib.contextmanager
def nan_is_equal() -> Iterator[None]:
    """Within, `torch.testing.assert_close` takes NaN for equal to NaN: `torch.library.opcheck` cannot be asked to."""
    compare = torch.testing.assert_close
    torch.testing.assert_close = functools.partial(compare, equal_nan=True)
    try:
        yield
    finally:
        torch.testing.assert_close = compare
