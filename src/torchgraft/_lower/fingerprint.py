"""Fingerprints: names in the dispatcher that say what stands behind them.

Caches on disk and exported programs know an operator by its name alone. Where the name would not tell one definition
from another, a fingerprint is part of it, so that a stale one is not found instead of silently taken.
"""

from __future__ import annotations

import hashlib
import types
import uuid
from collections.abc import Callable
from typing import Any

from .._spec.signature import Signature

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


def of_signature(signature: Signature) -> str:
    """Of the parameters' and outputs' types: what a compiler has built into its code."""
    parts = [f"{p.name}:{p.type}:{p.optional}:{p.many}" for p in signature.parameters]
    parts += [f"{output.name}:{output}:{output.saved}" for output in signature.outputs]
    return _digest(f"{parts} {signature.loop}{''.join(f' {late}' for late in signature.late)}")


def of_function(function: Callable[..., Any]) -> str:
    """Of a function's code, defaults and closure; one of its own where the closure holds more than plain values."""
    return _digest(_describe(function))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _describe_function(function: types.FunctionType) -> str:
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    return _describe_code(function.__code__) + _describe([function.__defaults__, function.__kwdefaults__, cells])


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - It raises where it is empty.
    except ValueError:
        return False
    return True


def _describe_code(code: types.CodeType) -> str:
    constants = [_describe_code(c) if isinstance(c, types.CodeType) else _describe(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"


def _describe(value: Any) -> str:
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_describe, value))}]"
    if isinstance(value, (dict, frozenset, set)):
        items = value.items() if isinstance(value, dict) else value
        return f"{{{', '.join(sorted(map(_describe, items)))}}}"
    if isinstance(value, types.FunctionType):
        return _describe_function(value)
    if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    return uuid.uuid4().hex
