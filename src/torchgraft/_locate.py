"""Finding what a command line names: modules, files and folders, and what they declare."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import itertools
import linecache
import os
import pkgutil
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ._op import Op
from .errors import DeclarationError


def find_operator(place: str) -> Op[..., Any]:
    """The operator that ``file.py:name`` or ``package.module:name`` names; its module is imported.

    Raises:
        DeclarationError: there is no such operator.
    """
    module_name, _, name = place.rpartition(":")
    if not module_name or not name:
        raise DeclarationError("names no operator", argument=place, expected="file.py:name", got=place)
    module = load(module_name)
    found = attribute(module, name)
    if not isinstance(found, Op):
        known = [key for key in dir(module) if isinstance(getattr(module, key, None), Op)]
        raise DeclarationError(
            "is no operator", operator=name, expected=", ".join(known) or f"a tg.op in {module_name}", got=repr(found)
        )
    return found


def attribute(module: ModuleType, name: str) -> Any:
    """Find the object of a dotted name in a module; None if there is none."""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def split(place: str) -> tuple[str, str]:
    """The module or file of a place, and the name in it; the name is empty where the place is all of a module."""
    before, colon, name = place.rpartition(":")
    if not colon or not re.fullmatch(r"\w+(\.\w+)*", name):  # C:\ops.py has such a colon too.
        return place, ""
    return before, name


# -- importing ------------------------------------------------------------------------------------------------------


def load(name: str) -> ModuleType:
    """The module of that name, or of that file; a file in a package is imported as a part of it.

    Raises:
        DeclarationError: it cannot be imported; the text shows the line of the user's that failed.
    """
    try:
        return _load_file(Path(name).resolve()) if _is_path(name) else _load_module(name)
    except (Exception, SystemExit) as error:  # The code that ran is the user's.
        lines = f"{type(error).__name__}: {error}".splitlines()
        line = own_line(error)
        raise DeclarationError(
            "cannot be imported", argument=name, expected="a Python file, or a module",
            got="\n            ".join(lines), hint=None if line is None else f"look at {line}",
        ) from error  # fmt: skip


def _is_path(name: str) -> bool:
    return name.endswith(".py") or "/" in name or os.sep in name


def _load_module(name: str) -> ModuleType:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # `python -m` does so.
    return importlib.import_module(name)


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    name, folder = _module_name(path)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # Python does so for a script.
    if "." in name or path.name == "__init__.py":
        return importlib.import_module(name)
    for number in itertools.count(2):  # A file may have the name of another one, or of a module of Python's own.
        known = sys.modules.get(name)
        if known is None:
            break
        if getattr(known, "__file__", None) == str(path):
            return known
        name = f"{path.stem}_{number}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _module_name(path: Path) -> tuple[str, Path]:
    """The dotted name of a file, and the folder that it is found from: the first that is no package."""
    parts, folder = [] if path.name == "__init__.py" else [re.sub(r"\W", "_", path.stem)], path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts), folder


def own_line(error: BaseException) -> str | None:
    """The last line of the user's own that ran, with its text; None if there is none."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return _shown(error.filename, error.lineno or 0)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not foreign(f.filename)]
    return _shown(frames[-1].filename, frames[-1].lineno or 0) if frames else None


_PACKAGES = {"site-packages", "dist-packages"}


def foreign(file: str) -> bool:
    """Return True if a file belongs to Python, to an installed package, or to torchgraft: not to who runs a command."""
    if file.startswith("<"):
        return True
    if not _PACKAGES.isdisjoint(Path(file).parts):  # Those of a user, or of the system beside an environment, too.
        return True
    installed = (sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib"))
    return any(Path(file).is_relative_to(folder) for folder in [*installed, str(Path(__file__).parent)])


def _shown(file: str, line: int) -> str:
    path = Path(file)
    short = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{short}, line {line}:\n    {linecache.getline(file, line).strip()}"


# -- what is inside of a place --------------------------------------------------------------------------------------

_DECLARES = re.compile(r"\b(torchgraft|autograd|library)\b")
_SKIPPED = re.compile(r"test_.*|.*_test|tests?|conftest|setup|__main__|__pycache__|build|dist|site|node_modules|\..*")


def expand(name: str) -> list[str]:
    """The modules and files that a name stands for: a package or a folder is all that may declare something in it.

    Tests are left out, and files in which neither ``torchgraft`` nor ``autograd`` nor ``library`` occurs: to import a
    file runs it. Modules that the package has imported have run, and count: they may declare by helpers of its own.
    So do those that it imports when it is asked for what it exports.

    Raises:
        DeclarationError: there is no such module, or a package cannot be imported.
    """
    if Path(name).is_dir():
        return sorted(path.as_posix() for path in _files(Path(name)))
    if _is_path(name):
        return [name]
    module = load(name)
    if not hasattr(module, "__path__"):
        return [name]
    for exported in set(dir(module)) - set(vars(module)):
        with contextlib.suppress(AttributeError, ImportError):  # It may need what is not installed.
            getattr(module, exported)
    return [name, *_submodules(module)]


def _files(folder: Path) -> Iterator[Path]:
    if (folder / "pyvenv.cfg").exists():
        return
    for path in folder.iterdir():
        if _SKIPPED.fullmatch(path.stem if path.suffix == ".py" else path.name):
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.suffix == ".py" and _declares(path):
            yield path


def _submodules(package: ModuleType) -> Iterator[str]:
    for found in sorted(pkgutil.iter_modules(package.__path__, f"{package.__name__}."), key=lambda found: found.name):
        if _SKIPPED.fullmatch(found.name.rpartition(".")[2]):
            continue
        spec = importlib.util.find_spec(found.name)
        if found.ispkg:
            yield from expand(found.name)
        elif found.name in sys.modules or (spec is not None and spec.origin and _declares(Path(spec.origin))):
            yield found.name


def _declares(path: Path) -> bool:
    return path.suffix == ".py" and _DECLARES.search(path.read_text(encoding="utf-8", errors="replace")) is not None
