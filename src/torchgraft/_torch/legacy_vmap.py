"""The `vmap` older than functorch's, by which ``autograd.grad(is_grads_batched=True)`` maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import _C, Tensor

from .tracing import vmap_escapes_tracer

Samples = Callable[..., tuple[Tensor, ...]]

is_legacy_batched: Callable[[Tensor], bool] = _C._functorch.is_legacy_batchedtensor
"""Whether ``autograd.grad(is_grads_batched=True)`` made the tensor: it maps by an older `vmap` than functorch's."""


LEVELS = 64
"""Of the older `vmap`, by which one tensor is mapped at most."""


def legacy_unwrap(tensors: Iterable[Tensor]) -> tuple[int, list[Tensor], list[int | None]]:
    """The level of the older `vmap` at hand, the tensors without it, and where their mapped axes are."""
    found = [(tensor, is_legacy_batched(tensor)) for tensor in tensors]
    level = _level_of(next(tensor for tensor, mapped in found if mapped))
    plain = [torch._remove_batch_dim(tensor, level, 1, 0) if mapped else tensor for tensor, mapped in found]
    return level, plain, [0 if mapped else None for _, mapped in found]


def _level_of(tensor: Tensor) -> int:
    """The level that this thread is at. Autograd calls backwards of other devices on threads that know of none."""
    level = _C._vmapmode_increment_nesting() - 1
    _C._vmapmode_decrement_nesting()
    if level:
        return level
    for i in range(1, LEVELS):
        if not is_legacy_batched(torch._remove_batch_dim(tensor, i, 1, 0)):
            return i
    raise NotImplementedError(
        "torchgraft: one autograd.grad(is_grads_batched=True) within another, on a device whose backward has a thread "
        "of its own, which does not know the order of the two. Map by torch.vmap and torch.func.vjp."
    )


def legacy_wrap(tensor: Tensor, level: int) -> Tensor:
    """The inverse of `legacy_unwrap` for a result whose mapped axis is the first.

    Contiguous, as the primal is: a tangent of another layout is copied by `as_strided`, which the older `vmap` lacks.
    """
    return torch._add_batch_dim(tensor.contiguous(), 0, level)


def map_legacy(
    function: Callable[..., Sequence[Tensor | None]], tensors: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """`function` under `torch.vmap` in the place of the older `vmap` at hand, which has rules for few operators."""
    present = [tensor is not None for tensor in tensors]
    level, plain, dims = legacy_unwrap(tensor for tensor in tensors if tensor is not None)
    filled: list[bool] = []

    def compact(*given: Tensor) -> tuple[Tensor, ...]:
        rest = iter(given)
        results = function(*(next(rest) if there else None for there in present))
        filled[:] = [result is not None for result in results]
        return tuple(result for result in results if result is not None)

    results = iter((_loop if vmap_escapes_tracer() else _map)(compact, plain, dims))
    return tuple(legacy_wrap(next(results), level) if there else None for there in filled)


def _map(function: Samples, tensors: Sequence[Tensor], dims: Sequence[int | None]) -> tuple[Tensor, ...]:
    return torch.vmap(function, in_dims=tuple(dims))(*tensors)


def _loop(function: Samples, tensors: Sequence[Tensor], dims: Sequence[int | None]) -> tuple[Tensor, ...]:
    samples = zip(*(t.unbind() for t, dim in zip(tensors, dims, strict=True) if dim is not None), strict=True)
    rows = []
    for sample in samples:
        rest = iter(sample)
        rows.append(function(*(t if dim is None else next(rest) for t, dim in zip(tensors, dims, strict=True))))
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))
