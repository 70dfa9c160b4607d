"""Cases next to a case: other values, another order, other sizes. A cause must explain all that are wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..case import Case, differentiable
from ..resize import resized, sizes

MOST = 64
"""Primals of a lengthened case have at most so many elements together."""


def variants(case: Case) -> Iterator[Case]:
    """The case, and others that are no harder to look at; some may be refused by the target."""
    yield case
    yield _with_values(case, _nudged)
    yield _with_values(case, lambda x: _nudged(x.flip(tuple(range(x.ndim)))))
    yield _with_values(case, lambda x: _nudged(-x))
    yield from (_with_values(case, functools.partial(_spread, start=start)) for start in (0.0, 0.5))
    for size in sizes(case):
        if size > 1:
            for new in (size + 1, size + 2):
                yield from _longer(case, size, new)


def _longer(case: Case, old: int, new: int) -> Iterator[Case]:
    for numbers in (False, True):
        longer = resized(case, old, new, numbers=numbers)
        if sum(p.numel() for p in longer.primals) > MOST:
            return
        try:
            longer.values()
        except Exception:
            continue
        yield _with_values(longer, _nudged)
        return


def _with_values(case: Case, change: Callable[[Tensor], Tensor]) -> Case:
    return case.replaced([change(p) if differentiable(p) else p for p in case.primals])


def _spread(x: Tensor, start: float) -> Tensor:
    """Values of all sizes from 0.01 to 10, with the signs that there are."""
    i = torch.arange(x.numel(), dtype=torch.float64).reshape(x.shape)
    size = 10 ** (3 * (i * 0.6180339887498949 + start).frac() - 2)
    sign = torch.where(x == 0, 1, x / x.abs()).nan_to_num(nan=1.0)
    return (sign * size).to(x.dtype).contiguous()


def _nudged(x: Tensor) -> Tensor:
    """Other values of the same signs, all different, each within a fifth; zeros move a little to both sides."""
    i = torch.arange(x.numel(), dtype=torch.float64).reshape(x.shape)
    part = (i * 0.6180339887498949 + 0.31).frac()  # the golden ratio spreads them evenly
    factor = 1 + 0.2 * (part - 0.5)
    moved = torch.where(x == 0, (part - 0.5).to(x.dtype), x * factor.to(x.dtype))
    return moved.to(x.dtype).contiguous()
