"""Functions that Dynamo puts into its graphs as they are.

Telling Dynamo means importing it, which takes a second: those who never compile shall not wait for it. Functions are
kept until something else imports it.
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

_waiting: list[Callable[..., Any]] = []


def allow(function: Callable[..., Any]) -> None:
    """Apply `torch.compiler.allow_in_graph`, now or when Dynamo is there."""
    if _imported:
        torch.compiler.allow_in_graph(function)
    else:
        _waiting.append(function)


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
        torch.compiler.allow_in_graph(_waiting.pop())


_imported = _torch.DYNAMO in sys.modules
if not _imported:
    sys.meta_path.insert(0, _OnImport())
