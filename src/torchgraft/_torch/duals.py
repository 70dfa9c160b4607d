"""Dual tensors: a primal and its tangent at a forward level."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import _C, Tensor
from torch.autograd import forward_ad

from .legacy_vmap import is_legacy_batched
from .levels import functorch_active, recording_levels
from .thread_modes import forward_mode_enabled
from .wrappers import without_levels


def make_dual(primal: Tensor, tangent: Tensor) -> Tensor:
    """The inverse of `unpack_dual`."""
    dual: Tensor = torch._VF._make_dual(primal, tangent, level=0)
    return dual


def unpack_dual(tensor: Tensor) -> tuple[Tensor, Tensor | None]:
    """Primal and tangent at the level at hand.

    `forward_ad.unpack_dual` refuses where no Python-level dual level is open, although inside a transform the
    level is the wrapper's own; level 0 is the only one that C++ knows. The tangent has the primal's dtype: the formulas
    of torch promote one without axes to float64, where a Python number is about.
    """
    unpack: Callable[..., tuple[Tensor, Tensor | None]] = torch._VF._unpack_dual
    try:
        primal, tangent = unpack(tensor, level=0)
    except RuntimeError as error:
        if "has_fw_view" not in str(error):
            raise
        # Inside functionalize, torch fails on each view of a dual whose elements share memory; the primal is a view.
        primal, tangent = unpack(tensor.clone(), level=0)
    if tangent is not None and tangent.dtype is not primal.dtype and tangent.is_complex() == primal.is_complex():
        tangent = tangent.to(primal.dtype)
    return primal, tangent


def in_dual_level() -> bool:
    """Return True if a forward level of plain autograd is open."""
    return forward_ad._current_level >= 0


def tangents_possible() -> bool:
    """Return True if a tensor can carry a tangent at all: some forward level is open, and not disabled."""
    return forward_mode_enabled() and (forward_ad._current_level >= 0 or functorch_active())


@contextlib.contextmanager
def known_forward_level() -> Iterator[None]:
    """Within, Python knows of the forward level that tensors with tangents belong to.

    A graph of Dynamo opens and closes a level of plain autograd in C++ alone. For Python none is open then, and what
    asks for one would drop the tangents.
    """
    if forward_ad._current_level >= 0 or functorch_active():
        yield
        return
    forward_ad._current_level = 0
    try:
        yield
    finally:
        forward_ad._current_level = -1


_KEYS = _C.DispatchKey
FRESH = (
    _C.DispatchKeySet(_KEYS.BackendSelect) | _C.DispatchKeySet(_KEYS.ADInplaceOrView),
    _C.DispatchKeySet(_KEYS.AutocastCPU),
)
"""The dispatch keys that a fresh thread includes, and that it excludes."""


def has_tangent(tensor: Tensor) -> bool:
    """Return True if a tensor has a tangent at the level of plain autograd; asked below autograd, too."""
    if forward_ad._current_level < 0:
        return False
    with _C._ForceDispatchKeyGuard(*FRESH):
        return unpack_dual(tensor)[1] is not None


def any_tangent(values: Iterable[Any]) -> bool:
    """Return True if a tensor among these has a tangent at the forward level of plain autograd."""
    return tangents_possible() and any(
        unpack_dual(value)[1] is not None for value in values if isinstance(value, Tensor)
    )


def may_carry_tangent(tensor: Tensor) -> bool:
    """Return True if the tensor belongs to a forward level, at which alone its tangent there is visible."""
    functorch = _C._functorch
    if is_legacy_batched(tensor):  # It is a tangent of gradcheck's, and has none of its own.
        return False
    if not functorch_active():
        with torch.inference_mode(False):  # In inference mode, tangents are there and cannot be seen.
            return forward_ad._current_level >= 0 and unpack_dual(tensor)[1] is not None
    forward = {
        level.level() for level in functorch.get_interpreter_stack() if level.key() == functorch.TransformType.Jvp
    }
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.maybe_get_level(tensor) in forward:
            return True
        tensor = functorch.get_unwrapped(tensor)
    with without_levels():  # One level is open at most: of plain autograd, where it is none of the transforms.
        return not forward and has_tangent(tensor)


def has_derivative(tensor: Tensor) -> bool:
    """Return True if the tensor is differentiated at some transform level, or has a tangent."""
    return bool(recording_levels(tensor)) or may_carry_tangent(tensor)
