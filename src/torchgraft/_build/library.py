"""A kernel library: built, loaded, its function in torch's dispatcher and, where torch allows it, in Python."""

from __future__ import annotations

import ctypes
import itertools
import shlex
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .. import _torch
from ..errors import BuildError, TorchgraftWarning
from . import cache, imports, shipped
from .floating import kept_environment
from .inputs import Inputs
from .prototype import Prototype
from .shim import Shim
from .source import Source
from .toolchain import HEADER, SUFFIXES, compiler, processor_level

SPACE = "torchgraft_native"

_numbers = itertools.count()
_loaded: dict[Path, Library] = {}  # No library is closed: what runs in it would lose its code.
_lock = threading.Lock()


@dataclass(frozen=True)
class Library:
    """A library that is loaded.

    Attributes:
        path: the file.
        function: of the dispatcher, below autograd.
        bare: the same without what callers may leave out.
        opened: the library.
    """

    path: Path
    function: Callable[..., Any]
    bare: Callable[..., Any]
    opened: ctypes.CDLL

    def ready(self, call: Callable[[], Any], *, in_place: bool) -> Callable[..., Any] | None:
        """Make the function for arguments that look like those of a call, without the dispatcher.

        Args:
            call: calls `function` or `bare` with them; nothing is computed.
            in_place: what the function writes is its arguments' own memory. It returns `NotImplemented` where that
                overlaps with another argument's.

        Returns:
            The function, which brings data and numbers alone; None where each call has more to find out.
        """
        return ready_function(self.opened, self.opened.tg_prepared_size(), call, "in_place" if in_place else "fresh")


class _Prepared(bytearray):
    """Memory of a ready call: all but data and numbers.

    Attributes:
        owner: what it points to.
    """

    owner: Any = None


def ready_function(
    opened: ctypes.CDLL, size: int, call: Callable[[], Any], method: str, owner: Any = None
) -> Callable[..., Any] | None:
    """Make the function of `Library.ready`.

    Args:
        opened: the library that makes ready calls.
        size: bytes that it needs for what it finds out.
        call: calls a function of it.
        method: its name for ready calls, after ``tg_method_``.
        owner: lives as long as the function.
    """
    if not opened.tg_has_ready_calls():
        return None
    memory = _Prepared(size)
    memory.owner = owner
    address = ctypes.addressof((ctypes.c_char * len(memory)).from_buffer(memory))
    opened.tg_prepare(ctypes.c_void_p(address))
    try:
        call()
    finally:
        opened.tg_prepare(None)
    if not opened.tg_is_ready(ctypes.c_void_p(address)):
        return None
    found = ctypes.c_char.in_dll(opened, f"tg_method_{method}")
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., Any] = make(ctypes.addressof(found), memory, None)
    return function


def build(
    source: Source,
    prototype: Prototype,
    dtypes: Mapping[str, torch.dtype],
    seen: dict[str, str] | None = None,
) -> Library:
    """The library for one combination of dtypes: the one that was shipped, or the one that the compiler makes.

    Args:
        seen: the files that other functions of the operator were built from, as `warn_of_changes` has it.

    Raises:
        BuildError: the compiler refused it, or there is none; or what was shipped cannot be loaded.

    Warns:
        TorchgraftWarning: the operator is made of two texts.
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

    def make(library: Path) -> Inputs:
        return tools.build(source, level, write_source(library, source, text), library, prototype)

    built = cache.built(tools.key(source, text, tools.arguments(source, level, prototype)), make)
    warn_of_changes(source, built.files, {} if seen is None else seen, prototype.signature.name)
    try:
        return load(built.path, source, prototype)
    except OSError as error:
        raise BuildError(
            "what the compiler made cannot be loaded", operator=prototype.signature.name, got=str(error),
            expected="a shared library for this machine", hint=f"the compiler is {shlex.join(tools.command)}",
        ) from None  # fmt: skip


def write_source(made: Path, source: Source, text: str) -> Path:
    """The file from which something is made, beside it."""
    file = made.with_suffix(SUFFIXES[source.language])
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    return file


def warn_of_changes(source: Source, files: Mapping[str, str], seen: dict[str, str], operator: str) -> None:
    """Say that an operator is made of two texts: a file was changed between two of its builds in this process.

    Args:
        files: digests of what a function was built from, by path.
        seen: the same of the operator's other functions; what is new is added.
    """
    own = {} if source.path is None else {str(source.path): cache.key_of(source.code)}
    changed = [name for name, digest in {**files, **own}.items() if seen.setdefault(name, digest) != digest]
    if changed:
        warnings.warn(
            f"{operator}: {', '.join(changed)} was changed after another function of the operator was built from it: "
            "the operator is made of two texts now; declare it again, or start Python again",
            TorchgraftWarning, stacklevel=2,
        )  # fmt: skip


def source_of(source: Source, prototype: Prototype, dtypes: Mapping[str, torch.dtype]) -> str:
    """The file that is compiled."""
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
    missing = library.tg_load(str(libtorch()).encode())
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
    library.tg_has_ready_calls.restype = ctypes.c_bool
    if prototype.has_ready_calls:
        library.tg_prepared_size.restype = ctypes.c_int64
        library.tg_is_ready.restype = ctypes.c_bool
    bare = _register(library, prototype, bare=True) if prototype.trailing else function
    return Library(path, function, bare, library)


def _register(library: ctypes.CDLL, prototype: Prototype, *, bare: bool) -> Callable[..., Any]:
    name = f"{prototype.symbol}_{next(_numbers)}"
    space().define(name + prototype.schema(bare=bare))
    if library.tg_register(SPACE.encode(), name.encode(), bare):
        raise BuildError("torch refused to register the kernel", operator=prototype.signature.name)
    return _torch.bare_operator(getattr(getattr(torch.ops, SPACE), name).default)


def libtorch() -> Path:
    """The library of torch that is loaded already."""
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    return Path(torch.__file__).parent / "lib" / f"libtorch_cpu{suffix}"


_spaces: list[torch.library.Library] = []


def space() -> torch.library.Library:
    """The namespace of what is registered below operators."""
    if not _spaces:
        _spaces.append(torch.library.Library(SPACE, "FRAGMENT"))
    return _spaces[0]
