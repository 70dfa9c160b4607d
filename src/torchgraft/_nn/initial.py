"""Initial values: drawn by the fan-in, as those of `nn.Linear`."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from .._spec.axes import Axes, Axis


def fan_in(axes: Axes, shape: Sequence[int], outputs: Iterable[Axes | None]) -> int | None:
    """Count the elements of a parameter that enter one element of an output; None if no axis is summed over.

    An axis of an output stands for one axis of the parameter: of ``"n n"``, one is summed over where the output is
    ``"n"``.
    """
    kept: Counter[str | None] = Counter()
    for output in outputs:
        if output is not None:
            kept |= Counter(_key(token) for token in output.tokens if not token.variadic)
    summed: list[int] = []
    for token, size in zip(axes.tokens, shape, strict=True):
        if kept[_key(token)]:
            kept[_key(token)] -= 1
        else:
            summed.append(size)
    return math.prod(summed) if summed else None


def _key(token: Axis) -> str | None:
    """The key of an axis: its name or its expression."""
    return token.name if token.expression is None else ast.unparse(token.expression)


def draw(tensors: Mapping[str, Tensor], fans: Mapping[str, int | None]) -> None:
    """Fill tensors from U(-b, b), b = 1 / sqrt(fan-in); where there is no fan-in, with the largest of all.

    Complex numbers have both parts from U(-b / sqrt(2), b / sqrt(2)), and so the variance of real ones.
    """
    largest = max((fan for fan in fans.values() if fan is not None), default=1)
    for name, tensor in tensors.items():
        fan = largest if fans[name] is None else fans[name]
        bound = 1 / math.sqrt(fan) if fan else 0.0
        if tensor.is_complex():
            tensor, bound = torch.view_as_real(tensor), bound / math.sqrt(2)
        tensor.uniform_(-bound, bound)
