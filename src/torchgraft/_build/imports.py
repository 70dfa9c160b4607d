"""C functions of Python modules: what those by Cython lend (``__pyx_capi__``), such as SciPy's special functions.

A kernel declares ``TG_IMPORT(double, kv, (double, double, int))`` and calls ``kv(v, x, 0)``. When its library is
loaded, the module is imported, and the pointer is set if the function that the module has is of the declared type.
"""

from __future__ import annotations

import ctypes
import importlib
import re
from typing import Any

from ..errors import BuildError, DeclarationError
from .heads import bare
from .source import Source

_DECLARED = re.compile(r"\bTG_IMPORT\(\s*([\w *]+?)\s*,\s*(\w+)\s*,\s*\(([^)]*)\)\s*\)")

_api = ctypes.pythonapi
_api.PyCapsule_GetName.restype, _api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def declared(source: Source, operator: str) -> dict[str, str]:
    """The type of each function that a source imports.

    Raises:
        DeclarationError: those that it declares are not those of which it is said where they are.
    """
    types = {name: _type(f"{result} ({arguments})") for result, name, arguments in _DECLARED.findall(bare(source.code))}
    places = dict(source.imports)
    if types.keys() != places.keys():
        odd = min(types.keys() ^ places.keys())
        there = odd in types
        raise DeclarationError(
            f"imports '{odd}' in {'the source' if there else 'Python'} alone", operator=operator, argument="imports",
            expected="each function in both", got=", ".join(sorted(places)) or "none",
            hint=f"imports={{'{odd}': 'module:name'}}" if there else f"TG_IMPORT(double, {odd}, (double, int))",
        )  # fmt: skip
    return types


def bind(library: ctypes.CDLL, source: Source, operator: str) -> None:
    """Set the pointers of a library that is loaded.

    Raises:
        BuildError: a module, or a function in it, is not there, or the function is of another type.
    """
    types = declared(source, operator)
    for name, place in source.imports:
        capsule = _found(place, operator)
        title = _api.PyCapsule_GetName(capsule)
        if _type(title.decode()) != types[name]:
            raise BuildError(
                f"imports a function of another type than '{place}' has", operator=operator, argument=name,
                expected=_type(title.decode()), got=types[name], hint="correct its TG_IMPORT",
            )  # fmt: skip
        where = getattr(library, f"tg_import_{name}")
        where.restype = ctypes.c_void_p
        ctypes.c_void_p.from_address(where()).value = _api.PyCapsule_GetPointer(capsule, title)


def _found(place: str, operator: str) -> Any:
    module, _, name = place.partition(":")
    try:
        functions = importlib.import_module(module).__pyx_capi__
        return functions[name]
    except (ImportError, AttributeError, KeyError) as error:
        raise BuildError(
            f"cannot import the C function '{place}'", operator=operator,
            expected="'module:name' of a module by Cython that has it in __pyx_capi__",
            got=f"{type(error).__name__}: {error}",
            hint=f"pip install {module.partition('.')[0]}" if isinstance(error, ImportError) else None,
        ) from None  # fmt: skip


def _type(text: str) -> str:
    """A function's type without the names of its parameters, and without spaces that mean nothing."""
    result, _, arguments = text.partition("(")
    parts = [re.sub(r"\s*\*\s*", " *", part.strip()) for part in arguments.rstrip(") ").split(",")]
    found = [re.sub(r"(?:(?<=\w) +|(?<=\*))\w+$", "", part) for part in parts]
    return f"{' '.join(result.split())} ({', '.join(found)})"
