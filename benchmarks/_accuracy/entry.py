"""What is to be known of a function to measure it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .draw import Draw
from .exact import Inverse

Region = Callable[[Draw], tuple[Any, ...]]
Point = tuple[float, ...]


@dataclass(frozen=True)
class Entry:
    """A function of `torchgraft.scipy.special`.

    Attributes:
        name: of the function, there and in `scipy.special`.
        arguments: in order, separated by spaces.
        exact: the function in mpmath, right to the precision at hand or nearly so; a tuple of several results.
        regions: each draws points, an array an argument.
        hard: points that are always among them.
        limits: points of a boundary, where mpmath has no two sides: with the value, and the derivatives.
        parameters: those arguments that have the bar of parameters.
        fixed: those without a derivative.
        outputs: names of several results.
        keywords: passed along, such as the branch of a function.
        variant: what tells it from other entries of the same name.
    """

    name: str
    arguments: str
    exact: Callable[..., Any] | Inverse
    regions: tuple[Region, ...]
    hard: tuple[Point, ...] = ()
    limits: Mapping[Point, Point] = field(default_factory=dict)
    parameters: str = ""
    fixed: str = ""
    outputs: str = ""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""

    @property
    def label(self) -> str:
        """The name, with what tells it from others."""
        return f"{self.name} ({self.variant})" if self.variant else self.name

    @property
    def formula(self) -> str:
        """What entries that share points and references have in common: the name of the function in mpmath."""
        return (self.exact.solve if isinstance(self.exact, Inverse) else self.exact).__name__

    @property
    def varied(self) -> list[int]:
        """Positions of the arguments that have a derivative."""
        return [i for i, argument in enumerate(self.arguments.split()) if argument not in self.fixed.split()]

    @property
    def width(self) -> int:
        """How many results there are."""
        return max(1, len(self.outputs.split()))

    def quantities(self) -> list[tuple[str, str, int, int]]:
        """What is measured in float64: its name, kind, result, and position among `varied` (-1 for the value)."""
        found = []
        for result, output in enumerate(self.outputs.split() or [""]):
            found.append((output or "value", "value", result, -1))
            for position, i in enumerate(self.varied):
                argument = self.arguments.split()[i]
                kind = "parameter" if argument in self.parameters.split() else "argument"
                found.append((f"d{output}/d{argument}" if output else f"d/d{argument}", kind, result, position))
        return found
