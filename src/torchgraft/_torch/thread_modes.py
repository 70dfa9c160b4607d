"""Modes of a thread: grad mode, forward mode, modes that see every call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import _C
from torch.autograd import forward_ad

set_grad_enabled: Callable[[bool], None] = _C._set_grad_enabled
forward_mode_enabled: Callable[[], bool] = _C._is_fwd_grad_enabled
dispatch_modes: Callable[[], int] = _C._len_torch_dispatch_stack
modes_before_dispatch: Callable[[], int] = torch._ops._len_torch_dispatch_stack_pre_dispatch
"""The number of modes that see a call before autograd does, as the tracer of ``torch.export`` and of ``make_fx``."""

count_function_modes: Callable[[], int] = _C._len_torch_function_stack
function_modes: Callable[[], list[Any]] = torch.overrides._get_current_function_mode_stack
"""The modes that see every call of a torch function, outermost first."""


@contextlib.contextmanager
def modes(grad: bool, forward: bool) -> Iterator[None]:
    """Within, grad mode and forward mode are as given."""
    with torch.set_grad_enabled(grad), forward_ad._set_fwd_grad_enabled(forward):
        yield
