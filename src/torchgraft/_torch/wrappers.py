"""Tensors with and without what a level of `torch.func` wraps around them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import _C, Tensor
from torch._functorch import autograd_function as _functorch_function
from torch._functorch import pyfunctorch as _pyfunctorch

without_levels: Callable[[], contextlib.AbstractContextManager[Any]] = _pyfunctorch.temporarily_clear_interpreter_stack
"""Within, no transform level is open."""


def unwrap_dead(value: Any) -> Any:
    """A tensor without the wrappers of transforms that have ended, which the dispatcher alone would see through."""
    return _C._functorch.unwrap_if_dead(value) if isinstance(value, Tensor) else value


def without_level(value: Any, level: int) -> Any:
    """A tensor as the levels below a differentiating one see it."""
    return _C._functorch._unwrap_for_grad(value, level) if isinstance(value, Tensor) else value


def with_level(value: Any, level: int) -> Any:
    """The inverse of `without_level`."""
    return _C._functorch._wrap_for_grad(value, level) if isinstance(value, Tensor) else value


def with_identity(outputs: Any, inner: Any, outer: Any, wrap: Callable[..., Any], *out_dims: Any) -> tuple[Any, ...]:
    """`outputs` wrapped for a level; one that is among the `inner` operands becomes the `outer` operand itself."""
    wrapped: tuple[Any, ...] = _functorch_function.wrap_outputs_maintaining_identity(
        outputs, inner, outer, wrap, *out_dims
    )
    return wrapped


def wrapped_in(tensor: Tensor) -> Iterator[Tensor]:
    """The tensors that transform levels have wrapped, from the outside in."""
    while _C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _C._functorch.get_unwrapped(tensor)
        yield tensor


def below_levels(tensor: Tensor) -> Tensor | None:
    """The data below all differentiating levels, without a derivative; None where a mapped axis is among the levels."""
    layers = [tensor, *wrapped_in(tensor)]
    return None if any(map(_C._functorch.is_batchedtensor, layers)) else layers[-1].detach()


def below_differentiation(tensor: Tensor) -> Tensor:
    """The tensor below the differentiating levels that are outside of any mapped axis."""
    functorch = _C._functorch
    while functorch.is_gradtrackingtensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def unwrap_batched(operands: tuple[Any, ...], level: int) -> tuple[tuple[Any, ...], tuple[int | None, ...]]:
    """The operands without a level's mapped axes, and where these are; what is no tensor has none."""
    pairs = [_C._functorch._unwrap_batched(o, level) if isinstance(o, Tensor) else (o, None) for o in operands]
    return tuple(inner for inner, _ in pairs), tuple(dim for _, dim in pairs)


def add_batch(tensor: Tensor, dim: int | None, level: int) -> Tensor:
    """A tensor whose axis `dim` a level maps over."""
    return tensor if dim is None else _C._functorch._add_batch_dim(tensor, dim, level)


is_wrapped: Callable[[Tensor], bool] = _C._functorch.is_functorch_wrapped_tensor
"""Whether a transform has wrapped a tensor."""


def plain_sample(tensor: Tensor) -> Tensor:
    """The data below all transform levels; of a mapped axis, the first sample."""
    functorch = _C._functorch
    axes: list[int] = []
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            axes.append(functorch.maybe_get_bdim(tensor))
        tensor = functorch.get_unwrapped(tensor)
    for axis in reversed(axes):  # An axis is counted in what it wraps. Wrapped tensors compute nothing here.
        if tensor.shape[axis] > 0:
            tensor = tensor.select(axis, 0)
        else:  # There is no sample: take zeros of its shape.
            tensor = tensor.new_zeros([size for i, size in enumerate(tensor.shape) if i != axis])
    return tensor.detach()


def plain_samples(value: Any) -> Any:
    """`plain_sample` of a tensor or of each in a list; anything else as it is."""
    if isinstance(value, list):
        return [plain_samples(item) for item in value]
    return plain_sample(value) if isinstance(value, Tensor) else value
