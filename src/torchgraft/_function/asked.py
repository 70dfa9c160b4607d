"""The answer where forward asks which of its arguments require grad: under transforms, tensors do not say so."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._lower.watch import Watch, is_ours
from .._spec.dtypes import is_inexact


def has_derivative(value: Any) -> bool:
    """Return True if a value is a tensor that is differentiated at some transform level."""
    if not isinstance(value, Tensor) or not is_inexact(value.dtype):
        return False
    return _torch.has_derivative(value)


def _asked_by_us(frame: types.FrameType) -> bool:
    """Return True if our own code asks, which wants the truth; a `Watch` hands on the questions of user code."""
    if frame.f_code is Watch.__torch_function__.__code__ and frame.f_back is not None:
        frame = frame.f_back
    return is_ours(frame)


class Answering(torch.overrides.TorchFunctionMode):
    """Within, arguments say that they require grad where they do at some level, as they do in eager code.

    Args:
        args: the arguments.
        needs: for each the answer; None where it is not known, and whatever the tensor says is told.

    Attributes:
        asked: the position of the first argument that was asked; None while none was.
    """

    def __init__(self, args: Sequence[Any], needs: Sequence[bool] | None) -> None:
        super().__init__()
        self.asked: int | None = None
        self._needs = needs
        self._positions = {id(arg): i for i, arg in enumerate(args) if isinstance(arg, Tensor)}

    def __torch_function__(
        self, func: Any, classes: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call `func`, or answer in its place."""
        asks = getattr(func, "__self__", None) is Tensor.requires_grad and id(args[0]) in self._positions
        if asks and not _asked_by_us(sys._getframe(1)):
            position = self._positions[id(args[0])]
            if self.asked is None:
                self.asked = position
            if self._needs is not None:
                return self._needs[position]
        return func(*args, **(kwargs or {}))
