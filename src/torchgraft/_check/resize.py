"""Cases of other sizes: an axis shortened or lengthened in every argument that has one of its size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .case import Case


def sizes(case: Case) -> list[int]:
    """The sizes of the axes of all tensors, each once, the largest first."""
    return sorted({size for leaf in case.leaves for size in shape_of(leaf)}, reverse=True)


def owner(case: Case, size: int) -> tuple[str, int] | None:
    """The first argument that has an axis of this size, and which."""
    for name, leaf in zip(case.leaf_names, case.leaves, strict=True):
        if size in shape_of(leaf):
            return name, shape_of(leaf).index(size)
    return None


def resized(case: Case, old: int, new: int, *, last: bool = False, numbers: bool = False, scale: bool = False) -> Case:
    """All axes of size `old` have size `new` instead: cut, or lengthened by what is there already.

    Args:
        last: keep the last elements, not the first.
        numbers: whole numbers that are `old` become `new` as well, such as a number of groups or a normalized shape.
        scale: sizes that are multiples of `old` remain so, as the gates of a recurrent layer.
    """

    def size_of(size: int) -> int:
        if size == old or (scale and old > 1 and size % old == 0):
            return size // old * new if old else new
        return size

    def change(leaf: Any) -> Any:
        if numbers and type(leaf) is int and leaf == old:
            return new
        for axis, size in enumerate(shape_of(leaf)):
            leaf = _cut(leaf, axis, size_of(size), last)
        if isinstance(leaf, Tensor) and _counts(leaf) and leaf.numel() and old > new > 0:
            leaf = torch.where(leaf.ge(new) & leaf.lt(old), leaf % new, leaf)  # indices into what was cut
        return leaf

    return case.with_leaves([change(leaf) for leaf in case.leaves])


def resized_axis(case: Case, leaf: int, axis: int, new: int) -> Case:
    """One axis of one argument is cut."""
    leaves = case.leaves
    leaves[leaf] = _cut(leaves[leaf], axis, new, last=False)
    return case.with_leaves(leaves)


def squeezed(case: Case) -> Case:
    """Without the first axis of all tensors where that has size 1 and others follow; ValueError if none has."""
    leaves = [leaf[0] if len(shape_of(leaf)) > 1 and shape_of(leaf)[0] == 1 else leaf for leaf in case.leaves]
    if all(a is b for a, b in zip(leaves, case.leaves, strict=True)):
        raise ValueError("no tensor has a first axis of size 1")
    return case.with_leaves(leaves)


def shape_of(leaf: Any) -> tuple[int, ...]:
    """The shape of a dense tensor; of anything else none."""
    return tuple(leaf.shape) if isinstance(leaf, Tensor) and leaf.layout == torch.strided else ()


def _counts(leaf: Tensor) -> bool:
    return not (leaf.is_floating_point() or leaf.is_complex() or leaf.dtype == torch.bool)


def _cut(leaf: Tensor, axis: int, new: int, last: bool) -> Tensor:
    size = leaf.shape[axis]
    if new == size:
        return leaf
    if new < size:
        return leaf.narrow(axis, size - new if last else 0, new)
    return leaf.index_select(axis, torch.arange(new) % size) if size else leaf.new_zeros(_with(leaf.shape, axis, new))


def _with(shape: torch.Size, axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])
