"""Preparations for Dynamo, which its import alone makes necessary.

The import takes a second: those who never compile shall not wait for it. What Dynamo has to be told is kept until
something else imports it; and the calls of operators, which are generated when they are first called, are generated
then, for Dynamo must not meet one that changes while it traces.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from .. import _torch

_waiting: list[Callable[[], object]] = []


def once_loaded(action: Callable[[], object]) -> None:
    """Do something now if Dynamo is loaded, or else when it is."""
    if _imported:
        action()
    else:
        _waiting.append(action)


def allow(function: Callable[..., Any]) -> None:
    """Have Dynamo put a function into its graphs as it is."""
    once_loaded(lambda: torch.compiler.allow_in_graph(function))


class _OnImport(MetaPathFinder):
    """Finds Dynamo as the other finders do, and has what is waiting told to it once it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _torch.DYNAMO:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                _tell()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _tell() -> None:
    global _imported
    _imported = True
    _torch.require()  # Names of Dynamo could not be looked up before.
    while _waiting:
        _waiting.pop()()


_imported = _torch.DYNAMO in sys.modules
if not _imported:
    sys.meta_path.insert(0, _OnImport())
