"""Tensors as one real vector, and grids on which steps are exact."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

# A complex element counts as two real ones, its parts. Re<v, J u> = Re(sum(conj(v) * (J u))) is then the plain inner
# product of two such vectors, which is torch's convention of complex gradients [1]. Every element is a float64, which
# holds the values of all smaller dtypes exactly.
#
# [1] https://docs.pytorch.org/docs/stable/notes/autograd.html#autograd-for-complex-numbers


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors, in order, as one new float64 vector on the CPU."""
    real = [torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in tensors]
    flat = [tensor.detach().reshape(-1).to("cpu", torch.float64) for tensor in real]
    return torch.cat(flat or [torch.empty(0, dtype=torch.float64)])


class Layout:
    """The places of some tensors in one real vector.

    Args:
        like: tensors of these shapes, strides, dtypes and devices.

    Attributes:
        slices: of the vector, one for each tensor.
        size: of the vector.
    """

    def __init__(self, like: Sequence[Tensor]) -> None:
        self._like = [torch.empty_like(tensor) for tensor in like]  # They are dense, with the same order of axes.
        self._sizes = [t.numel() * (2 if t.is_complex() else 1) for t in like]
        ends = list(itertools.accumulate(self._sizes, initial=0))
        self.slices = [slice(a, b) for a, b in itertools.pairwise(ends)]
        self.size = ends[-1]

    def unflatten(self, vector: Tensor) -> list[Tensor]:
        """New tensors of this layout with the elements of the vector, rounded where they must be."""
        made = [torch.empty_like(tensor) for tensor in self._like]
        for tensor, piece in zip(made, vector.split(self._sizes), strict=True):
            real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            real.copy_(piece.view(real.shape))
        return made


# -- points and directions on dyadic grids ---------------------------------------------------------------------------

# There x + h u is exact for every step h that is used. Elsewhere the rounding of x + h u is the largest error of a
# difference: in float32 it leaves two or three digits.


@dataclass(frozen=True)
class Grid:
    """Shares of a dtype's digits for points, directions and steps, which are powers of two.

    Attributes:
        digits: of the dtype's significand.
        bits: of an element of a direction: it has 2**bits values of either sign.
        first: the largest step is 2**-first.
        depth: the smallest is 2**-depth.
        wrong: the power of epsilon beyond which a relative error is no loss of digits, as 1e-6 in float64 is.
    """

    digits: int
    bits: int
    first: int
    depth: int
    wrong: float = 3 / 8

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next number."""
        return 2.0 ** (1 - self.digits)

    @property
    def smallest(self) -> float:
        """The smallest step of differences."""
        return 2.0**-self.depth

    def unit(self, x: Tensor) -> Tensor:
        """A power of two for each element of one tensor: the size of its changes.

        That is 1; less where all elements are less, and more for an element so large that it has no digits for changes
        of the size of 1.
        """
        binade = _binade(torch.where(x.isfinite(), x, 0))
        common = min(1.0, float(binade.max()) if len(binade) else 0.0) or 1.0
        return (binade * 2.0 ** (self.bits + self.depth + 3 - self.digits)).clamp(min=common)

    def snap(self, x: Tensor) -> Tensor:
        """`x`, float64, rounded to where changes along a direction are exact; nothing becomes 0 or changes sign."""
        spacing = self.unit(x) * 2.0 ** -(self.bits + self.depth)
        rounded = (x / spacing).round() * spacing
        return torch.where((rounded == 0) & (x != 0), torch.copysign(spacing, x), rounded)

    def direction(self, x: Tensor, generator: torch.Generator, *, relative: bool = False) -> Tensor:
        """A random direction from a snapped `x`, float64: elements of +-[1/2, 3/2) times a power of two.

        What is not finite stays as it is.

        Args:
            relative: the power of two is that of the element itself, which suits log and sqrt near 0; else `unit`.
        """
        unit = self.unit(x)
        if relative:
            binade = _binade(x) / 2
            unit = torch.where(binade > 0, binade, unit)
        return torch.where(x.isfinite(), signed(len(x), generator, self.bits) * unit, 0)


GRIDS = {
    torch.float64: Grid(digits=53, bits=14, first=3, depth=18),
    torch.float32: Grid(digits=24, bits=7, first=2, depth=10),
    torch.float16: Grid(digits=11, bits=3, first=1, depth=5),
    torch.bfloat16: Grid(digits=8, bits=2, first=1, depth=4),
}


def grid_of(tensors: Iterable[Tensor], accuracy: float | None = None) -> Grid:
    """The grid that suits all of these: that of the dtype with the fewest digits, or of an accuracy that has fewer.

    Numbers that are right to an accuracy take the wide steps of a dtype that has as few digits.
    """
    grids = [GRIDS[dtype] for dtype in {tensor.dtype.to_real() for tensor in tensors}]
    if accuracy is not None:
        digits = max(1 - round(math.log2(accuracy)), min(grid.digits for grid in GRIDS.values()))
        like = max((grid for grid in GRIDS.values() if grid.digits <= digits), key=lambda grid: grid.digits)
        grids.append(replace(like, digits=digits, wrong=1 / 2))
    return min(grids, key=lambda grid: grid.digits)


def signed(size: int, generator: torch.Generator, bits: int = 24) -> Tensor:
    """Random numbers of +-[1/2, 3/2) that have `bits` binary places.

    Not +-1, with which two equal errors cancel every second time: here they do once in 2**bits.
    """
    scale = int(2**bits)
    drawn = torch.randint(-scale, scale, (size,), generator=generator).double() / scale
    return drawn + torch.copysign(torch.tensor(0.5, dtype=torch.float64), drawn)


def _binade(x: Tensor) -> Tensor:
    """For each element the least power of two above its magnitude, 0 for 0."""
    mantissa: Tensor = torch.frexp(x).mantissa
    # This is exact; exp2 of the exponent need not be.
    binade: Tensor = torch.where(mantissa == 0, mantissa, x / mantissa)
    return binade
