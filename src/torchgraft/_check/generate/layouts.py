"""Layouts in memory: the same values, with other strides."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Layout = Callable[[Tensor], Tensor]


def contiguous(values: Tensor) -> Tensor:
    """One element after the other."""
    return values


def transposed(values: Tensor) -> Tensor:
    """The first axis is the fastest."""
    axes = tuple(reversed(range(values.dim())))
    return values.permute(axes).contiguous().permute(axes)


def channels_last(values: Tensor) -> Tensor:
    """The second axis is the fastest."""
    return values.movedim(1, -1).contiguous().movedim(-1, 1)


def strided(values: Tensor) -> Tensor:
    """Every second element of a larger tensor."""
    larger = values.new_zeros((*values.shape[:-1], 2 * values.shape[-1]))[..., ::2]
    return larger.copy_(values)


def offset(values: Tensor) -> Tensor:
    """Not at the beginning of its memory."""
    return values.new_zeros(values.numel() + 3)[3:].view(values.shape).copy_(values)


def expanded(values: Tensor) -> Tensor:
    """The first element of one axis, repeated without memory of its own."""
    axis = next(i for i, size in enumerate(values.shape) if size > 1)
    return values.narrow(axis, 0, 1).expand(values.shape)


def conjugated(values: Tensor) -> Tensor:
    """A complex tensor whose conjugation is not carried out yet."""
    return values.conj_physical().conj()


def layouts(values: Tensor) -> dict[str, Layout]:
    """The layouts that a tensor can have, contiguous first."""
    found: dict[str, Layout] = {"contiguous": contiguous}
    if values.dim() >= 1:
        found |= {"strided": strided, "offset": offset}
    if any(size > 1 for size in values.shape):
        found["expanded"] = expanded
    if values.dim() >= 2:
        found["transposed"] = transposed
    if values.dim() >= 3:
        found["channels last"] = channels_last
    if values.is_complex():
        found["conjugated"] = conjugated
    return found
