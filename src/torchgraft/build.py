"""A build hook for hatchling: an extension package's kernels, compiled ahead of time into its wheel.

With this in ``pyproject.toml``, ``pip wheel`` makes a wheel that needs no compiler where it is installed, and that
serves every Python and every torch that torchgraft knows::

    [build-system]
    requires = ["hatchling", "torchgraft"]
    build-backend = "hatchling.build"

    [tool.hatch.build.targets.wheel.hooks.torchgraft]
    modules = ["mypackage.ops"]                 # whose operators in C and C++ are compiled
    dtypes = ["float32", "float64"]             # for these dtypes; this is the default
    platform = "manylinux_2_28_x86_64"          # of the wheel's tag; this machine's by default
    cuda = ["80", "90"]                         # compute capabilities of GPUs; none by default

The modules are imported from the source tree. Each function in C or C++ of their operators, kernel or rule, is compiled
for each combination of dtypes that its annotations admit, once for any processor and once for newer ones. Other dtypes
are compiled where they are needed, as everything is in an editable installation.

With `cuda`, the functions that run on CUDA are compiled for these GPUs too, by NVRTC and without one; each serves the
later GPUs of its generation. What NVRTC refuses is named in a warning. Other GPUs compile on arrival, and so do tensors
of more than 2^31 elements.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl

from ._build import library, shipped, toolchain
from ._build.combinations import combinations, combinations_on_cuda, read_dtypes
from ._build.cuda import launcher
from ._build.cuda.device import CUDA, architectures
from ._build.cuda.function import machine_code_of
from ._build.cuda.text import ENTRIES
from ._build.native_function import NativeFunction
from ._op import Op
from ._rules.weighed import weighed
from .errors import BuildError, DeclarationError

_LEVELS = {"x86_64": (None, "x86-64-v3"), "AMD64": (None, "x86-64-v3")}


@hookimpl
def hatch_register_build_hook() -> type[NativeBuildHook]:
    """Return the build hook, for which hatchling asks.

    Example:
        >>> hatch_register_build_hook().PLUGIN_NAME
        'torchgraft'
    """
    return NativeBuildHook


class NativeBuildHook(BuildHookInterface[BuilderConfig]):
    """The hook ``torchgraft`` of hatchling, which calls it for each wheel.

    Raises:
        BuildError: the configuration or an operator cannot be built, or the libraries need more than `platform` has.

    Example:
        >>> NativeBuildHook.PLUGIN_NAME
        'torchgraft'
    """

    PLUGIN_NAME = "torchgraft"

    _scratch: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into a folder that lasts until the wheel is written; an editable one compiles when it is used."""
        if self.target_name != "wheel" or version == "editable":
            return
        options = _Options.read(self.config)
        self._scratch = Path(tempfile.mkdtemp(prefix="torchgraft-"))
        root = _source_root(Path(self.root), options.modules)
        files = {}
        for package, functions in _functions(root, options.modules).items():
            folder = self._scratch / package
            for path in _compile(functions, options.dtypes, folder):
                files[str(path)] = str(package / shipped.FOLDER / path.name)
            if package.name == __package__:
                files[str(_launcher(folder))] = str(package / shipped.FOLDER / launcher.shipped_name())
        self._check_platform(options.platform, [Path(path) for path in files])
        for package, functions in _functions(root, options.modules).items():
            for path in self._cubins(functions, options, self._scratch / package):
                files[str(path)] = str(package / shipped.FOLDER / path.name)
        build_data["force_include"].update(files)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{options.platform}"
        self.app.display_info(f"torchgraft: {len(files)} libraries for {options.platform}")

    def _cubins(self, functions: Sequence[NativeFunction], options: _Options, folder: Path) -> Iterator[Path]:
        """Compile the functions that run on CUDA; what NVRTC refuses stays out."""
        for function in functions if options.cuda else ():
            source, prototype = function.source, function.prototype
            if function.unfit is not None:
                continue
            entries = ENTRIES[:1] if source.launch else ENTRIES[:2] if prototype.scalar else ENTRIES[1:2]
            try:
                every = combinations_on_cuda(prototype, source, options.dtypes)
                for names, entry, architecture in product(every, entries, options.cuda):
                    path = folder / shipped.name_on_cuda(source, prototype, names, entry, architecture)
                    path.write_bytes(machine_code_of(source, prototype, names, entry, architecture, CUDA))
                    yield path
            except (BuildError, DeclarationError) as error:
                self.app.display_warning(f"torchgraft: not compiled for CUDA: {error}")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Drop what is in the wheel now."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _check_platform(self, tag: str, libraries: Sequence[Path]) -> None:
        allowed = _glibc_of(tag)
        if allowed is None:
            return
        needed = _glibc_needed(libraries)
        if needed is None:
            self.app.display_warning(f"torchgraft: there is no objdump, so that nobody knows whether this is {tag}")
        elif needed > allowed:
            raise BuildError(
                "the libraries need a newer glibc than the wheel's platform has", argument="platform",
                expected=f"at most {_dotted(allowed)}, as {tag} says", got=_dotted(needed),
                hint=f"build in the container of {tag}, or with  CC='python -m ziglang cc -target "
                f"{platform.machine()}-linux-gnu.{_dotted(allowed)}'; or say platform = 'manylinux_"
                f"{_dotted(needed).replace('.', '_')}_{platform.machine()}'",
            )  # fmt: skip


@dataclass(frozen=True)
class _Options:
    """The hook's table in ``pyproject.toml``."""

    modules: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    platform: str
    cuda: tuple[str, ...]

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> _Options:
        here = re.sub(r"[-.]", "_", sysconfig.get_platform())
        values = {"dtypes": ["float32", "float64"], "platform": here, "cuda": []} | dict(config)
        known = {"modules", "dtypes", "platform", "cuda", *_OF_HATCH}
        for name in values.keys() - known:
            raise _refuse(name, f"one of {', '.join(sorted(known - _OF_HATCH))}", name)
        for name in ("modules", "dtypes"):
            given = values.get(name)
            if not isinstance(given, list) or not given or not all(isinstance(item, str) for item in given):
                raise _refuse(name, "a list of names", given)
        if not isinstance(values["platform"], str):
            raise _refuse("platform", "the platform of a wheel's tag", values["platform"])
        dtypes, cuda = read_dtypes(values["dtypes"]), architectures(values["cuda"])
        return cls(tuple(values["modules"]), dtypes, values["platform"], cuda)


_OF_HATCH = {"dependencies", "require-runtime-dependencies", "require-runtime-features", "enable-by-default"}


def _refuse(argument: str, expected: str, got: object) -> BuildError:
    return BuildError(
        "[tool.hatch.build...hooks.torchgraft] cannot be read", argument=argument, expected=expected, got=got
    )


# -- what there is to compile -----------------------------------------------------------------------------------------


def _source_root(project: Path, modules: Sequence[str]) -> Path:
    """The folder from which the modules are imported: ``src`` or the project's own."""
    parts = modules[0].split(".")[0]
    for folder in (project / "src", project):
        if (folder / parts / "__init__.py").is_file():
            return folder
    raise _refuse("modules", f"packages in {project / 'src'} or {project}", modules[0])


def _functions(root: Path, modules: Sequence[str]) -> dict[Path, list[NativeFunction]]:
    """The functions that the modules' own operators have, by the package that ships them, relative to `root`."""
    found: dict[Path, list[NativeFunction]] = {}
    for name in modules:
        operators = {id(value): value for value in vars(_imported(root, name)).values() if isinstance(value, Op)}
        functions = [f for op in operators.values() for f in _natives(op) if root in f.source.folder.parents]
        if not functions:
            raise BuildError(
                "there is nothing to compile", argument=name, expected="an operator with a function in C or C++",
                got=", ".join(op.__name__ for op in operators.values()) or "no operator",
            )  # fmt: skip
        for function in functions:
            package = shipped.top(function.source.folder)
            assert package is not None  # The module was imported from a package.
            found.setdefault(package.relative_to(root), []).append(function)
    return found


def _natives(op: Op[..., Any]) -> Iterator[NativeFunction]:
    """The functions in C and C++ that calls of an operator may run, also those that we make of partial derivatives."""
    record = op._record
    yield from record.natives()
    for rule in record.rules["partial"].values():
        gradient = weighed(record.signature, rule)
        yield from [gradient] if gradient is not None else []


def _imported(root: Path, name: str) -> ModuleType:
    sys.path.insert(0, str(root))
    try:
        module = importlib.import_module(name)
    finally:
        sys.path.remove(str(root))
    file = Path(module.__file__ or "").resolve()
    if not file.is_relative_to(root.resolve()):
        raise BuildError("another package has this name", argument=name, expected=f"a module in {root}", got=str(file))
    return module


def _compile(functions: Sequence[NativeFunction], dtypes: Sequence[torch.dtype], folder: Path) -> list[Path]:
    """Compile functions into a folder, and load what this machine can load."""
    folder.mkdir(parents=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        on_cpu = [function for function in functions if function.source.launch is None]
        tasks = {path: (f, names, level) for f in on_cpu for names, level, path in _recipes(f, dtypes, folder)}
        return list(pool.map(_compile_one, tasks, *zip(*tasks.values(), strict=True)))


def _recipes(
    function: NativeFunction, dtypes: Sequence[torch.dtype], folder: Path
) -> Iterator[tuple[dict[str, torch.dtype], str | None, Path]]:
    source, prototype = function.source, function.prototype
    every = list(combinations(prototype, dtypes))
    if not every:
        raise BuildError(
            "the annotations admit none of the dtypes", operator=function.label, argument="dtypes",
            expected="; ".join(f"{p.name}: {p.type}" for _, p in prototype.signature.tensors),
            got=", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes),
        )  # fmt: skip
    for names in every:
        for level in _LEVELS.get(platform.machine(), (None,)):
            yield names, level, folder / shipped.name(source, prototype, names, level)


def _compile_one(path: Path, function: NativeFunction, dtypes: Mapping[str, torch.dtype], level: str | None) -> Path:
    source, prototype = function.source, function.prototype
    compiler = toolchain.compiler(source.language, function.label)
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / path.name
        file = library.write_source(made, source, library.source_of(source, prototype, dtypes))
        compiler.build(source, level, file, made, prototype)
        shutil.copyfile(made, path)
    if level in (None, toolchain.processor_level()):
        library.load(path, source, prototype)
    return path


def _launcher(folder: Path) -> Path:
    """Compile what launches kernels on CUDA, which the wheel of torchgraft has for all packages."""
    made = folder / launcher.shipped_name()
    launcher.build(made)
    made.with_suffix(".c").unlink()
    return made


# -- platforms --------------------------------------------------------------------------------------------------------


def _glibc_of(tag: str) -> tuple[int, int] | None:
    """The glibc that a platform tag promises; None for one that promises nothing."""
    named = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}.get(tag.partition("_")[0])
    found = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    return (int(found[1]), int(found[2])) if found else named


def _glibc_needed(libraries: Sequence[Path]) -> tuple[int, int] | None:
    """The newest glibc that a symbol of a library asks for; None without ``objdump``, which tells."""
    if not shutil.which("objdump"):
        return None
    command = ["objdump", "-T", *map(str, libraries)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return max(((int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", text)), default=(2, 0))


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
