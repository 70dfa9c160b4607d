"""`Workspace`: memory for a kernel in C; and the result of a function whose body is in C."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from ..errors import DeclarationError
from .axes import Axes
from .dtypes import Dtypes, name_of


class Workspace:
    """Memory that a kernel in C or C++ may use for one sample: the annotation of a parameter that nobody passes.

    ``Float[tg.Workspace, "n"]`` is memory of the operator's own dtype, ``T`` in C, and ``Int64[tg.Workspace, "n"]`` of
    int64. The shape is written in the names of the operator's axes, and in expressions of them: ``"h w"``, ``"2*n+1"``.
    The function gets a pointer at the parameter's place; first parameters are what type checkers leave out. What the
    memory holds at first is undefined; each thread has its own.

    Example:
        >>> @tg.op(kernel=tg.c("median.c"))
        ... def median(sorted: Float[tg.Workspace, "n"], x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
        ...     return tg.native
        >>> median(torch.randn(8, 101)).shape
        torch.Size([8])
    """


class Native:
    """The type of `native` where a program runs."""


if TYPE_CHECKING:
    native: NoReturn
else:
    native = Native()
    native.__doc__ = "The result of a stub, whose body is a function in C: to type checkers it is of any type."


@dataclass(frozen=True)
class Memory:
    """A workspace as an annotation says it.

    Attributes:
        text: the axes, as they are written.
        dtype: of its elements; None for the operator's own, ``T``.
    """

    text: str
    dtype: torch.dtype | None

    def axes(self, operator: str, name: str) -> Axes:
        """Read the axes of the memory."""
        axes = Axes(self.text, operator, name)
        for token in axes.tokens:
            if token.variadic or token.anonymous:
                raise DeclarationError(
                    "the size of a workspace is not known", operator=operator, argument=name,
                    expected="named axes and expressions of them", got=self.text,
                )  # fmt: skip
        return axes

    def __str__(self) -> str:
        kind = "Float" if self.dtype is None else name_of(self.dtype).capitalize()
        return f'{kind}[tg.Workspace, "{self.text}"]'

    def __call__(self) -> None:  # As annotations, typing accepts only callables.
        raise TypeError("tg.workspace(...) is an annotation")


Workspaces = tuple[tuple[int, str, Memory], ...]
"""The place, the name and the memory of each workspace among the parameters of a function."""


def read_workspaces(names: Iterable[str], hints: Mapping[str, Any], operator: str) -> Workspaces:
    """Find the parameters that are workspaces.

    Raises:
        DeclarationError: the dtype of one is not known.
    """
    found = ((i, name, _read(hints.get(name), operator, name)) for i, name in enumerate(names))
    return tuple((i, name, memory) for i, name, memory in found if memory is not None)


def _read(annotation: Any, operator: str, name: str) -> Memory | None:
    if isinstance(annotation, Memory):
        return annotation
    if getattr(annotation, "array_type", None) is not Workspace:
        return None
    dtypes = Dtypes.read(annotation)
    if dtypes.exact is None and dtypes.kind != "Float":
        raise DeclarationError(
            "the dtype of a workspace is not known", operator=operator, argument=name,
            expected="Float, which is the operator's own dtype, or one dtype such as Int64", got=dtypes.kind,
        )  # fmt: skip
    return Memory(annotation.dim_str, dtypes.exact)


def workspace(axes: str, dtype: torch.dtype | None = None) -> Any:
    """Make the annotation of a workspace: an older form of `Workspace`, which type checkers refuse.

    Args:
        axes: its shape, in the names of the operator's axes.
        dtype: of its elements; by default that of the operator, ``T``.

    Warns:
        DeprecationWarning: it goes with version 0.2.

    Example:
        >>> def median(x: Float[Tensor, "n"], sorted: tg.workspace("n")) -> Float[Tensor, ""]: ...
    """
    made = Memory(axes, dtype)
    warnings.warn(f"tg.workspace goes with torchgraft 0.2: write {made}", DeprecationWarning, stacklevel=2)
    return made
