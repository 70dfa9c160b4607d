"""Sizes of axes in the generated code: those of a call are members of its frame."""

from __future__ import annotations

import ast

from .._spec.axes import Axes, Axis


def size_of(token: Axis) -> str:
    """The size of an axis."""
    if token.name is not None:
        return f"tg_f->n_{token.name}"
    assert token.expression is not None
    return _expression(token.expression)


def core_sizes(core: Axes, tensor: str = "") -> str:
    """The sizes of one sample's axes, as an array is initialised.

    Args:
        tensor: that has the axes which the annotation leaves open.
    """
    sizes = (f"tg_size({tensor}, {i})" if t.anonymous else size_of(t) for i, t in enumerate(core.tokens))
    return f"{{{', '.join(sizes) or '0'}}}"


def elements_of(core: Axes | None) -> str:
    """The number of elements of one sample, along the axes that have a size of their own."""
    return "*".join(f"({size_of(token)})" for token in (core.tokens if core else ()) if not token.anonymous) or "1"


def _expression(node: ast.expr) -> str:
    """Python's arithmetic, whose division rounds down."""
    match node:
        case ast.Constant(value=value):
            return f"(int64_t){value!r}"
        case ast.Name(id=name):
            return f"tg_f->n_{name}"
        case ast.Set(elts=[ast.Name(id=name)]):
            return f"tg_f->a_{name}"
        case ast.UnaryOp(operand=operand):
            return f"(-{_expression(operand)})"
        case ast.Call(func=ast.Name(id=name), args=[left, right]):
            return f"tg_{name}({_expression(left)}, {_expression(right)})"
        case ast.BinOp(left=left, op=operation, right=right):
            a, b = _expression(left), _expression(right)
            if isinstance(operation, (ast.FloorDiv, ast.Mod)):
                return f"tg_{'mod' if isinstance(operation, ast.Mod) else 'floordiv'}(tg_c, {a}, {b})"
            return f"({a} {_OPERATORS[type(operation)]} {b})"
    raise AssertionError(ast.dump(node))  # pragma: no cover - It is refused at declaration.


_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
