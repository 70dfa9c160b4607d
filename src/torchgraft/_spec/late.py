"""Late sizes: axes of outputs that no input has, whose size is known only after the call.

The plan of a call is made before the kernel runs, so it holds no late size. It holds a `LateShapes`, which reads the
sizes from the shapes that came back, and says which shape each output must have by them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import DeclarationError, KernelError, ShapeError
from .axes import Axes, Axis, Binding, Shape, Size

PAD = "return outputs of the largest size they can have, and beside them the count of what is valid"
"""The next step where all calls must have outputs of one size."""


@dataclass(frozen=True)
class Late:
    """An axis whose size is known only after the call.

    Attributes:
        name: of the axis.
        bound: the expression that its size never exceeds; None where none was given.
    """

    name: str
    bound: Axes | None

    @property
    def axis(self) -> Axis | None:
        """The bound, as an axis of that size."""
        return None if self.bound is None else self.bound.tokens[0]

    @property
    def reads(self) -> set[str]:
        """The axes of inputs that the bound is written in."""
        axis = self.axis
        return set() if axis is None else axis.reads[0] if axis.name is None else {axis.name}

    def __str__(self) -> str:
        return self.name if self.bound is None else f"{self.name} <= {self.bound}"


_SPACES = re.compile(r"\s*(<=|//|[-+*%,])\s*|(?<=\()\s+|\s+(?=\))")
"""Spaces within a bound: those between two axes are left."""


def read_late(operator: str, text: str) -> tuple[Late, ...]:
    """Read ``data_dependent=``: names with spaces between them, each with a bound or without: ``"k <= n  m"``.

    Raises:
        DeclarationError: it is no such text.
    """

    def refuse(problem: str, got: object) -> DeclarationError:
        return DeclarationError(
            problem, operator=operator, argument="data_dependent", expected="names of axes with spaces between them",
            got=got, hint='write data_dependent="k", "k m" for two axes, or "k <= n" with a bound for a kernel in C',
        )  # fmt: skip

    if not isinstance(text, str):
        raise refuse("is no string", repr(text))
    found: dict[str, Late] = {}
    for item in _SPACES.sub(r"\1", text).split():
        name, sign, bound = item.partition("<=")
        if not name.isidentifier() or name.startswith("_") or (sign and not bound) or "<" in bound or ">" in bound:
            raise refuse(f"'{item}' cannot be read", text)
        if name in found:
            raise refuse(f"names axis {name} twice", text)
        found[name] = Late(name, Axes(bound, operator, f"the bound of {name}") if sign else None)
    return tuple(found.values())


def late_of(axis: Axis, names: frozenset[str]) -> bool:
    """Return True if the size of an axis hangs on a late one."""
    return not axis.variadic and (axis.name in names or not names.isdisjoint(axis.reads[0]))


@dataclass(frozen=True)
class LateShapes:
    """The shapes of one call's outputs, as far as they are known before it.

    Attributes:
        operator: its name, for error texts.
        outputs: name and axes of each output.
        binding: the sizes that the inputs give.
        bounds: the most that a late size may be, where a bound was given.
        names: of the late axes.
    """

    operator: str
    outputs: tuple[tuple[str, Axes], ...]
    binding: Binding
    bounds: Mapping[str, Size]
    names: frozenset[str]

    def known(self) -> list[list[Size | None]]:
        """The shape of each output, with None for the sizes that are not known before the call."""
        return [
            [
                size
                for axis in axes.tokens
                for size in ((None,) if late_of(axis, self.names) else axes.sizes(axis, self.binding))
            ]
            for _, axes in self.outputs
        ]

    def places(self) -> dict[str, list[tuple[int, int]]]:
        """For each late name the output and the position of every axis that is it alone."""
        found: dict[str, list[tuple[int, int]]] = {}
        for number, (_, axes) in enumerate(self.outputs):
            position = 0
            for axis in axes.tokens:
                if axis.name in self.names:
                    found.setdefault(axis.name, []).append((number, position))
                position += len(axes.sizes(axis, self.binding)) if axis.variadic else 1
        return found

    def computed(self) -> bool:
        """Tell whether an output has a size that is computed from a late one."""
        axes = [axis for _, axes in self.outputs for axis in axes.tokens]
        return any(axis.expression is not None and late_of(axis, self.names) for axis in axes)

    def read(self, shapes: Sequence[Shape]) -> list[Shape]:
        """The shapes that the annotations give, by the late sizes in those that came back.

        Raises:
            KernelError: a late size is not the same in two outputs, or exceeds its bound.
        """
        for number, known in enumerate(self.known()):
            if len(shapes[number]) != len(known):
                raise self._refuse(
                    f"the kernel returned {len(shapes[number])} axes", number, f"{len(known)} axes", shapes[number]
                )
        sizes: dict[str, Size] = {}
        for name, places in self.places().items():
            first, position = places[0]
            sizes[name] = size = shapes[first][position]
            for number, axis in places[1:]:
                if shapes[number][axis] != size:
                    raise self._refuse(
                        f"axis {name} = {size} from {self.outputs[first][0]}, but {self.outputs[number][0]} has "
                        f"{shapes[number][axis]}",
                        number, f"{name} = {size}", shapes[number],
                        hint=f"every output with {name} must have the same size there; else give them two names",
                    )  # fmt: skip
            if name in self.bounds and size > self.bounds[name]:
                raise self._refuse(
                    f"axis {name} = {size} is more than its bound", first, f"{name} <= {self.bounds[name]}",
                    shapes[first], hint=f"data_dependent= says how large {name} may be: correct it, or the kernel",
                )  # fmt: skip
        return self.complete(sizes)

    def complete(self, sizes: Mapping[str, Size]) -> list[Shape]:
        """The shape of each output for given late sizes.

        Raises:
            KernelError: an axis that is computed from them would have a negative size.
        """
        try:
            return [axes.evaluate(self._with(sizes)) for _, axes in self.outputs]
        except ShapeError as error:
            raise KernelError(
                error.problem, operator=self.operator, argument=error.argument, expected=error.expected, got=error.got
            ) from None

    def make(self, new_size: Callable[[], Size], check: Callable[[Any], None]) -> list[Shape]:
        """The shapes with new symbols for the late sizes: one symbol for each name, in all outputs.

        Args:
            new_size: makes a symbol for a size of at least 0.
            check: takes a condition that will hold.
        """
        sizes = {name: new_size() for name in self.places()}
        for name, bound in self.bounds.items():
            check(sizes[name] <= bound)
        binding = self._with(sizes)
        for _, axes in self.outputs:
            for axis in axes.tokens:
                if axis.expression is not None and late_of(axis, self.names):
                    check(axes.computed(axis, binding) >= 0)
        return self.complete(sizes)

    def _with(self, sizes: Mapping[str, Size]) -> Binding:
        """The sizes that the inputs give, and late ones."""
        origins = {**self.binding.origins, **dict.fromkeys(sizes, "the kernel")}
        return replace(self.binding, sizes={**self.binding.sizes, **sizes}, origins=origins)

    def _refuse(
        self, problem: str, number: int, expected: str, shape: Shape, *, hint: str | None = None
    ) -> KernelError:
        name, axes = self.outputs[number]
        return KernelError(
            problem, operator=self.operator, argument=name, expected=f"{expected}, from '{axes}'",
            got=f"shape {tuple(shape)}", hint=hint,
        )  # fmt: skip
