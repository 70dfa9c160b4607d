"""Operators in torch under the transforms of the matrix, on another device than the CPU.

Autograd calls a backward of such a device on a thread of its own.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch

from .. import matrix
from ..cases import Case
from ..transforms import TRANSFORMS
from .own import moved

LEFT_OUT = ("inference_mode", "recording after no_grad and inference_mode")
"""Tensors of this device know no inference mode."""
EAGER = [t for t in TRANSFORMS if not any(word in t.group + t.name for word in ("ompile", "xport", *LEFT_OUT))]


class Moved(Case):
    """A case with its tensors on the device."""

    def arguments(self, dtype: torch.dtype = torch.float64) -> list[Any]:
        return moved(super().arguments(dtype))


def looked_at(start: int, step: int) -> tuple[int, dict[str, str]]:
    """How many cells were judged, and those that are not as on the CPU."""
    cases = [case for case in matrix.MATRIX if case.torch_kernel][start::step]
    cells = [(Moved(**{f.name: getattr(case, f.name) for f in fields(case)}), t) for case in cases for t in EAGER]
    other = {}
    for case, transform in cells:
        try:
            judged = matrix.judge(case, transform)
        except Exception as error:
            judged = repr(error)
        if judged != matrix.expected(case, transform):
            other[f"{case.name}, {transform.name}"] = judged
    return len(cells), other
