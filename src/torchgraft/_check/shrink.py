"""A smaller case with the same finding: sizes first, then values, so that a report fits on a screen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from .case import Case
from .variations import resized, resized_axis, shape_of, sizes, squeezed

Fails = Callable[[Case], bool]
Change = Callable[[], Case]
TRIES = 150
"""The number of cases that are tried."""
FEW = 8
"""Tensors with at most so many elements are simplified one by one."""
FEW_KEYS = 64
"""By so many elements of each tensor it is known that a case was tried."""


def shrink(case: Case, fails: Fails, *, tries: int = TRIES, resize: bool = True) -> Case:
    """Find the smallest case that still fails: greedy, every change by itself.

    Axes of equal size shrink together in all arguments, to 1, 2, 3 or half; then one axis of one argument at a
    time. Then values become simple ones.

    Args:
        case: one that fails.
        fails: tells whether the same finding remains; where it raises, it does not.
        tries: how often `fails` is asked at most.
        resize: axes may become shorter; else only values become simpler.

    Example:
        >>> shrink(case, lambda smaller: any(f.code == "wrong-gradient" for f in gradient(smaller))).label
        'x: float64[1]'
    """
    tried = set[int]()

    def kept(change: Change) -> Case | None:
        """The changed case if it still fails."""
        with contextlib.suppress(
            Exception
        ):  # There is nothing to change, or the target refuses it, or nothing can be told there.
            changed = change()
            key = hash((changed.label, *(float(v) for p in changed.primals for v in _parts(p)[:FEW_KEYS])))
            if key not in tried and len(tried) < tries:
                tried.add(key)
                return changed if fails(changed) else None
        return None

    for changes in (_smaller, _simpler) if resize else (_simpler,):
        while (smaller := next(filter(None, map(kept, changes(case))), None)) is not None:
            case = smaller
    return case


def _smaller(case: Case) -> Iterator[Change]:
    """Fewer axes, or shorter ones: all of a size together before one alone, the shortest first."""
    yield partial(squeezed, case)
    for old in sizes(case):
        for new in _shorter(old):
            for options in ((), ("last",), ("numbers",), ("scale",), ("numbers", "scale")):
                yield partial(resized, case, old, new, **dict.fromkeys(options, True))
    shapes = [shape_of(leaf) for leaf in case.leaves]
    for i, shape in enumerate(shapes):
        others = {size for j, other in enumerate(shapes) if j != i for size in other}
        for axis, old in enumerate(shape):
            if old not in others:  # What belongs together would broadcast, which is another call.
                yield from (partial(resized_axis, case, i, axis, new) for new in _shorter(old))


def _shorter(size: int) -> list[int]:
    """Sizes to try: small ones, then from half on ever closer to the size, so that few steps find any limit."""
    return sorted({n for n in (1, 2, 3, *(size - (size >> k) for k in range(1, size.bit_length()))) if n < size})


def _simpler(case: Case) -> Iterator[Change]:
    """Simpler values, for a whole tensor before single elements; no step backwards, so that it ends."""
    for i, primal in enumerate(case.primals):
        for value in _simple(primal):
            if _length(value) < _length(primal):
                yield partial(case.replaced, [*case.primals[:i], value, *case.primals[i + 1 :]])


def _simple(primal: Tensor) -> Iterator[Tensor]:
    """Tensors like this one with simpler values."""
    sign = primal.sgn()
    yield torch.ones_like(primal)
    yield sign
    if primal.ndim:
        steps = torch.arange(1, primal.numel() + 1, dtype=torch.float64, device=primal.device).reshape(primal.shape)
        yield (sign * steps).to(primal.dtype)
    for digits in (0, 1, 2):
        parts = torch.view_as_real(primal.resolve_conj()) if primal.is_complex() else primal
        rounded = parts.double().round(decimals=digits).to(parts.dtype)
        yield torch.view_as_complex(rounded) if primal.is_complex() else rounded
    for place in range(primal.numel() if primal.numel() <= FEW else 0):
        for number in _RANKS:
            changed = primal.clone(memory_format=torch.contiguous_format)
            changed.view(-1)[place] = number
            yield changed


_RANKS = {0.0: 0.3, 1.0: 0.0, 2.0: 0.1, 0.5: 0.2, -1.0: 0.4, -2.0: 0.5, -0.5: 0.6}
"""Single numbers in the order in which they are tried; the smaller its rank, the plainer a number is."""


def _length(x: Tensor) -> float:
    """The amount of text in values."""
    return sum(_RANKS.get(float(v), 1.0 + len(f"{float(v):.15g}")) for v in _parts(x)[:4096])


def _parts(x: Tensor) -> Tensor:
    """The elements, real and imaginary parts one by one."""
    return (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x).flatten()
