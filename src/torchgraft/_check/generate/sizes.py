"""Sizes of axes: different names get different sizes where they can, and computed sizes come out as annotated."""

from __future__ import annotations

import ast
import functools
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..._spec.axes import Axes, Axis
from ..._spec.domain import Domain, Range
from ..._spec.numbers import evaluate
from ..._spec.signature import Parameter, Signature

Shape = tuple[int, ...]

POOL = (2, 3, 5, 4, 7, 1, 0)
"""Sizes from plain to odd; that those in use differ shows swapped axes."""

ROOMY = (5, 4, 7, 3, 2, 1, 0)
"""Of axes that are bounds for others."""

_LONG = (19, 67)
"""Past the tail of a tile or a vector; 67 leaves a rest after 64."""


@dataclass
class Sizes:
    """The sizes in one call.

    Attributes:
        names: of named axes, and values of the int arguments that shapes read.
        runs: of ``*batch``, by name.
        dots: of ``...``.
        lead: leading axes of a ``batch="loop"`` operator.
        bare: of tensors without annotated axes.
    """

    names: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, Shape] = field(default_factory=dict)
    dots: Shape = ()
    lead: Shape = ()
    bare: Shape = ()

    @property
    def used(self) -> set[int]:
        """Sizes that some axis has."""
        found = {size for size in self.names.values() if type(size) is int}
        return found.union(*self.runs.values(), self.dots, self.lead)


class SizePlan:
    """The choices about the shapes of a signature's tensors.

    Args:
        signature: of the operator.
        domains: of its axes and arguments.
    """

    def __init__(self, signature: Signature, domains: Mapping[str, Domain]) -> None:
        self._signature = signature
        self._domains = domains
        given = [p.tensor.axes for _, p in signature.tensors if p.tensor.axes is not None]
        made = [output.type.axes for output in signature.outputs if output.type.axes is not None]
        tokens = [axis for axes in (*given, *made) for axis in axes.tokens]
        self._computed = [a.expression for a in tokens if a.expression is not None and _read(a.expression)]
        self._names = self._order(given, {name for axis in tokens for name in axis.reads[1]})
        self._runs = {a.name for axes in given for a in axes.tokens if a.variadic and a.name is not None}
        self._dotted = [axes for axes in given if any(a.variadic and a.name is None for a in axes.tokens)]
        self._bounding = {name for domain in domains.values() for name in domain.reads}
        self._bare = len(given) < len(signature.tensors)

    def _order(self, given: Sequence[Axes], arguments: set[str]) -> list[str]:
        """Axes, and int arguments that sizes or bounds read, in the order of choice.

        What is subtracted from others comes early, and so is smaller; what is bounded by others comes after them.
        """
        bounds = {name: domain.reads for name, domain in self._domains.items()}
        arguments = (arguments | set().union(*bounds.values())) & self._signature.names.keys()
        tokens = [axis for axes in given for axis in axes.tokens if not axis.variadic]
        axes = [axis.name for axis in tokens if axis.name is not None]
        smaller = {name for node in self._computed for name in _subtracted(node)}
        rest = list(dict.fromkeys([*(name for name in self._signature.names if name in arguments), *axes]))
        rest.sort(key=lambda name: name not in smaller)
        ordered: list[str] = []
        while rest:
            ordered.append(next(name for name in rest if not bounds.get(name, set()) & set(rest)))
            rest.remove(ordered[-1])
        return ordered

    # -- choosing -----------------------------------------------------------------------------------------------

    def draw(self, draw: Draw, *, long: bool = True) -> Sizes:
        """Sizes for one call.

        Args:
            long: whether an axis may be long.
        """
        sizes = Sizes()
        for name in self._names:
            sizes.names[name] = draw.choose(f"size {name}", self._options(name, sizes))
        axes = [n for n in self._names if n not in self._signature.names and n not in self._domains]
        length = draw.choose("a long axis", (None, *(_LONG if long else ()))) if axes else None
        if length is not None:
            sizes.names[draw.choose("which axis is long", axes)] = length
        if self._computed:
            least = draw.choose("computed sizes", (2, 1, 0))
            for node in 2 * self._computed:  # Twice: one may grow smaller as another grows.
                self._grow(node, sizes, least)
        for name in sorted(self._runs):
            sizes.runs[name] = _run(draw, f"*{name}", sizes.used, scalar_first=True)
        if self._dotted:
            elementwise = all(axes.rank is None and len(axes.tokens) == 1 for axes in self._dotted)
            sizes.dots = _run(draw, "...", sizes.used, scalar_first=not elementwise)
        if self._signature.loop:
            sizes.lead = _run(draw, "leading axes", sizes.used, scalar_first=True)
        if self._bare:
            sizes.bare = _run(draw, "shape", set(), scalar_first=None)
        return sizes

    def _options(self, name: str, sizes: Sizes) -> Sequence[int]:
        parameter, used = self._signature.names.get(name), sizes.used
        options = tuple(sorted(ROOMY if name in self._bounding else POOL, key=lambda size: size in used))
        if parameter is not None:  # A number that is no size may still refuse 0.
            options = tuple(size for size in options if size > 0)
        if name in self._domains:
            options = integers(self._domains[name].at(sizes.names), options)
        if parameter is None or parameter.required or parameter.default is None:
            return options
        return list(dict.fromkeys([parameter.default, *options]))

    def _grow(self, node: ast.expr, sizes: Sizes, least: int) -> None:
        """Let axes grow until a computed size is at least `least`; what cannot be reached stays as it is."""
        if _value(node, sizes.names) >= least:
            return
        free = [name for name in _read(node) if name in self._names and name not in self._domains]
        free.sort(key=lambda name: name in self._signature.names)  # Axes grow before arguments do.
        for more in range(1, 2 + least + 2 * max([0, *sizes.names.values()])):
            for name in free:
                grown = {**sizes.names, name: sizes.names[name] + more}
                if _value(node, grown) >= least:
                    sizes.names = grown
                    return

    def shape(self, parameter: Parameter, sizes: Sizes, draw: Draw) -> Shape:
        """The shape of one tensor."""
        axes, name = parameter.tensor.axes, parameter.name
        if axes is None:
            return sizes.bare
        inner = [size for axis in axes.tokens for size in self._axis(name, axis, sizes, draw)]
        return (*(_broadcasting(draw, f"leading axes of {name}", sizes.lead) if sizes.lead else ()), *inner)

    def _axis(self, name: str, axis: Axis, sizes: Sizes, draw: Draw) -> Sequence[int]:
        if axis.variadic:
            run = sizes.dots if axis.name is None else sizes.runs[axis.name]
            alone = axis.name is None and len(self._dotted) == 1
            return _broadcasting(draw, f"{axis.text} of {name}", run) if axis.broadcast and not alone else run
        if axis.name is not None:
            size = sizes.names[axis.name]
            return [draw.choose(f"{axis.text} of {name}", (size, 1)) if axis.broadcast else size]
        if axis.expression is not None:
            return [max(0, _value(axis.expression, sizes.names))]
        used = sizes.used
        return [draw.choose(f"{axis.text} of {name}", sorted(POOL, key=lambda size: size in used))]


def _value(node: ast.expr, names: Mapping[str, Any]) -> int:
    try:
        return int(evaluate(node, names))
    except ZeroDivisionError:  # The operator will say so.
        return 0


@functools.lru_cache(256)
def integers(allowed: Range, options: tuple[int, ...]) -> tuple[int, ...]:
    """Whole numbers that are allowed, in the order of `options`, with the ends of the range.

    Raises:
        Impossible: there are none.
    """
    if allowed.members:
        return allowed.members
    low = [math.floor(allowed.low) + i for i in range(3)] if math.isfinite(allowed.low) else []
    high = [math.ceil(allowed.high) - i for i in range(2)] if math.isfinite(allowed.high) else []
    found = tuple(value for value in dict.fromkeys([*options, *low, *high]) if allowed.has(value))
    if not found:
        raise Impossible
    return found


def _run(draw: Draw, what: str, used: set[int], *, scalar_first: bool | None) -> Shape:
    """Some axes: their sizes differ from those in use; beside a long axis there are few, or a call may take seconds.

    Args:
        scalar_first: that there are none is the plainest; None where there must be one.
    """
    first, second, third = ([size for size in POOL if size > 1 and size not in used] + [2, 3, 4])[:3]
    shapes: list[Shape] = [(first,), (first, second)]
    if scalar_first is not None:
        shapes.insert(0 if scalar_first else 2, ())
    shapes += [(1,), (0,), (first, second, third), (second, 1)]
    if used & {*_LONG}:
        shapes = [shape for shape in shapes if math.prod(shape) <= max(first, second)]
    return draw.choose(what, shapes)


def _broadcasting(draw: Draw, what: str, full: Shape) -> Shape:
    """A shape that broadcasts to `full`."""
    ones = [(*full[:i], 1, *full[i + 1 :]) for i, size in enumerate(full) if size != 1]
    return draw.choose(what, [full, *ones, *(full[i:] for i in range(1, len(full) + 1))])


def _read(node: ast.expr) -> list[str]:
    """The names in an expression, in their order."""
    return list(dict.fromkeys(n.id for n in ast.walk(node) if isinstance(n, ast.Name)))


def _subtracted(node: ast.expr, negative: bool = False) -> Iterator[str]:
    """The names that make an expression smaller."""
    match node:
        case ast.Name(id=name) | ast.Set(elts=[ast.Name(id=name)]):
            if negative:
                yield name
        case ast.BinOp(left=left, op=op, right=right):
            yield from _subtracted(left, negative)
            yield from _subtracted(right, negative != isinstance(op, (ast.Sub, ast.FloorDiv)))
        case ast.UnaryOp(operand=operand):
            yield from _subtracted(operand, not negative)
        case ast.Call(args=args):
            for arg in args:
                yield from _subtracted(arg, negative)


# -- choices: everything that is generated is chosen here ------------------------------------------------------------

T = TypeVar("T")

_ODD_AT_MOST = 0.4
_ODDER_WITH_EACH = 0.08
_TRIES = 3  # An option is tried so often before it counts as refused.


class Impossible(Exception):
    """Nothing is left to choose from: a domain of ``[1, n]`` where n is 0."""


class Draw:
    """Makes choices, the same for the same seed.

    Options stand in an order: the first is the plainest, what a reader would write down as an example; the later, the
    odder. The first case takes the front of every choice; from case to case more choices are odd, up to two in five.
    Among the odd options those come first that came least often, so that few cases show them all. An option that is in
    refused cases only is given up.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._times: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._accepted: set[str] = set()
        self._chosen: list[str] = []
        self._odd = -_ODDER_WITH_EACH

    def begin(self) -> None:
        """Begin the next case."""
        self._odd = min(_ODD_AT_MOST, self._odd + _ODDER_WITH_EACH)
        self._chosen.clear()

    def end(self, *, accepted: bool) -> None:
        """Say how the case ended."""
        (self._accepted if accepted else self._refused).update(self._chosen)

    def choose(self, what: str, options: Sequence[T]) -> T:
        """Choose one of the options.

        Args:
            what: is chosen, the same words for the same choice in every case.
            options: to choose from.
        """
        if len(options) == 1:
            return options[0]
        labels = [f"{what}: {option}" for option in options]
        hopeless = {label for label in labels if self._refused[label] >= _TRIES and label not in self._accepted}
        places = [i for i, label in enumerate(labels) if label not in hopeless] or range(len(labels))
        place = places[0]
        if len(places) > 1 and self._random.random() < self._odd:
            least = min(self._times[labels[i]] for i in places[1:])
            place = self._random.choice([i for i in places[1:] if self._times[labels[i]] == least])
            self._times[labels[place]] += 1
        self._chosen.append(labels[place])
        return options[place]

    def seed(self) -> int:
        """Draw a number from which a tensor's values are made."""
        return self._random.getrandbits(31)
