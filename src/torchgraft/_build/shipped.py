"""Libraries that a package brings along, compiled when its wheel was built: where they lie, and how they are named.

A name is made of the recipe: the source, how it is compiled, and what the annotations say. It leaves out all that may
differ where the library is used: compiler, Python, torch, and torchgraft, whose later versions must find it too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch

from .._spec.dtypes import name_of
from ..errors import BuildError
from . import cache
from .prototype import Prototype
from .source import Source
from .toolchain import processor_level

INTERFACE = 1
"""Counts changes of `shim.h` and `Shim` after which a library that was built before cannot be called."""

ON_CUDA = 1
"""Counts changes of the frame of a kernel on CUDA, likewise."""

FOLDER = "_torchgraft"
"""The folder, at the top of a package."""


def top(folder: Path) -> Path | None:
    """The outermost package that a folder is in; None where it is in none."""
    found = None
    while (folder / "__init__.py").is_file():
        found, folder = folder, folder.parent
    return found


def name(source: Source, prototype: Prototype, dtypes: Mapping[str, torch.dtype], level: str | None) -> str:
    """The file name of a shipped library.

    Args:
        dtypes: of each tensor that is there, outputs too, by name.
        level: of the processor, as `processor_level` gives it; None for any.
    """
    suffix = f"-{level}" if level else ""
    return f"{prototype.symbol}-{cache.key_of(json.dumps(_recipe(source, prototype, dtypes)))}{suffix}.so"


def name_on_cuda(
    source: Source, prototype: Prototype, dtypes: Mapping[str, torch.dtype], entry: str, architecture: str
) -> str:
    """The file name of shipped machine code.

    Args:
        entry: which kernel of the function it is.
        architecture: as ``"sm_90"``.
    """
    threads = source.launch.threads if source.launch else 0
    recipe = json.dumps([ON_CUDA, entry, threads, *_recipe(source, prototype, dtypes)])
    return f"{prototype.symbol}-{cache.key_of(recipe)}-{architecture}.cubin"


def _recipe(source: Source, prototype: Prototype, dtypes: Mapping[str, torch.dtype]) -> list[object]:
    signature = prototype.signature
    return [
        INTERFACE,
        [source.language, source.code, source.flags, source.libraries, *source.imports, *_renamed(source)],
        [signature.name, prototype.symbol, prototype.is_rule, prototype.scalar, prototype.sizes],
        [[p.name, str(p.type), p.optional, p.many] for p in signature.parameters],
        [[position, name, str(workspace)] for position, name, workspace in signature.workspaces],
        [[output.name, str(output)] for output in signature.outputs],
        sorted((name, name_of(dtype)) for name, dtype in dtypes.items()),
        *([list(map(str, prototype.late))] if prototype.late else []),
    ]


def _renamed(source: Source) -> list[object]:
    """Nothing for most sources, whose libraries have had their names before there was such an option."""
    return [["names", *source.names]] if source.names else []


def find(source: Source, prototype: Prototype, dtypes: Mapping[str, torch.dtype]) -> Path | None:
    """The library that was shipped for this processor; None where there is none."""
    folder = _folder(source)
    if folder is None:
        return None
    names = [name(source, prototype, dtypes, level) for level in dict.fromkeys((processor_level(), None))]
    return next((path for path in (folder / name for name in names) if path.is_file()), None)


def find_on_cuda(
    source: Source, prototype: Prototype, dtypes: Mapping[str, torch.dtype], entry: str, architecture: str
) -> bytes | None:
    """The machine code that was shipped for a device, or for an earlier one of its generation; None without any."""
    folder = _folder(source)
    if folder is None:
        return None
    generation, minor = architecture[:-1], architecture[-1:]
    able = [f"{generation}{number}" for number in range(int(minor), -1, -1)] if minor.isdigit() else []
    paths = (folder / name_on_cuda(source, prototype, dtypes, entry, one) for one in able)
    return next((path.read_bytes() for path in paths if path.is_file()), None)


def _folder(source: Source) -> Path | None:
    package = top(source.folder)
    return package / FOLDER if package is not None and (package / FOLDER).is_dir() else None


def unloadable(path: Path, operator: str, error: OSError) -> BuildError:
    """The error for a library that the system does not load."""
    return BuildError(
        "the library that was shipped with its package cannot be loaded",
        operator=operator,
        expected=f"{path}, as it was installed",
        got=str(error),
        hint="install the package again; for another platform than its wheel's, install it from its source",
    )


def unbuilt(source: Source, dtypes: Mapping[str, torch.dtype], error: BuildError) -> BuildError:
    """The error where nothing is shipped for a call, and nothing can be built: the compiler's, and what is shipped."""
    folder = _folder(source)
    if folder is None:
        return error
    asked = ", ".join(f"{name}: {name_of(dtype)}" for name, dtype in dtypes.items())
    return BuildError(
        f"its package ships no library for {asked}, and {error.problem}",
        operator=error.operator,
        expected=error.expected,
        got=error.got,
        hint=error.hint,
    )
