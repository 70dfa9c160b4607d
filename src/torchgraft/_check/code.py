"""Code that a target is made of: whether some of it is native, and the words that stand in it."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from importlib.machinery import ExtensionFileLoader
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from .._locate import foreign
from .target import Target, function_of

_CALLERS = {"ctypes", "_ctypes", "cffi", "_cffi_backend"}
_TRUSTED = {"torch", "numpy", "scipy", "torchgraft", *sys.stdlib_module_names}
_foreign = functools.cache(foreign)


def is_native(target: Target) -> bool:
    """Return True if code of the target's own is native, or hands the address of a tensor to such code.

    It is found by what Python code mentions: the address, `ctypes`, `cffi`, or an extension module that belongs to
    neither Python nor torch. Kernels of `torch.library` may be anything, and count as native.
    """
    if target.kind == "library":
        return target.origin.namespace not in ("aten", "prims")
    if target.operator is not None and target.operator._record.natives():
        return True
    return any(map(_is_native, _reached(target)))


def words_in_code(target: Target) -> list[str]:
    """List the words that stand in code of the target's own, each once: among them those that its options may be."""
    own = [f for f in _reached(target) if isinstance(f, FunctionType) and not _foreign(f.__code__.co_filename)]
    constants = (constant for function in own for constant in _constants(function.__code__))
    return list(dict.fromkeys(c for c in constants if isinstance(c, str) and re.fullmatch(r"[A-Za-z][\w-]{,19}", c)))


def _constants(value: Any) -> Iterator[Any]:
    """Yield the constants of code, those of functions inside of it and those in tuples and sets too."""
    if isinstance(value, CodeType | tuple | frozenset):
        for part in value.co_consts if isinstance(value, CodeType) else value:
            yield from _constants(part)
    else:
        yield value


def _reached(target: Target) -> Iterator[Any]:
    """Yield what a target is made of, and what its code mentions, however far; each once."""
    if target.operator is not None:
        record = target.operator._record
        left = [record.function, *(rule.call for named in record.rules.values() for rule in named.values())]
    elif target.kind == "module":
        left = [type(module) for module in target.origin.modules()]
    else:
        left = [function_of(target.origin) or target.origin]
    seen = set[int]()
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        left += _mentioned(value)


def _is_native(value: Any) -> bool:
    if isinstance(value, FunctionType):
        return "data_ptr" in _names(value.__code__) and not _foreign(value.__code__.co_filename)
    builtin = isinstance(value, BuiltinFunctionType)
    module = value if isinstance(value, ModuleType) else sys.modules.get((value if builtin else type(value)).__module__)
    top = "" if module is None else module.__name__.partition(".")[0]
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    return top in _CALLERS or (isinstance(loader, ExtensionFileLoader) and top not in _TRUSTED)


def _mentioned(value: Any) -> Iterator[Any]:
    """Yield what code names, and what stands in classes and closures."""
    if isinstance(value, type):
        yield from (held for base in value.__mro__ for held in vars(base).values())
    elif isinstance(value, FunctionType):
        yield from inspect.getclosurevars(value).nonlocals.values()
        names = () if _foreign(value.__code__.co_filename) else _names(value.__code__)
        found = [value.__globals__[name] for name in names if name in value.__globals__]
        modules = [each for each in found if isinstance(each, ModuleType)]
        own = [module for module in modules if not _foreign(getattr(module, "__file__", None) or "<")]
        yield from found
        with warnings.catch_warnings(action="ignore"):  # A name such as `np.str` warns that it is old.
            found = [getattr(module, name) for module in own for name in names if hasattr(module, name)]
        yield from found
    elif hasattr(value, "__func__"):  # Methods, static methods and class methods have a function inside.
        yield value.__func__


def _names(code: CodeType) -> set[str]:
    """Return the names that code and the functions inside of it use."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)
