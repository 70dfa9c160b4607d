"""`workspace`: memory for a kernel in C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .._errors import DeclarationError
from .axes import Axes


@dataclass(frozen=True)
class Workspace:
    """What `workspace` gives: an annotation.

    Attributes:
        text: the axes, as they are written.
        dtype: of its elements; None for the operator's own, ``T``.
    """

    text: str
    dtype: torch.dtype | None

    def axes(self, operator: str, name: str) -> Axes:
        """The axes, read."""
        axes = Axes(self.text, operator, name)
        for token in axes.tokens:
            if token.variadic or token.anonymous:
                raise DeclarationError(
                    "the size of a workspace is not known", operator=operator, argument=name,
                    expected="named axes and expressions of them", got=self.text,
                )  # fmt: skip
        return axes

    def __str__(self) -> str:
        return f'tg.workspace("{self.text}")'

    def __call__(self) -> None:  # typing accepts only callables as annotations
        raise TypeError("tg.workspace(...) is an annotation")


def workspace(axes: str, dtype: torch.dtype | None = None) -> Any:
    """Memory that a kernel in C or C++ may use for one sample: the annotation of a parameter that nobody passes.

    The function gets a pointer at the parameter's place. What the memory holds at first is undefined; each thread has
    its own.

    Args:
        axes: its shape, in the names of the operator's axes: ``"h w"``, ``"2*n+1"``.
        dtype: of its elements; by default that of the operator, ``T``.

    Example:
        >>> @tg.op(kernel=tg.c("median.c"))
        ... def median(x: Float[Tensor, "*batch n"], sorted: tg.workspace("n")) -> Float[Tensor, "*batch"]: ...
        >>> median(torch.randn(8, 101)).shape
        torch.Size([8])
    """
    return Workspace(axes, dtype)
