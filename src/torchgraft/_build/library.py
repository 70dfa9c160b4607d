"""A kernel library: built, loaded, and its function in torch's dispatcher."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .._errors import BuildError
from . import cache
from .prototype import Prototype
from .shim import Shim
from .source import Source
from .toolchain import check_order, compiler, processor_level

SPACE = "torchgraft_native"
HEADER = Path(__file__).with_name("shim.h")

_numbers = itertools.count()
_loaded: dict[Path, Callable[..., Any]] = {}  # never closed: what runs in a library may not lose its code


def build(source: Source, prototype: Prototype, dtypes: Mapping[str, torch.dtype]) -> Callable[..., Any]:
    """The kernel for one combination of dtypes, as a function of the dispatcher below autograd.

    Raises:
        BuildError: the compiler refused it, or there is none.
    """
    operator = prototype.signature.name
    tools, level = compiler(source.language, operator), processor_level()
    check_order(source, prototype)
    fails = source.fails(prototype.symbol) and not prototype.scalar
    text = Shim(prototype, dtypes, fails=fails).source(str(HEADER), source.body(f"source of {operator}"))
    key = cache.key_of(
        text, source.text(), HEADER.read_text(), tools.version, " ".join(tools.arguments(source, level)),
        " ".join(source.libraries),
    )  # fmt: skip

    def make(library: Path) -> Sequence[Path]:
        file = library.with_suffix(".c")
        file.write_text(text)
        return tools.build(source, level, file, library, prototype)

    path = cache.library(key, make)
    if path not in _loaded:
        _loaded[path] = _load(path, prototype)
    return _loaded[path]


def _load(path: Path, prototype: Prototype) -> Callable[..., Any]:
    library = ctypes.CDLL(str(path))
    library.tg_load.restype = ctypes.c_char_p
    missing = library.tg_load(b"libtorch_cpu.so")
    if missing:
        raise BuildError(
            f"this torch lacks {missing.decode()}, which kernels are built on",
            operator=prototype.signature.name,
            expected="torch 2.11 or newer",
            got=f"torch {torch.__version__}",
        )
    name = f"{prototype.signature.name}_{next(_numbers)}"
    _space().define(name + prototype.signature.schema())
    if library.tg_register(SPACE.encode(), name.encode()):
        raise BuildError("torch refused to register the kernel", operator=prototype.signature.name)
    function: Callable[..., Any] = getattr(getattr(torch.ops, SPACE), name).default
    return function


_spaces: list[torch.library.Library] = []


def _space() -> torch.library.Library:
    if not _spaces:
        _spaces.append(torch.library.Library(SPACE, "FRAGMENT"))
    return _spaces[0]
