"""Complex numbers: a conjugate that is missing, a part that is dropped."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .look import Array, Block
from .proposal import Proposal, mechanism

HINT = "for complex inputs multiply the upstream gradient by the conjugate of the derivative: grad * derivative.conj()"


@mechanism("conjugate")
def conjugate(block: Block, mask: Array) -> Iterator[Proposal]:
    """The derivative is not conjugated, or the gradient or the upstream gradient is."""
    j, e = block.numeric, block.estimate
    if block.folded:
        yield Proposal("conjugate", "lacks a conjugate (conj)", j.conj(), e, 0.7, HINT)
        yield Proposal("conjugate", "drops the imaginary part of the derivative", j.real + 0j, e, 1, HINT)
        yield Proposal("conjugate", "drops the real part of the derivative", 1j * j.imag, e, 1.2, HINT)
        return
    rows, columns = _signs(block.output.pairs, j.shape[0])[:, None], _signs(block.input.pairs, j.shape[1])
    for words, sign, cost in (
        ("lacks a conjugate (conj), or has one too many: its imaginary part has the wrong sign", columns, 0.7),
        (f"is wrong by a conjugate (conj) of the upstream gradient of {block.output.name}", rows, 0.8),
        ("lacks a conjugate (conj) of the derivative", rows * columns, 0.7),
    ):
        if (sign < 0).any():
            yield Proposal("conjugate", words, j * sign, e, cost, HINT)
        if (sign < 0).any() and sign is not rows * columns:
            kept = sign > 0
            what = "of the upstream gradient" if sign is rows else ""
            yield Proposal("conjugate", f"drops the imaginary part {what}".rstrip(), j * kept, e * kept, 0.9, HINT)


def _signs(pairs: bool, size: int) -> Array:
    signs: Array = np.ones(size)
    if pairs:
        signs[1::2] = -1
    return signs
