"""A function of one sample, applied over leading batch axes."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._spec.axes import Shape
from .._spec.dtypes import is_inexact
from .arrays import Array, holds

Samples = Callable[[list[Tensor]], Sequence[Tensor]]


def vectorise(
    function: Samples, leaves: Sequence[Tensor], leads: Sequence[int], batch: Shape, *, may_loop: bool = True
) -> list[Tensor]:
    """`function` over the batch axes of torch tensors: by `torch.vmap` where the body allows it, else by a loop.

    Args:
        function: takes the core tensors, returns the core results.
        leads: number of leading axes of each leaf; they broadcast to `batch`.
        batch: the batch shape.
        may_loop: what `torch.vmap` cannot map is looped over; else it raises.

    Returns:
        The results, each with the batch axes in front.
    """
    count = math.prod(batch)
    if count == 0:  # There is no sample to ask: a blank one tells the shapes.
        blank = function([leaf.new_zeros(leaf.shape[lead:]) for leaf, lead in zip(leaves, leads, strict=True)])
        return [_nothing(result, leaves, (*batch, *result.shape)) for result in blank]
    flat: list[Tensor] = []
    dims: list[int | None] = []
    for leaf, lead in zip(leaves, leads, strict=True):
        core = leaf.shape[lead:]
        mapped = any(size != 1 for size in leaf.shape[:lead])
        flat.append(leaf.expand(*batch, *core).reshape(count, *core) if mapped else leaf.reshape(core))
        dims.append(0 if mapped else None)
    if all(dim is None for dim in dims):
        results = [_stack([result] * count) for result in function(flat)]
    else:
        results = _map(function, flat, dims, count, may_loop=may_loop)
    return [r.reshape(*batch, *r.shape[1:]) if isinstance(r, Tensor) and r.dim() else r for r in results]


def _nothing(like: Tensor, leaves: Sequence[Tensor], shape: Shape) -> Tensor:
    """No elements, with derivatives in the leaves: what has none would be taken for detached."""
    # Where vmap maps no samples, torch can neither infer a size (-1) nor join tensors.
    empty = [leaf.reshape(leaf.numel())[:0] for leaf in leaves if is_inexact(leaf.dtype)]
    if not empty or not is_inexact(like.dtype):
        return like.new_zeros(shape)
    joined = functools.reduce(torch.add, empty)
    return (joined.real if joined.is_complex() and not like.is_complex() else joined).to(like.dtype).reshape(shape)


def _stack(samples: Sequence[Any]) -> Any:
    """The samples' results as one; the first that does not go with the others as it is, to be refused by the caller."""
    first = samples[0]
    for sample in samples:
        if not isinstance(sample, Tensor) or sample.shape != first.shape or sample.dtype is not first.dtype:
            return sample
    if all(sample is first for sample in samples):
        return first.unsqueeze(0).expand(len(samples), *first.shape)
    return torch.stack(list(samples))


def _map(function: Samples, flat: list[Tensor], dims: list[int | None], count: int, *, may_loop: bool) -> list[Tensor]:
    if not _torch.inside_level() and not _torch.vmap_escapes_tracer():
        try:
            mapped = torch.vmap(lambda *cores: tuple(function(list(cores))), in_dims=tuple(dims))(*flat)
            return list(mapped)
        except Exception:  # A loop does what vmap cannot, or raises in its own words.
            if not may_loop:
                raise
    rows = [
        function([leaf if dim is None else leaf[i] for leaf, dim in zip(flat, dims, strict=True)]) for i in range(count)
    ]
    return [_stack(column) for column in zip(*rows, strict=True)]


def loop_arrays(
    function: Callable[..., Any],
    values: Sequence[Any],
    leads: Sequence[int | None],
    batch: tuple[int, ...],
    outputs: Sequence[tuple[str, tuple[int, ...], np.dtype[Any]]],
    refuse: Callable[[str, Any, object], Exception],
) -> list[Array]:
    """`function` over the batch axes of arrays, into output memory that is allocated once.

    Args:
        function: takes one argument for each of `values`; returns the output, or a sequence of several.
        values: arrays, and what is not looped over.
        leads: number of leading axes of each value; None for what is not an array.
        outputs: name, core shape and dtype of each output.
        refuse: makes the error for an output that has another shape or dtype.
    """
    count = math.prod(batch)
    results = [np.empty((count, *core), dtype) for _, core, dtype in outputs]
    samples = zip(*(_samples(value, lead or 0, batch) for value, lead in zip(values, leads, strict=True)), strict=True)
    if len(outputs) == 1:
        (name, core, dtype), result, array = outputs[0], results[0], np.ndarray
        for i, sample in enumerate(samples):
            made = function(*sample)
            if type(made) is not array or made.shape != core or (made.dtype is not dtype and made.dtype != dtype):
                _check_sample(made, name, core, dtype, refuse)
            result[i] = made
    else:
        for i, sample in enumerate(samples):
            for result, made, (name, core, dtype) in zip(results, function(*sample), outputs, strict=True):
                _check_sample(made, name, core, dtype, refuse)
                result[i] = made
    return [result.reshape(batch + core) for result, (_, core, _) in zip(results, outputs, strict=True)]


def _samples(value: Any, lead: int, batch: tuple[int, ...]) -> Iterable[Any]:
    """The value of each sample in turn."""
    count = math.prod(batch)
    if lead == 0 or all(size == 1 for size in value.shape[:lead]):
        return itertools.repeat(value.reshape(value.shape[lead:]) if lead else value, count)
    core = value.shape[lead:]
    if value.shape[:lead] == batch:
        flat = value.reshape(count, *core)
        return flat if core else (flat[i, ...] for i in range(count))  # Without axes, an index would give a number.
    broadcast = np.broadcast_to(value, batch + core)  # A reshape would copy it.
    return (broadcast[(*index, ...)] for index in np.ndindex(*batch))


def _check_sample(
    made: Any,
    name: str,
    core: tuple[int, ...],
    dtype: np.dtype[Any],
    refuse: Callable[[str, Any, object], Exception],
) -> None:
    """Nothing may be broadcast or cast on its way into the output; a Python number has no dtype of its own."""
    if isinstance(made, (np.ndarray, np.generic)):
        fits = made.shape == core and made.dtype == dtype and not isinstance(made, np.ma.MaskedArray)
    else:
        fits = core == () and holds(dtype.kind, made)
    if not fits:
        raise refuse(name, made, (core, dtype))
