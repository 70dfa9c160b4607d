"""Tensors as one real vector, in which derivatives are plain matrices.

A complex element is two real ones, its parts, so that Re<v, J u> = Re(sum(conj(v) * (J u))) is the plain inner product
of two such vectors: torch's convention of complex gradients [1]. Every element is a float64, which holds the values of
all smaller dtypes exactly.

[1] https://docs.pytorch.org/docs/stable/notes/autograd.html#autograd-for-complex-numbers
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors, in order, as one float64 vector on the CPU."""
    if len(tensors) == 1:
        return _real(tensors[0])
    return torch.cat([_real(tensor) for tensor in tensors]) if tensors else torch.empty(0, dtype=torch.float64)


def _real(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.reshape(-1).to("cpu", torch.float64)


class Layout:
    """How some tensors lie in one real vector.

    Args:
        like: tensors of these shapes, strides, dtypes and devices.

    Attributes:
        slices: of the vector, one for each tensor.
        size: of the vector.
    """

    def __init__(self, like: Sequence[Tensor]) -> None:
        self._like = [torch.empty_like(tensor) for tensor in like]  # dense, and with the same order of axes
        sizes = [t.numel() * (2 if t.is_complex() else 1) for t in like]
        ends = list(itertools.accumulate(sizes, initial=0))
        self.slices = [slice(a, b) for a, b in itertools.pairwise(ends)]
        self.size = ends[-1]

    def unflatten(self, vector: Tensor) -> list[Tensor]:
        """Such tensors with the elements of the vector, rounded where they must be."""
        return [_shaped(vector[place], like) for place, like in zip(self.slices, self._like, strict=True)]


def _shaped(piece: Tensor, like: Tensor) -> Tensor:
    """A new tensor."""
    shaped = torch.view_as_complex(piece.clone().view(*like.shape, 2)) if like.is_complex() else piece.view(like.shape)
    return torch.empty_like(like).copy_(shaped)
