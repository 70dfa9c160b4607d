"""Cases next to a case: other values, another order, other sizes. A cause must explain all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from ..case import Case, differentiable
from ..resize import resized, sizes

MOST = 64
"""Primals of a lengthened case have at most so many elements together."""


def others(case: Case) -> Iterator[Case]:
    """Other values, of the same signs and of the opposite ones."""
    yield _with_values(case, _nudged)
    yield _with_values(case, lambda x, i: _nudged(-x.flip(tuple(range(x.ndim))), i))


def variants(case: Case) -> Iterator[Case]:
    """Others that are no harder to look at; some may be refused by the target."""
    yield from others(case)
    for size in sizes(case):
        yield from _resized(case, size, size + 1)


def wild(case: Case) -> Iterator[Case]:
    """Larger cases with values of all sizes and signs, which show limits."""
    for size in sizes(case):
        case = next(_resized(case, size, size + 2 if size > 1 else 4), case)
    yield from (_with_values(case, partial(_spread, seed=seed)) for seed in range(3))


def other_sizes(case: Case) -> Iterator[Case]:
    """Sizes that tell when a cause acts."""
    for size in sizes(case):
        for new in (1, 2, 3, 4, 5, 8, size + 2):
            if new not in (size, size + 1):
                yield from _resized(case, size, new)


def _resized(case: Case, old: int, new: int) -> Iterator[Case]:
    """The case with another size, if the target takes it."""
    for options in ({}, {"numbers": True}, {"scale": True}):
        longer = resized(case, old, new, **options)
        if sum(p.numel() for p in longer.primals) > MOST:
            return
        try:
            longer.values()
        except Exception:
            continue
        yield _with_values(longer, _nudged)
        return


def _with_values(case: Case, change: Callable[[Tensor, int], Tensor]) -> Case:
    """The case with each primal changed: by its values and its place, so that no two change alike."""
    return case.replaced([change(p, i) if differentiable(p) else p for i, p in enumerate(case.primals)])


def _spread(x: Tensor, place: int, seed: int) -> Tensor:
    """Values of all sizes from 0.01 to 10, and of both signs."""
    generator = torch.Generator().manual_seed(seed + 1000 * place)
    size = 10 ** (3 * torch.rand(x.shape, generator=generator, dtype=torch.float64) - 2)
    sign = 2 * torch.randint(0, 2, x.shape, generator=generator) - 1
    return (sign * size).to(x.dtype)


def _nudged(x: Tensor, place: int) -> Tensor:
    """Other values of the same signs, all different, each within a fifth; zeros move a little to both sides."""
    i = torch.arange(x.numel(), dtype=torch.float64).reshape(x.shape)
    part = (i * 0.6180339887498949 + 0.31 + 0.17 * place).frac()  # the golden ratio spreads them evenly
    factor = 1 + 0.2 * (part - 0.5)
    moved = torch.where(x == 0, (part - 0.5).to(x.dtype), x * factor.to(x.dtype))
    return moved.to(x.dtype).contiguous()
