"""Other points than the given one, at which the same target is looked at.

Only what the caller gave is known to be admitted: a matrix may have to be positive, a table sorted. Therefore other
points are made of the numbers that are given, and those that the target refuses are not taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .baseline import generator, signed
from .case import Case
from .generate.values import within


def nearby(case: Case, salt: int = 0, spread: float = 2.0**-10) -> list[Tensor]:
    """Other primals, so near that the target takes them as well: each number is larger or smaller by about `spread`."""
    source = generator(case, 41, salt)

    def moved(primal: Tensor) -> Tensor:
        return (primal * (1 + signed(primal.real if primal.is_complex() else primal, source) * spread)).to(primal.dtype)

    return [moved(primal) for primal in case.primals]


def untied(case: Case) -> list[Tensor]:
    """Other primals nearby, of which none that were equal are: with few digits they have to go further apart."""
    source = generator(case, 43)
    return [_untied(primal, source) for primal in case.primals]


def _untied(x: Tensor, source: torch.Generator) -> Tensor:
    if x.is_complex():
        return torch.view_as_complex(_untied(torch.view_as_real(x), source))
    flat = x.flatten()
    _, group, counts = flat.unique(return_inverse=True, return_counts=True)
    shuffled = torch.randperm(len(flat), generator=source).to(x.device)
    order = shuffled[group[shuffled].argsort(stable=True)]  # one group of equal elements after another
    rank = torch.empty_like(group)
    rank[order] = torch.arange(len(flat), device=x.device) - (counts.cumsum(0) - counts)[group[order]]
    count, epsilon = counts[group].double(), torch.finfo(x.dtype).eps
    step = (2.0**-3 / count).clamp(max=32 * epsilon).maximum(2.0**-10 / count).clamp(min=epsilon)
    moved: Tensor = flat * (1 + step * (rank - (count - 1) / 2))
    return moved.to(x.dtype).reshape(x.shape)


def elsewhere(case: Case) -> list[Tensor]:
    """Primals far away, of which other elements are positive or largest; nearby ones where the target takes none."""
    rolled = [primal.roll(1) for primal in case.primals]
    return rolled if admitted(case, rolled) else nearby(case)


def paired(case: Case) -> list[Tensor]:
    """Primals with equal elements: along each axis every second is the one before it, and across tensors of a shape."""
    first = dict[tuple[torch.Size, bool], Tensor]()
    for primal in case.primals:
        first.setdefault((primal.shape, primal.is_complex()), primal)
    return [_doubled(first[primal.shape, primal.is_complex()]).to(primal.dtype) for primal in case.primals]


def _doubled(x: Tensor) -> Tensor:
    for axis, size in enumerate(x.shape):
        x = x.index_select(axis, torch.arange(size, device=x.device) // 2 * 2)
    return x


def admitted(case: Case, primals: Sequence[Tensor]) -> bool:
    """Whether the target gives as many finite values there as at the given point."""
    try:
        other = case.replaced(list(primals))
        found, given = other.values(), case.values()
        return within(other) and all(
            a.shape == b.shape and bool((a.isfinite() | ~b.isfinite()).all()) for a, b in zip(found, given, strict=True)
        )
    except Exception:
        return False
