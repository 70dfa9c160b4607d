"""Mathematical building blocks: expressions with their derivatives, written in torch, NumPy and C.

An expression is a nested tuple: ``("var", name)``, ``("num", value)``, ``("add", a, b)``, ``("mul", a, b)``, or a
function of one argument. Derivatives are symbolic, so that a rule made of them is right by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Expr = tuple[Any, ...]

ZERO: Expr = ("num", 0.0)
ONE: Expr = ("num", 1.0)


def num(value: float) -> Expr:
    return ("num", float(value))


def var(name: str) -> Expr:
    return ("var", name)


def add(a: Expr, b: Expr) -> Expr:
    if a == ZERO:
        return b
    if b == ZERO:
        return a
    return num(a[1] + b[1]) if a[0] == b[0] == "num" else ("add", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    if ZERO in (a, b):
        return ZERO
    if a == ONE:
        return b
    if b == ONE:
        return a
    return num(a[1] * b[1]) if a[0] == b[0] == "num" else ("mul", a, b)


def call(function: str, a: Expr) -> Expr:
    if a == ZERO and function in ("sin", "tanh", "sq"):
        return ZERO
    return (function, a)


# The derivative of each function, of its argument.
DERIVATIVES: dict[str, Callable[[Expr], Expr]] = {
    "sin": lambda u: ("cos", u),
    "cos": lambda u: mul(num(-1), ("sin", u)),
    "exp": lambda u: ("exp", u),
    "tanh": lambda u: add(ONE, mul(num(-1), ("sq", ("tanh", u)))),
    "sq": lambda u: mul(num(2), u),
    "recip": lambda u: mul(num(-1), ("sq", ("recip", u))),
    "sqrt": lambda u: mul(num(0.5), ("recip", ("sqrt", u))),
    "log": lambda u: ("recip", u),
}
ENTIRE = ("sin", "cos", "exp", "sq")
"""Functions without poles, which serve complex numbers."""

_PYTHON = {"sq": "square({})", "recip": "reciprocal({})"}
SPELLINGS: dict[str, dict[str, str]] = {
    "torch": {f: "torch." + _PYTHON.get(f, f + "({})") for f in DERIVATIVES},
    "numpy": {f: "np." + _PYTHON.get(f, f + "({})") for f in DERIVATIVES},
    "c": {f: f + "({})" for f in DERIVATIVES} | {"sq": "square({})", "recip": "(1 / ({}))"},
    "c complex": {f: "c" + f + "({})" for f in DERIVATIVES} | {"sq": "square({})", "recip": "(1 / ({}))"},
}
CONJUGATE = {"torch": "torch.conj({})", "numpy": "np.conj({})", "c complex": "conj({})"}


def variables(e: Expr) -> set[str]:
    if e[0] == "var":
        return {e[1]}
    return set() if e[0] == "num" else set().union(*map(variables, e[1:]))


def diff(e: Expr, name: str) -> Expr:
    """The derivative of `e` by a variable."""
    if e[0] == "var":
        return ONE if e[1] == name else ZERO
    if e[0] == "num":
        return ZERO
    if e[0] == "add":
        return add(diff(e[1], name), diff(e[2], name))
    if e[0] == "mul":
        return add(mul(diff(e[1], name), e[2]), mul(e[1], diff(e[2], name)))
    inner = diff(e[1], name)
    return ZERO if inner == ZERO else mul(DERIVATIVES[e[0]](e[1]), inner)


def put(e: Expr, old: Expr, new: Expr) -> Expr:
    """`e` with `new` in the place of each `old`."""
    if e == old:
        return new
    if e[0] in ("var", "num"):
        return e
    parts = [put(part, old, new) for part in e[1:]]
    return add(*parts) if e[0] == "add" else mul(*parts) if e[0] == "mul" else call(e[0], *parts)


def write(e: Expr, language: str, names: Mapping[str, str]) -> str:
    """`e` in a language, with other names for its variables; what is no product or sum needs no parentheses."""
    if e[0] == "var":
        return names[e[1]]
    if e[0] == "num":
        return repr(e[1]) if e[1] >= 0 else f"({e[1]!r})"
    if e[0] == "add":
        return f"({write(e[1], language, names)} + {write(e[2], language, names)})"
    if e[0] == "mul":
        return f"{write(e[1], language, names)} * {write(e[2], language, names)}"
    inner = write(e[1], language, names)
    return SPELLINGS[language][e[0]].format(inner[1:-1] if e[1][0] == "add" else inner)
