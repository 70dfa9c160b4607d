"""Autocast: whether it is on, and how to pass it by."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import _C


def _enabled() -> list[str]:
    """The device types where autocast is on, of all that have one; a backend outside of torch has its own name."""
    own = _C._get_privateuse1_backend_name()
    kinds = ("cpu", "cuda", "mtia", "maia", "xpu", "ipu", "hpu", "xla", "mps", own)
    return [kind for kind in kinds if torch.is_autocast_enabled(kind)]


any_autocast: Callable[[], bool] = getattr(_C, "_is_any_autocast_enabled", lambda: bool(_enabled()))

AUTOCAST_KEYS = tuple(key for key in dir(_C.DispatchKey) if key.startswith("Autocast"))
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
        for kind in _enabled():
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield
