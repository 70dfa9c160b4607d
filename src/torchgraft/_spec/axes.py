"""Axes: the text of a shape annotation, read once, bound to sizes at every call.

The text is jaxtyping's: ``"*batch n #m h-kh+1 {k} 3 ..."``. Expressions are parsed with Python's `ast` and
evaluated by the few lines below; nothing is ever given to `eval`. Sizes may be ints or SymInts.
"""

from __future__ import annotations

import ast
import keyword
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import DeclarationError, ShapeError

Size = Any  # A size is an int or a torch.SymInt.
Shape = tuple[Size, ...]


def broadcast(*shapes: Shape) -> Shape:
    """The shape to which shapes broadcast.

    `torch.broadcast_shapes` does the same, and imports sympy for it, which takes a third of a second.

    Raises:
        RuntimeError: they do not.
    """
    if any(not isinstance(size, int) for shape in shapes for size in shape):
        return tuple(torch.broadcast_shapes(*shapes))
    joined = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for axis, size in enumerate(shape, len(joined) - len(shape)):
            if size != 1 and joined[axis] not in (1, size):
                raise RuntimeError(f"{shape} does not broadcast to {tuple(joined)}")
            joined[axis] = joined[axis] if size == 1 else size
    return tuple(joined)


_BINARY: dict[type[ast.operator], Callable[[Size, Size], Size]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS: dict[str, Callable[[Size, Size], Size]] = {"min": torch.sym_min, "max": torch.sym_max}


@dataclass(frozen=True)
class Axis:
    """One token: an axis, or a run of axes (`variadic`).

    Attributes:
        text: the token as written.
        name: the name that it binds; None for a fixed size, an expression, ``_``, ``_name`` and ``...``.
        broadcast: size 1 broadcasts (``#n``, ``*#batch``, ``...``).
        variadic: binds any number of axes (``*batch``, ``...``).
        expression: the parsed size, where it is computed or fixed.
    """

    text: str
    name: str | None = None
    broadcast: bool = False
    variadic: bool = False
    expression: ast.expr | None = None

    @property
    def anonymous(self) -> bool:
        """True if it admits any size and remembers none: ``_`` and ``_name``."""
        return self.name is None and self.expression is None and not self.variadic

    @property
    def reads(self) -> tuple[set[str], set[str]]:
        """Axis names and argument names that the expression reads."""
        axes: set[str] = set()
        arguments: set[str] = set()
        if self.expression is not None:
            _collect(self.expression, axes, arguments)
        return axes, arguments


def _collect(node: ast.expr, axes: set[str], arguments: set[str]) -> None:
    match node:
        case ast.Name(id=name):
            axes.add(name)
        case ast.Set(elts=[ast.Name(id=name)]):
            arguments.add(name)
        case ast.BinOp(left=left, right=right):
            _collect(left, axes, arguments)
            _collect(right, axes, arguments)
        case ast.UnaryOp(operand=operand):
            _collect(operand, axes, arguments)
        case ast.Call(args=args):
            for arg in args:
                _collect(arg, axes, arguments)


def _check_expression(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return type(value) is int  # True is an int too.
        case ast.Name() | ast.Set(elts=[ast.Name()]):
            return True
        case ast.BinOp(left=left, op=op, right=right):
            return type(op) in _BINARY and _check_expression(left) and _check_expression(right)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _check_expression(operand)
        case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]):
            return name in _CALLS and _check_expression(left) and _check_expression(right)
        case _:
            return False


def _evaluate(node: ast.expr, sizes: Mapping[str, Size], values: Mapping[str, Any]) -> Size:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return sizes[name]
        case ast.Set(elts=[ast.Name(id=name)]):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_evaluate(left, sizes, values), _evaluate(right, sizes, values))
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, sizes, values)
        case ast.Call(func=ast.Name(id=name), args=[left, right]):
            return _CALLS[name](_evaluate(left, sizes, values), _evaluate(right, sizes, values))
    raise AssertionError(ast.dump(node))  # pragma: no cover - It is refused at declaration.


def _parse_token(token: str, operator_name: str, where: str) -> Axis:
    def refuse(why: str) -> DeclarationError:
        return DeclarationError(
            f"axis '{token}' cannot be read: {why}",
            operator=operator_name,
            argument=where,
            expected="a name, *name, #name, ..., _, a number, {argument}, or an expression of + - * // % min max",
            got=token,
        )

    if token == "...":
        return Axis(token, broadcast=True, variadic=True)
    body, flags = token, ""
    while body and body[0] in "*#?":
        flags, body = flags + body[0], body[1:]
    if "?" in flags:
        raise refuse("'?' belongs to pytrees, which operators do not take")
    if "=" in body:  # "rows=3" is the form of jaxtyping for documentation.
        body = body.partition("=")[2]
    broadcast, variadic = "#" in flags, "*" in flags
    if body.isidentifier() and not keyword.iskeyword(body):
        if body.startswith("_"):  # In jaxtyping, it documents an axis that is not compared with others.
            if flags:
                raise refuse("'_' has no size to repeat or to broadcast; write '...' for any axes")
            return Axis(token)
        return Axis(token, name=body, broadcast=broadcast, variadic=variadic)
    if variadic:
        raise refuse("'*' must be followed by a name")
    try:
        node = ast.parse(body, mode="eval").body
    except SyntaxError:
        raise refuse("it is not an expression") from None
    if not _check_expression(node):
        raise refuse("it uses something else than sizes, {argument} and + - * // % min max")
    return Axis(token, broadcast=broadcast, expression=node)


@dataclass
class Binding:
    """Sizes of the axes in one call, and which argument each came from (for the error texts)."""

    values: Mapping[str, Any]
    sizes: dict[str, Size] = field(default_factory=dict)
    runs: dict[str, Shape] = field(default_factory=dict)
    dots: Shape | None = None
    origins: dict[str, str] = field(default_factory=dict)
    soft: set[str] = field(default_factory=set)  # Only a broadcasting axis of size 1 binds these.
    exact: set[str] = field(default_factory=set)  # Some argument binds these runs without broadcasting.

    def describe(self) -> str:
        """The text ``n = 4 from weight (3, 4), ...``."""
        names = [*self.sizes, *self.runs]
        return ", ".join(
            f"{name} = {self.sizes.get(name, self.runs.get(name))} from {self.origins[name]}" for name in names
        )


class Axes:
    """The axes of one annotation."""

    def __init__(self, text: str, operator_name: str, where: str) -> None:
        self.text = text
        self.where = where
        self.operator = operator_name
        self.tokens = tuple(_parse_token(token, operator_name, where) for token in text.split())
        runs = [position for position, token in enumerate(self.tokens) if token.variadic]
        if len(runs) > 1:
            raise DeclarationError(
                "only one run of axes fits into a shape",
                operator=operator_name,
                argument=where,
                expected="at most one of '*name' and '...'",
                got=text,
            )
        self.run = runs[0] if runs else None

    def __str__(self) -> str:
        return self.text

    @property
    def rank(self) -> int | None:
        """Number of axes; None where a run makes it variable."""
        return len(self.tokens) if self.run is None else None

    @property
    def leading_run(self) -> Axis | None:
        """The run of axes at the front, where there is one: the batch axes."""
        return self.tokens[0] if self.run == 0 else None

    @property
    def binds(self) -> set[str]:
        """Names that this annotation gives a size to."""
        return {token.name for token in self.tokens if token.name is not None and not token.variadic}

    def reads(self) -> tuple[set[str], set[str]]:
        """Axis names and argument names that the annotation's expressions read."""
        axes: set[str] = set()
        arguments: set[str] = set()
        for token in self.tokens:
            more_axes, more_arguments = token.reads
            axes |= more_axes
            arguments |= more_arguments
        return axes, arguments

    # -- reading a shape ------------------------------------------------------------------------------------

    def _pair(self, shape: Shape) -> list[tuple[Axis, Any]]:
        """Each token with its size, the run with its tuple of sizes."""
        fixed = len(self.tokens) - (self.run is not None)
        if (self.run is None and len(shape) != fixed) or len(shape) < fixed:
            more = "at least " if self.run is not None else ""
            raise ShapeError(
                f"has {len(shape)} axes",
                operator=self.operator,
                argument=self.where,
                expected=f"{more}{fixed} axes, '{self.text}'",
                got=f"shape {_show(shape)}",
            )
        if self.run is None:
            return list(zip(self.tokens, shape, strict=True))
        after = len(self.tokens) - self.run - 1
        end = len(shape) - after
        pairs: list[tuple[Axis, Any]] = list(zip(self.tokens[: self.run], shape, strict=False))
        pairs.append((self.tokens[self.run], shape[self.run : end]))
        pairs.extend(zip(self.tokens[self.run + 1 :], shape[end:], strict=True))
        return pairs

    def bind(self, shape: Shape, binding: Binding) -> None:
        """Give every name of this annotation its size; contradictions raise."""
        origin = f"{self.where} {_show(shape)}"
        for axis, size in self._pair(shape):
            if axis.variadic:
                self._bind_run(axis, size, binding, origin)
            elif axis.name is not None:
                self._bind_name(axis, size, binding, origin)

    def _bind_run(self, axis: Axis, sizes: Shape, binding: Binding, origin: str) -> None:
        if axis.name is None:
            binding.dots = self._broadcast(binding.dots or (), sizes, "the broadcasting axes '...'", origin)
            return
        bound = binding.runs.get(axis.name)
        if bound is not None:
            sizes = self._join_run(axis, bound, sizes, binding, origin)
        if not axis.broadcast:
            binding.exact.add(axis.name)
        binding.runs[axis.name] = sizes
        binding.origins.setdefault(axis.name, origin)

    def _join_run(self, axis: Axis, bound: Shape, sizes: Shape, binding: Binding, origin: str) -> Shape:
        """The sizes of a run that is bound already: whoever does not broadcast has all of them."""
        name = axis.name
        assert name is not None
        exact = name in binding.exact
        compares = exact and not axis.broadcast
        joined = bound if compares else self._broadcast(bound, sizes, f"axes *{name}", origin)
        if (not axis.broadcast and tuple(joined) != tuple(sizes)) or (exact and tuple(joined) != tuple(bound)):
            raise self._contradiction(f"*{name}", _show(bound), binding.origins[name], _show(sizes), origin)
        return joined

    def _broadcast(self, left: Shape, right: Shape, what: str, origin: str) -> Shape:
        try:
            return broadcast(left, right)
        except RuntimeError:
            raise ShapeError(
                f"{what} do not broadcast",
                operator=self.operator,
                argument=self.where,
                expected=f"axes that broadcast with {_show(left)}",
                got=f"{_show(right)} from {origin}",
            ) from None

    def _bind_name(self, axis: Axis, size: Size, binding: Binding, origin: str) -> None:
        name = axis.name
        assert name is not None
        bound = binding.sizes.get(name)
        one = axis.broadcast and size == 1
        if bound is None or (name in binding.soft and not one):
            binding.sizes[name] = size
            binding.origins[name] = origin
            binding.soft.discard(name)
            if one:
                binding.soft.add(name)
        elif not one and bound != size:
            raise self._contradiction(name, bound, binding.origins[name], size, origin)

    def _contradiction(self, name: str, bound: object, source: str, size: object, origin: str) -> ShapeError:
        return ShapeError(
            f"axis {name} = {bound} from {source}, but {self.where} has {size}",
            operator=self.operator,
            argument=self.where,
            expected=f"{name} = {bound}",
            got=f"{size} in {origin}, annotated '{self.text}'",
        )

    def check_expressions(self, shape: Shape, binding: Binding) -> None:
        """Compare fixed and computed sizes, once every name is bound."""
        for axis, size in self._pair(shape):
            if axis.expression is None or (axis.broadcast and size == 1):
                continue
            value = self._size(axis, binding)
            if value != size:
                raise ShapeError(
                    f"axis {axis.text} is {value}, but {self.where} has {size}",
                    operator=self.operator,
                    argument=self.where,
                    expected=f"{axis.text} = {value}" + (f" ({b})" if (b := binding.describe()) else ""),
                    got=f"shape {_show(shape)}, annotated '{self.text}'",
                )

    # -- making a shape -------------------------------------------------------------------------------------

    def _size(self, axis: Axis, binding: Binding) -> Size:
        names = axis.reads[0] if axis.name is None else {axis.name}
        missing = names - binding.sizes.keys()
        if missing:
            raise ShapeError(
                f"axis {sorted(missing)[0]} has no size in this call",
                operator=self.operator,
                argument=self.where,
                expected="the optional argument that carries it",
                got=binding.describe() or "no axis bound",
            )
        if axis.name is not None:
            return binding.sizes[axis.name]
        size = self.computed(axis, binding)
        if size < 0:
            raise ShapeError(
                f"axis {axis.text} = {size} is negative",
                operator=self.operator,
                argument=self.where,
                expected=f"{axis.text} >= 0",
                got=self._describe_reads(axis, binding),
            )
        return size

    def computed(self, axis: Axis, binding: Binding) -> Size:
        """The value of an axis's expression, which may be negative."""
        assert axis.expression is not None
        try:
            return _evaluate(axis.expression, binding.sizes, binding.values)
        except ZeroDivisionError:
            raise ShapeError(
                f"axis {axis.text} divides by zero",
                operator=self.operator,
                argument=self.where,
                expected="a divisor that is not zero",
                got=self._describe_reads(axis, binding),
            ) from None

    def _describe_reads(self, axis: Axis, binding: Binding) -> str:
        """Describe the sizes that the expression of `axis` was computed from."""
        names, arguments = axis.reads
        known = [f"{name} = {binding.sizes[name]} from {binding.origins[name]}" for name in sorted(names)]
        return ", ".join(known + [f"{name} = {binding.values[name]}" for name in sorted(arguments)]) or axis.text

    def evaluate(self, binding: Binding) -> Shape:
        """The shape that the annotation gives in this call, with broadcasting axes at their full size.

        An axis of any size, which a list of outputs may have, is None.
        """
        return tuple(size for axis in self.tokens for size in self.sizes(axis, binding))

    def sizes(self, axis: Axis, binding: Binding) -> Shape:
        """The sizes that one token gives: a run any number of them, another axis one."""
        if axis.variadic:
            return (binding.dots or ()) if axis.name is None else binding.runs.get(axis.name, ())
        return (None if axis.anonymous else self._size(axis, binding),)

    def full(self, shape: Shape, binding: Binding) -> Shape:
        """`shape` with its broadcasting axes at their full size: what a rule may return before it is summed."""
        if not any(axis.broadcast for axis in self.tokens):
            return shape
        full: list[Size] = []
        for axis, size in self._pair(shape):
            if not axis.variadic:
                full.append(self._size(axis, binding) if axis.broadcast else size)
            elif axis.broadcast:
                full.extend((binding.dots or ()) if axis.name is None else binding.runs[axis.name])
            else:
                full.extend(size)
        return tuple(full)

    def aligned(self, shape: Shape, binding: Binding) -> Shape:
        """`shape` with a 1 for each axis that its broadcasting run lacks: its axes are where they are in `full`."""
        aligned: list[Size] = []
        for axis, size in self._pair(shape):
            if not axis.variadic:
                aligned.append(size)
                continue
            run = (binding.dots or ()) if axis.name is None else binding.runs[axis.name]
            aligned.extend((1,) * (len(run) - len(size)) if axis.broadcast else ())
            aligned.extend(size)
        return tuple(aligned)


def _show(shape: Sequence[Size]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
