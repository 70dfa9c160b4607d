"""Plain tensors: those that a call may take without the dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad, profiler
from torch.utils._python_dispatch import _disable_current_modes

from .autocast import any_autocast
from .legacy_vmap import is_legacy_batched
from .levels import functorch_active
from .thread_modes import dispatch_modes, modes_before_dispatch
from .tracing import is_tracing

PLAIN_TYPES = frozenset({Tensor, torch.nn.Parameter})


def runs_eagerly() -> bool:
    """Return True if neither a mode, autocast, a tangent, a profiler nor a tracer is about."""
    return (
        dispatch_modes() == 0
        and modes_before_dispatch() == 0
        and not any_autocast()
        and forward_ad._current_level < 0
        and not profiler._is_profiler_enabled
        and not is_tracing()
    )


def is_direct(tensors: Iterable[Tensor]) -> bool:
    """Return True if a call on these tensors may bypass the dispatcher: no transform, mode, subclass or lazy view."""
    return (
        not functorch_active()
        and runs_eagerly()
        and all(
            type(tensor) in PLAIN_TYPES
            and not tensor.is_conj()
            and not tensor.is_neg()
            and not torch._is_zerotensor(tensor)
            and not tensor.is_meta
            and not is_legacy_batched(tensor)
            for tensor in tensors
        )
    )


def materialized(arguments: Iterable[Any]) -> list[Any]:
    """Arguments with zeros for the zero tensors of torch's forward mode, which hold no numbers.

    torch crashes where a mode passes such a tensor on to some operations, as `mul` by a number is one.
    """
    return [a.clone() if isinstance(a, Tensor) and torch._is_zerotensor(a) else a for a in arguments]


def holds_numbers(tensor: Tensor) -> bool:
    """Return True if there are numbers to look at, and not only a tracer's promise of some."""
    return type(tensor) in PLAIN_TYPES and not tensor.is_meta and dispatch_modes() == 0


def is_at_bottom(tensors: Iterable[Tensor]) -> bool:
    """Return True for plain tensors where no transform or mode is about: eager code, maybe under autocast."""
    return (
        not functorch_active()
        and dispatch_modes() == 0
        and modes_before_dispatch() == 0
        and not is_tracing()
        and all(type(tensor) in PLAIN_TYPES and not tensor.is_meta for tensor in tensors)
    )


class _PlainGuards:
    """Dynamo's `TensorGuards` in Python, for a torch that does not have it."""

    def __init__(self, *tensors: Tensor, dynamic_dims_sizes: Any, dynamic_dims_strides: Any) -> None:
        self.sizes, self.strides = dynamic_dims_sizes, dynamic_dims_strides
        self.expected = [self._describe(i, tensor) for i, tensor in enumerate(tensors)]

    def _describe(self, place: int, tensor: Tensor) -> tuple[Any, ...]:
        return (
            type(tensor),
            self._compared(tensor.shape, self.sizes and self.sizes[place]),
            self._compared(tensor.stride(), self.strides and self.strides[place]),
            tensor.dtype,
            tensor.device,
            tensor.requires_grad and torch.is_grad_enabled(),
            tensor.is_conj(),
            tensor.is_neg(),
            tensor.is_inference(),
            torch.is_inference_mode_enabled(),
        )

    @staticmethod
    def _compared(numbers: Sequence[int], dynamic: Sequence[int | None] | None) -> tuple[int | None, ...]:
        """The sizes or strides, without those that may be any."""
        if dynamic is None or len(dynamic) != len(numbers):
            return tuple(numbers)
        return tuple(None if known is None else number for number, known in zip(numbers, dynamic, strict=True))

    def check(self, *tensors: Any) -> bool:
        if any_autocast() or is_tracing() or functorch_active() or len(tensors) != len(self.expected):
            return False
        return all(
            isinstance(tensor, Tensor) and self._describe(i, tensor) == expected
            for i, (tensor, expected) in enumerate(zip(tensors, self.expected, strict=True))
        )


def _tensor_guards() -> type[Any]:
    try:
        from torch._C._dynamo.guards import TensorGuards
    except ImportError:  # pragma: no cover
        return _PlainGuards
    return TensorGuards


_TensorGuards = _tensor_guards()


class _Absent(Tensor):
    """The type of `absent` tensors; no user's tensor has it."""


with _disable_current_modes():  # They may be imported in a function that is traced with fake tensors.
    _ABSENT = tuple(torch.empty(0, device="cpu").as_subclass(_Absent) for _ in range(16))


def absent(place: int) -> Tensor:
    """Stands for an optional tensor that was not passed, so that `plain_tensors` can compare all.

    Args:
        place: of the parameter; neighbours have different ones, since `plain_tensors` admits none twice.
    """
    return _ABSENT[place % len(_ABSENT)]


def distinct(tensors: Sequence[Tensor]) -> list[Tensor]:
    """`tensors` with views of them in the places where one is there again."""
    first = {id(tensor): i for i, tensor in reversed(list(enumerate(tensors)))}
    return [tensor if first[id(tensor)] == i else tensor.view_as(tensor) for i, tensor in enumerate(tensors)]


def plain_tensors(*tensors: Tensor) -> Callable[..., bool]:
    """A function that tells whether tensors look exactly like these, in the global state at hand.

    One C call compares Python type, shape, strides, dtype, device, `requires_grad` and the dispatch keys, the
    thread's own included: a transform, a user's dispatch mode, autocast, `jit.trace`, inference mode, a conjugate
    view, a subclass or a tensor that is there twice all make it false; torch's own modes, of fake tensors above all,
    do not. It costs 0.13 us for one tensor and 0.07 us for each further one.
    """
    check: Callable[..., bool] = _TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    return check


def plain_tensors_of(sizes: Sequence[Sequence[int | None]], tensors: Sequence[Tensor]) -> Callable[..., bool]:
    """Make a `plain_tensors` for tensors of which some sizes may be any; strides are not looked at.

    Args:
        sizes: those of each tensor, None for one that may be any.
    """
    any_strides = [[None] * len(known) for known in sizes]
    check: Callable[..., bool] = _TensorGuards(
        *tensors, dynamic_dims_sizes=[list(known) for known in sizes], dynamic_dims_strides=any_strides
    ).check
    return check
