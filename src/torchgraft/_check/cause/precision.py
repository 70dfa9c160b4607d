"""Digits that were lost: a gradient that passed through a smaller dtype."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .look import Array, Block
from .proposal import Proposal, mechanism

UNITS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Half a unit in the last place of 1."""


@mechanism("precision")
def precision(block: Block, mask: Array) -> Iterator[Proposal]:
    """Entries are off by roundings of a smaller dtype, each by its own."""
    size = np.abs(block.numeric)
    whole = size[np.isfinite(size)].max(initial=0)
    for dtype, unit in UNITS.items():
        if block.look.eps >= unit:
            continue
        hint = f"compute in the dtype of the input; look for constants, buffers or conversions in {dtype}"
        if (block.wrong & mask).sum() > 1 and (_rounded(block.analytic, dtype) == block.analytic).all():
            words = f"is rounded to {dtype}: all its elements are {dtype} numbers"
            yield Proposal("precision", words, block.numeric, block.estimate + 4 * unit * whole, 1.3, hint)
        if dtype == "float32":  # the errors of smaller ones are large enough for a mistake to hide among them
            words = "has the precision of float32 only"
            yield Proposal("precision", words, block.numeric, block.estimate + unit * size, 5.5, hint)
            yield Proposal("precision", words, block.numeric, block.estimate + unit * whole, 5.7, hint)


def _rounded(values: Array, dtype: str) -> Array:
    if np.iscomplexobj(values):
        both: Array = _rounded(values.real, dtype) + 1j * _rounded(values.imag, dtype)
        return both
    with np.errstate(over="ignore"):
        if dtype == "float16":
            return values.astype(np.float16).astype(float)
        single = values.astype(np.float32)
    if dtype == "bfloat16":
        bits = single.view(np.uint32)
        single = (bits & np.uint32(0xFFFF0000)).view(np.float32)
    return single.astype(float)
