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
from .observe import look_at


def equal_elements(case: Case) -> str | None:
    """What is wrong with the gradient added over equal elements, in words; None if nothing is."""
    try:
        look = look_at(_shared(case))
    except Exception:  # the target refuses it, or nothing can be told there
        return None
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


def _shared(case: Case) -> Case:
    """The case as a function of the different values in each primal."""
    parts = [primal.contiguous().unique(return_inverse=True) for primal in case.primals if not primal.is_complex()]
    if len(parts) != len(case.primals):
        raise ValueError("complex numbers have no order")

    def function(*values: Tensor) -> Any:
        primals = [value[inverse] for value, (_, inverse) in zip(values, parts, strict=True)]
        args, kwargs = case.arguments(primals)
        return case.target.function(*args, **kwargs)

    target = Target(case.target.name, "callable", function, function, tuple(case.names))
    return Case(target, _values(parts), seed=case.seed)


def _values(parts: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
    return [torch.clone(values) for values, _ in parts]
