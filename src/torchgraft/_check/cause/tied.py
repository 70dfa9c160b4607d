"""Equal elements, where a function such as a maximum has no derivative: what they share has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..case import Case
from ..target import Target
from .constants import digits
from .look import Look
from .observe import look_at


def equal_elements(case: Case) -> str | None:
    """What is wrong with the gradient added over equal elements, in words; None if nothing is.

    Those of one tensor are looked at first, then those of several.
    """
    for shared in (_shared_in_each, _shared_by_all):
        try:
            words = _words(look_at(shared(case)))
        except Exception:  # the target refuses it, or nothing can be told there
            continue
        if words is not None:
            return words
    return None


def _words(look: Look) -> str | None:
    blocks = [block for block in look.blocks() if block.wrong.any()]
    if not blocks:
        return None
    block = max(blocks, key=lambda b: np.abs(np.where(b.wrong, b.analytic - b.numeric, 0)).max())
    gap = np.where(block.wrong, np.abs(block.analytic - block.numeric), 0)
    row, column = np.unravel_index(int(gap.argmax()), gap.shape)
    found, right = (complex(m[row, column]).real for m in (block.analytic, block.numeric))
    words = (
        f"where elements of {block.input.name} are equal (ties), their gradients add up to {digits(found)} times the "
        f"upstream gradient where {digits(right)} is right"
    )
    if right and abs(found / right - round(found / right)) < 1e-6 and round(found / right) > 1:
        words += ": each of them gets all of it, not a share"
    return words


def _shared_in_each(case: Case) -> Case:
    """The case as a function of the different values in each primal."""
    parts = [_ordered(primal).unique(return_inverse=True) for primal in case.primals]
    return _of_values(case, case.names, [values for values, _ in parts], [(i, at) for i, (_, at) in enumerate(parts)])


def _shared_by_all(case: Case) -> Case:
    """The case as a function of the different values in all primals together."""
    parts = [_ordered(primal) for primal in case.primals]
    values, where = torch.cat([part.reshape(-1) for part in parts]).unique(return_inverse=True)
    places = [at.view(part.shape) for at, part in zip(where.split([p.numel() for p in parts]), parts, strict=True)]
    return _of_values(case, (" and ".join(case.names),), [values], [(0, at) for at in places])


def _of_values(
    case: Case, names: Sequence[str], values: Sequence[Tensor], places: Sequence[tuple[int, Tensor]]
) -> Case:
    """The case as a function of vectors of values; each primal is made of one of them, by places in it."""

    def function(*vectors: Tensor) -> Any:
        made = [vectors[i][at].to(primal.dtype) for (i, at), primal in zip(places, case.primals, strict=True)]
        args, kwargs = case.arguments(made)
        return case.target.function(*args, **kwargs)

    target = Target(case.target.name, "callable", function, function, tuple(names))
    return Case(target, [vector.clone() for vector in values], seed=case.seed)


def _ordered(primal: Tensor) -> Tensor:
    if primal.is_complex():
        raise ValueError("complex numbers have no order")
    return primal.contiguous()
