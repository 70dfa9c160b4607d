"""A function of one sample, applied over leading batch axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._errors import KernelError
from .._spec.axes import Shape
from .arrays import Array

Samples = Callable[[list[Tensor]], Sequence[Tensor]]


def vectorise(function: Samples, leaves: Sequence[Tensor], leads: Sequence[int], batch: Shape) -> list[Tensor]:
    """`function` over the batch axes of torch tensors: by `torch.vmap` where the body allows it, else by a loop.

    Args:
        function: takes the core tensors, returns the core results.
        leads: number of leading axes of each leaf; they broadcast to `batch`.
        batch: the batch shape, with at least one sample.

    Returns:
        The results, each with the batch axes in front.
    """
    count = math.prod(batch)
    flat: list[Tensor] = []
    dims: list[int | None] = []
    for leaf, lead in zip(leaves, leads, strict=True):
        core = leaf.shape[lead:]
        mapped = any(size != 1 for size in leaf.shape[:lead])
        flat.append(leaf.expand(*batch, *core).reshape(count, *core) if mapped else leaf.reshape(core))
        dims.append(0 if mapped else None)
    if all(dim is None for dim in dims):
        results = [result.unsqueeze(0).expand(count, *result.shape) for result in function(flat)]
    else:
        results = _map(function, flat, dims, count)
    return [result.reshape(*batch, *result.shape[1:]) for result in results]


def _map(function: Samples, flat: list[Tensor], dims: list[int | None], count: int) -> list[Tensor]:
    if not _torch.inside_level():
        try:
            mapped = torch.vmap(lambda *cores: tuple(function(list(cores))), in_dims=tuple(dims))(*flat)
            return list(mapped)
        except Exception:  # noqa: BLE001 - whatever vmap cannot do, a loop does, or raises in its own words
            pass
    rows = [
        function([leaf if dim is None else leaf[i] for leaf, dim in zip(flat, dims, strict=True)])
        for i in range(count)
    ]
    return [torch.stack(list(column)) for column in zip(*rows, strict=True)]


def loop_arrays(
    function: Callable[..., Any],
    values: Sequence[Any],
    leads: Sequence[int | None],
    batch: tuple[int, ...],
    outputs: Sequence[tuple[str, tuple[int, ...], np.dtype[Any]]],
    refuse: Callable[[str, Any, object], KernelError],
) -> list[Array]:
    """`function` over the batch axes of arrays, into output memory that is allocated once.

    Args:
        function: takes one argument for each of `values`, returns a tuple of arrays.
        values: arrays, and what is not looped over.
        leads: number of leading axes of each value; None for what is not an array.
        outputs: name, core shape and dtype of each output.
        refuse: makes the error for an output that has another shape or dtype.
    """
    results = [np.empty(batch + core, dtype) for _, core, dtype in outputs]
    if len(batch) == 1:
        index: Any = range(batch[0])
    else:
        index = np.ndindex(*batch)
        values = [
            np.broadcast_to(value, batch + value.shape[lead:]) if lead else value
            for value, lead in zip(values, leads, strict=True)
        ]
    moving = [bool(lead) and value.shape[0] == batch[0] for value, lead in zip(values, leads, strict=True)]
    if len(batch) == 1:  # a leading axis of size 1 stands for every sample
        values = [
            value[0] if lead and not moves else value
            for value, lead, moves in zip(values, leads, moving, strict=True)
        ]
    else:
        moving = [bool(lead) for lead in leads]
    for i in index:
        sample = [value[i] if moves else value for value, moves in zip(values, moving, strict=True)]
        for result, made, (name, core, dtype) in zip(results, function(*sample), outputs, strict=True):
            if not isinstance(made, (np.ndarray, np.generic)) or made.shape != core or made.dtype != dtype:
                if not isinstance(made, (bool, int, float, complex)) or core != ():
                    raise refuse(name, made, (core, dtype))
            result[i] = made
    return results
