"""DTensors that are changed in place between a call and its backward: what a rule saved of them must not seem fresh."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from .. import _torch


class Watch:
    """Watches the DTensors of one call for changes in place.

    Rules save the tensors of this rank. A change in place of a DTensor counts up the version of the DTensor alone, so
    that the saved tensors seem to be as they were. Before anything reads them, their versions follow.
    """

    __slots__ = ("_watched",)

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._watched: list[weakref.ref[Any]] = []
        self.add(tensors)

    def add(self, tensors: Sequence[Any]) -> None:
        """Watch DTensors from now on; not beyond their lives."""
        for tensor in tensors:
            if not tensor.is_inference():
                _follow(tensor)
                self._watched.append(weakref.ref(tensor))

    def look(self) -> None:
        """Mark what has been changed, before rules read what they saved."""
        for reference in self._watched:
            tensor = reference()
            if tensor is not None:
                _follow(tensor)


def _follow(tensor: Any) -> None:
    """Count up the version of a DTensor's part if the DTensor has been changed since this was called last."""
    version = tensor._version
    known = getattr(tensor, "_torchgraft_version", None)
    if known != version:
        tensor._torchgraft_version = version
        if known is not None:
            torch.autograd.graph.increment_version(_torch.local_part(tensor))
