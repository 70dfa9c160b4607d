"""Autocast: whether it is on, and how to pass it by."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import _C


def _any_autocast() -> bool:
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


any_autocast: Callable[[], bool] = getattr(_C, "_is_any_autocast_enabled", _any_autocast)

AUTOCAST_KEYS = tuple(
    key
    for key in ("AutocastCPU", "AutocastCUDA", "AutocastXPU", "AutocastMPS", "AutocastPrivateUse1")
    if hasattr(_C.DispatchKey, key)
)
"""The dispatch keys under which autocast reaches an operator, one for each device type."""


def _key_set(names: tuple[str, ...]) -> Any:
    keys = _C.DispatchKeySet(getattr(_C.DispatchKey, names[0]))
    for name in names[1:]:
        keys = keys | _C.DispatchKeySet(getattr(_C.DispatchKey, name))
    return keys


_AUTOCAST_SET = _key_set(AUTOCAST_KEYS)


def below_autocast() -> contextlib.AbstractContextManager[None]:
    """Within, the dispatcher passes every autocast key by."""
    guard: contextlib.AbstractContextManager[None] = _C._ExcludeDispatchKeyGuard(_AUTOCAST_SET)
    return guard


@contextlib.contextmanager
def autocast_off() -> Iterator[None]:
    """Within, autocast is off for every device type where it is on."""
    with contextlib.ExitStack() as stack:
        for device in ("cpu", "cuda", "xpu", "mps"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield
