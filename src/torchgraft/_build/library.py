"""A kernel library: built, loaded, its function in torch's dispatcher and, where torch allows it, in Python."""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .. import _torch
from .._errors import BuildError
from . import cache, imports, shipped
from .floating import kept_environment
from .prototype import Prototype
from .shim import Shim
from .source import Source
from .toolchain import HEADER, SHIM, SUFFIXES, check_order, compiler, processor_level

SPACE = "torchgraft_native"

_numbers = itertools.count()
_loaded: dict[Path, Library] = {}  # never closed: what runs in a library may not lose its code
_lock = threading.Lock()


@dataclass(frozen=True)
class Library:
    """A library that is loaded.

    Attributes:
        path: the file.
        function: of the dispatcher, below autograd.
        fast: the same for plain tensors on the CPU, without sizes and shapes: from torch 2.14 without the dispatcher,
            where the arguments have such a way in.
    """

    path: Path
    function: Callable[..., Any]
    fast: Callable[..., Any]


def build(source: Source, prototype: Prototype, dtypes: Mapping[str, torch.dtype]) -> Library:
    """The library for one combination of dtypes: the one that was shipped, or the one that the compiler makes.

    Raises:
        BuildError: the compiler refused it, or there is none; or what was shipped cannot be loaded.
    """
    ready = shipped.find(source, prototype, dtypes)
    if ready is not None:
        try:
            return load(ready, source, prototype)
        except OSError as error:
            raise shipped.unloadable(ready, prototype.signature.name, error) from None
    try:
        tools, level = compiler(source.language, prototype.signature.name), processor_level()
    except BuildError as error:
        raise shipped.unbuilt(source, dtypes, error) from None
    text = source_of(source, prototype, dtypes)
    key = cache.key_of(
        text, source.text(), HEADER.read_text(), SHIM.read_text(), tools.version,
        " ".join(tools.arguments(source, level)), " ".join(source.libraries), repr(source.imports),
    )  # fmt: skip

    def make(library: Path) -> Sequence[Path]:
        file = library.with_suffix(SUFFIXES[source.language])
        file.write_text(text)
        return tools.build(source, level, file, library, prototype)

    return load(cache.built(key, make), source, prototype)


def source_of(source: Source, prototype: Prototype, dtypes: Mapping[str, torch.dtype]) -> str:
    """The file that is compiled.

    Raises:
        BuildError: the function's head is not the prototype.
    """
    check_order(source, prototype)
    imports.declared(source, prototype.signature.name)
    fails = source.fails(prototype.symbol) and not prototype.scalar
    shim = Shim(prototype, dtypes, source.language, fails=fails)
    return shim.source(str(HEADER), source.body(f"source of {prototype.signature.name}"))


def load(path: Path, source: Source, prototype: Prototype) -> Library:
    """A library that is there; once in a process."""
    with _lock:
        if path not in _loaded:
            with kept_environment():
                _loaded[path] = _load(path, source, prototype)
        return _loaded[path]


def _load(path: Path, source: Source, prototype: Prototype) -> Library:
    operator = prototype.signature.name
    library = ctypes.CDLL(str(path))
    library.tg_load.restype = ctypes.c_char_p
    missing = library.tg_load(str(_libtorch()).encode())
    if missing:
        raise BuildError(
            f"this torch lacks {missing.decode()}, which kernels are built on",
            operator=operator,
            expected="torch 2.11 or newer",
            got=f"torch {torch.__version__}",
        )
    if source.imports:
        imports.bind(library, source, operator)
    function = _register(library, prototype, bare=False)
    if prototype.has_fast_path and library.tg_is_fast():
        return Library(path, function, _method(library))
    return Library(path, function, _register(library, prototype, bare=True) if prototype.trailing else function)


def _register(library: ctypes.CDLL, prototype: Prototype, *, bare: bool) -> Callable[..., Any]:
    name = f"{prototype.symbol}_{next(_numbers)}"
    _space().define(name + prototype.schema(bare=bare))
    if library.tg_register(SPACE.encode(), name.encode(), bare):
        raise BuildError("torch refused to register the kernel", operator=prototype.signature.name)
    return _torch.bare_operator(getattr(getattr(torch.ops, SPACE), name).default)


def _method(library: ctypes.CDLL) -> Callable[..., Any]:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    function: Callable[..., Any] = make(ctypes.addressof(ctypes.c_char.in_dll(library, "tg_method")), None, None)
    return function


def _libtorch() -> Path:
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    return Path(torch.__file__).parent / "lib" / f"libtorch_cpu{suffix}"


_spaces: list[torch.library.Library] = []


def _space() -> torch.library.Library:
    if not _spaces:
        _spaces.append(torch.library.Library(SPACE, "FRAGMENT"))
    return _spaces[0]
