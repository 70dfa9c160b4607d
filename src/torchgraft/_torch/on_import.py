"""Actions that wait for a slow module of torch, which only some programs import."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from .names import NAMES, require

_waiting: dict[str, list[Callable[[], object]]] = {}


def once_loaded(name: str, action: Callable[[], object]) -> None:
    """Do something now if a module is loaded, or else when it is."""
    if name not in _waiting and name not in sys.modules:
        _waiting[name] = []
        sys.meta_path.insert(0, _OnImport(name))
    if name in _waiting:
        _waiting[name].append(action)
    else:
        action()


class _OnImport(MetaPathFinder):
    """Finds one module as the other finders do, and has the actions done once it is loaded."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                require(name for name in NAMES if name.startswith(fullname))  # They could not be looked up before.
                for action in _waiting.pop(fullname):
                    action()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
