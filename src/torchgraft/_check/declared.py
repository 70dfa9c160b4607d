"""Declarations that qualify a verdict: made on purpose, taken into account by the checks, shown in every report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._rules.surrogate import function_name


@dataclass(frozen=True)
class Declared:
    """Declarations about a target.

    Attributes:
        accuracy: to which its values are right, relative to the largest element of each output; None is its dtype's.
        surrogates: by the names of arguments, functions whose derivative is meant in the place of the target's own.
        left_out: inputs and outputs without a derivative, of which there is nothing to prove.
    """

    accuracy: float | None = None
    surrogates: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The relative error that the accuracy admits; 0 where none is declared."""
        return self.accuracy or 0.0

    @property
    def words(self) -> tuple[str, ...]:
        """The declarations as the headline of a report shows them."""
        words = [] if self.accuracy is None else [f"to {self.accuracy:g}"]
        words += [f"{name}: surrogate of {function_name(of)}" for name, of in self.surrogates.items()]
        words += [f"left out: {', '.join(self.left_out)}"] if self.left_out else []
        return tuple(words)
