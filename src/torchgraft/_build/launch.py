"""The launch of a kernel for CUDA that is written by hand: grid, block and shared memory."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from ..errors import DeclarationError, KernelError

Extent = int | Sequence[int] | Callable[..., "int | Sequence[int]"]
"""A number, up to three, or a function of sizes that returns them."""

EXTENTS = 7
"""Three numbers of a grid, three of a block, and bytes of shared memory."""

THREADS = 1024
"""Threads that a block has at most, on every device."""

BLOCKS = (2**31 - 1, 65535, 65535)
"""Blocks that a grid has at most, along each axis."""


@dataclass(frozen=True)
class Launch:
    """Blocks, threads of a block, and bytes of shared memory.

    Raises:
        DeclarationError: what is given is no number, and no function.
    """

    grid: Extent
    block: Extent
    shared: Extent

    def __post_init__(self) -> None:
        for name, extent in self._extents():
            if not callable(extent):
                _check(name, extent, DeclarationError)

    def _extents(self) -> list[tuple[str, Extent]]:
        return [("grid", self.grid), ("block", self.block), ("shared", self.shared)]

    @cached_property
    def _asked(self) -> dict[str, tuple[str, ...]]:
        """The sizes that each extent is computed from: asked once, and not in each call."""
        functions = {name: extent for name, extent in self._extents() if callable(extent)}
        return {name: tuple(inspect.signature(function).parameters) for name, function in functions.items()}

    @property
    def threads(self) -> int:
        """The threads of a block, or the most that there can be."""
        return THREADS if callable(self.block) else math.prod(_three(self.block))

    def check_names(self, sizes: Sequence[str], operator: str) -> None:
        """Raise a `DeclarationError` if a function asks for a size that there is not."""
        for name, every in self._asked.items():
            unknown = [asked for asked in every if asked not in sizes]
            if unknown:
                raise DeclarationError(
                    f"asks for '{unknown[0]}', which is no axis", operator=operator, argument=name,
                    expected=f"parameters of {', '.join(sizes)}", got=unknown[0],
                )  # fmt: skip

    def sizes(self, sizes: Mapping[str, int], operator: str) -> list[int]:
        """Three numbers for the grid, three for the block, and the bytes of shared memory.

        Args:
            sizes: of the axes, by name.

        Raises:
            KernelError: a function returned what is no number, or none that CUDA knows.
        """
        found: list[int] = []
        for name, extent in self._extents():
            if callable(extent):
                extent = extent(**{asked: sizes[asked] for asked in self._asked[name]})
                _check(name, extent, partial(KernelError, operator=operator))
            found += [int(extent)] if name == "shared" else _three(extent)  # type: ignore[arg-type]
        return found


def _three(extent: int | Sequence[int]) -> list[int]:
    several = [extent] if isinstance(extent, int) else list(extent)
    return [*several, *(1,) * (3 - len(several))]


def _check(name: str, extent: Any, error: Callable[..., Exception]) -> None:
    several: list[Any] = list(extent) if isinstance(extent, (list, tuple)) else [extent]
    whole = all(isinstance(number, int) and not isinstance(number, bool) for number in several)
    if name == "shared":
        fits, expected = whole and several == [extent] and extent >= 0, "bytes"
    elif name == "block":
        fits = whole and 1 <= len(several) <= 3 and min(several) > 0 and math.prod(several) <= THREADS
        expected = f"one to three positive numbers, whose product is {THREADS} at most"
    else:
        limits = zip(several, BLOCKS, strict=False)
        fits = whole and 1 <= len(several) <= 3 and all(0 < number <= most for number, most in limits)
        expected = f"one to three positive numbers, {', '.join(map(str, BLOCKS))} at most"
    if not fits:
        raise error("is no size that CUDA knows", argument=name, expected=expected, got=repr(extent))
