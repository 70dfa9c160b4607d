"""One call of a rule that is an operator of the dispatcher, and how it is passed there.

All such rules have one schema: the tensors that the rule reads, how many of them each name has and how many leading
axes each carries, sizes of named axes, the shape and dtype of each result, then the rule's non-tensor arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._spec.axes import Shape

SCHEMA = (
    "(Tensor[] reads, int[] counts, int[] leads, SymInt[] sizes, SymInt[] shapes, int[] ranks, int[] dtypes{scalars})"
    " -> Tensor[]"
)
_DTYPES = [
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128,
]  # fmt: skip


@dataclass(frozen=True)
class RuleCall:
    """The arguments of one call of a rule that is an operator, unpacked.

    Attributes:
        reads: the tensors, flat.
        counts: for each tensor name that the rule reads, how many of `reads` are its own; 0 stands for None.
        leads: leading axes of each of `reads`.
        sizes: of the operator's named axes, for a rule in C.
        results: shape and dtype of each result, leading axes included.
        scalars: non-tensor arguments that the rule reads, in its order.
    """

    reads: tuple[Tensor, ...]
    counts: tuple[int, ...]
    leads: tuple[int, ...]
    sizes: tuple[int, ...]
    results: tuple[tuple[Shape, torch.dtype], ...]
    scalars: tuple[Any, ...]

    @property
    def batch_rank(self) -> int:
        return max(self.leads, default=0)

    def pack(self) -> tuple[Any, ...]:
        """The call in the operator's schema."""
        return (
            list(self.reads),
            list(self.counts),
            list(self.leads),
            list(self.sizes),
            [size for shape, _ in self.results for size in shape],
            [len(shape) for shape, _ in self.results],
            [_DTYPES.index(dtype) for _, dtype in self.results],
            *self.scalars,
        )

    @classmethod
    def unpack(cls, args: Sequence[Any]) -> RuleCall:
        reads, counts, leads, sizes, shapes_flat, ranks, dtypes, *scalars = args
        rest = iter(shapes_flat)
        shapes = [tuple(next(rest) for _ in range(rank)) for rank in ranks]
        results = tuple(zip(shapes, [_DTYPES[i] for i in dtypes], strict=True))
        return cls(tuple(reads), tuple(counts), tuple(leads), tuple(sizes), results, tuple(scalars))
