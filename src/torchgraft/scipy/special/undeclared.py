"""`torch.ops.torchgraft`, in which a saved graph finds operators whose modules were not imported yet."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import torch

from ..._lower.dispatcher_op import is_being_defined

_modules: list[str] = []


class _Namespace(type(torch.ops.torchgraft)):  # type: ignore[misc]
    """The namespace, which imports all modules before it says that an operator does not exist."""

    __module__ = type(torch.ops.torchgraft).__module__  # Saved programs name operators by it.

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__") or is_being_defined(f"torchgraft::{name}"):
                raise
        for module in _modules:
            importlib.import_module(module)  # Where another thread imports it, this waits.
        return vars(self)[name] if name in vars(self) else super().__getattr__(name)  # One object for each operator.


def declare_when_asked(modules: Sequence[str]) -> None:
    """From now on, an operator of `torch.ops.torchgraft` that is not known is looked for in modules.

    Args:
        modules: their full names; their import declares operators.
    """
    _modules.extend(modules)
    torch.ops.torchgraft.__class__ = _Namespace
