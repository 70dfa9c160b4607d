"""The dispatcher's keys, and the operators of `torch.library`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import _C
from torch.library import fallthrough_kernel as fallthrough_kernel

from .autocast import below_autocast
from .duals import FRESH
from .levels import functorch_active
from .thread_modes import forward_mode_enabled, modes

COMPOSITE_IMPLICIT = _C.DispatchKey.CompositeImplicitAutograd
below_autograd: Callable[[], contextlib.AbstractContextManager[None]] = _C._AutoDispatchBelowAutograd


_SNAPSHOT = _C.DispatchKey.PythonTLSSnapshot
with _C._ForceDispatchKeyGuard(*FRESH), below_autograd(), below_autocast():
    _KERNEL = _C._dispatch_tls_local_exclude_set()
"""The dispatch keys that a kernel leaves out."""


def outside_handlers(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that calls torch as others do, also where the handler of a mode or of a subclass calls it.

    Around a ``__torch_dispatch__`` torch leaves out all dispatch keys above it, and they stay out in the kernel that it
    calls: there complex tensors would lose their conjugation, and what `torch.vmap` wraps would reach kernels of C++.
    """

    @functools.wraps(kernel)
    def call(*args: Any) -> Any:
        if not _C._dispatch_tls_is_dispatch_key_excluded(_SNAPSHOT):
            return kernel(*args)
        with _C._ForceDispatchKeyGuard(_C._dispatch_tls_local_include_set(), _KERNEL):
            return kernel(*args)

    return call


def is_declared(qualname: str) -> bool:
    """Tell whether the dispatcher knows an operator; `torch.ops` may import it to find out."""
    return _C._jit_get_operation(qualname)[0] is not None


def redispatch_below_autograd(overload: Any, keyset: Any) -> Callable[..., Any]:
    """A call of `overload` that goes on below the autograd keys of `keyset`.

    ``Function.apply`` switches grad mode and forward mode off around `forward`. The transform levels further down must
    record all the same: with the modes off they would lose their derivatives without a word.
    """
    below = keyset & _C._after_autograd_keyset
    grad, forward = torch.is_grad_enabled(), forward_mode_enabled()

    def call(*args: Any) -> Any:
        with below_autograd():
            if not functorch_active():
                return overload.redispatch(below, *args)
            with modes(grad, forward):
                return overload.redispatch(below, *args)

    return call


def bare_operator(operator: Any) -> Callable[..., Any]:
    """An `OpOverload` as what its ``__call__`` calls, 0.3 us faster."""
    function: Callable[..., Any] = getattr(operator, "_op", operator)
    return function


def is_custom(function: Any) -> bool:
    """Return True for an operator that torch does not bring along, and cannot look into."""
    operator = getattr(function, "default", function) if isinstance(function, torch._ops.OpOverloadPacket) else function
    if not isinstance(operator, torch._ops.OpOverload) or operator.namespace in ("aten", "prim", "prims"):
        return False
    return not _C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd")


def overload_of(function: Any) -> Any:
    """The `OpOverload` of what `torch.library` or `torch.ops` gave; None for anything else."""
    from torch._library.custom_ops import CustomOpDef

    if isinstance(function, CustomOpDef):
        return function._opoverload
    if isinstance(function, torch._ops.OpOverloadPacket):
        return getattr(function, function.overloads()[0])
    return function if isinstance(function, torch._ops.OpOverload) else None


def module_of(function: Any) -> str | None:
    """The module in which `torch.library.custom_op` was used; None where that is not known."""
    return getattr(getattr(function, "_init_fn", None), "__module__", None)


def register_fake(library: torch.library.Library, qualname: str, function: Callable[..., Any]) -> None:
    """`torch.library.register_fake`, without its search through all modules for the caller: 4 ms an operator."""
    try:
        holder = torch._library.simple_registry.singleton.find(qualname).fake_impl
        source = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
        library._registration_handles.append(holder.register(function, source, lib=library, allow_override=True))
    except (AttributeError, TypeError):
        torch.library.register_fake(qualname, function, lib=library)
