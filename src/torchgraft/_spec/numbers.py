"""Numbers as text: ``"0.5"``, ``"-pi/2"``, ``"n-1"``. Parsed with Python's `ast`, never given to `eval`."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf}

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS: dict[str, Callable[[Any, Any], Any]] = {"min": min, "max": max}


def read_number(text: str) -> ast.expr:
    """The expression that a text is.

    Raises:
        ValueError: it is none, or uses something else than numbers, names, + - * / // % min and max.
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(f"'{text}' is not a number") from None
    if not _is_number(node):
        raise ValueError(f"'{text}' is not made of numbers, names, + - * / // % min max")
    return node


def _is_number(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return type(value) in (int, float)
        case ast.Name():
            return True
        case ast.BinOp(left=left, op=op, right=right):
            return type(op) in _BINARY and _is_number(left) and _is_number(right)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _is_number(operand)
        case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]):
            return name in _CALLS and _is_number(left) and _is_number(right)
    return False


def names_in(node: ast.expr) -> set[str]:
    """The names that an expression reads, constants left out."""
    functions = {id(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in functions}
    return names - CONSTANTS.keys()


def evaluate(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of an expression; ``{k}`` of axes, a set of one name, is the value of that name.

    Raises:
        KeyError: a name has no value.
        ZeroDivisionError: it divides by zero.
    """
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) | ast.Set(elts=[ast.Name(id=name)]):
            return names[name] if name in names else CONSTANTS[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](evaluate(left, names), evaluate(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -evaluate(operand, names)
        case ast.UnaryOp(operand=operand):
            return evaluate(operand, names)
        case ast.Call(func=ast.Name(id=name), args=[left, right]):
            return _CALLS[name](evaluate(left, names), evaluate(right, names))
    raise AssertionError(ast.dump(node))  # pragma: no cover - It is refused when it is read.
