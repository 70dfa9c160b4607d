"""A smaller case with the same finding: sizes first, then values, so that a report fits on a screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from .case import Case
from .variations import resized, resized_axis, shape_of, sizes, squeezed

Fails = Callable[[Case], bool]
Change = Callable[[], Case]
TRIES = 150
"""How often a case is tried."""
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
    trial = _Trial(fails, tries)
    smaller = trial.settled(case, _smaller) if resize else case
    return trial.settled(smaller, _simpler)


class _Trial:
    """Tries of a budget."""

    def __init__(self, fails: Fails, tries: int) -> None:
        self._fails = fails
        self._left = tries
        self._tried = set[int]()

    def settled(self, case: Case, changes: Callable[[Case], Iterator[Change]]) -> Case:
        """The case after all changes that keep it failing, until none does."""
        while True:
            changed = next((new for change in changes(case) if (new := self._made(change)) is not None), None)
            if changed is None:
                return case
            case = changed

    def _made(self, change: Change) -> Case | None:
        """The changed case if it still fails."""
        if self._left <= 0:
            return None
        try:
            case = change()
        except Exception:  # there is nothing to change
            return None
        key = hash((case.label, *(float(v) for p in case.primals for v in _parts(p)[:FEW_KEYS])))
        if key in self._tried:
            return None
        self._tried.add(key)
        self._left -= 1
        try:
            return case if self._fails(case) else None
        except Exception:  # the target refuses it, or nothing can be told there
            return None


def _smaller(case: Case) -> Iterator[Change]:
    """Fewer axes, or shorter ones: all of a size together before one alone, the shortest first."""
    yield partial(squeezed, case)
    for old in sizes(case):
        for new in _shorter(old):
            yield partial(resized, case, old, new)
            yield partial(resized, case, old, new, last=True)
            yield partial(resized, case, old, new, numbers=True)
            yield partial(resized, case, old, new, scale=True)
            yield partial(resized, case, old, new, numbers=True, scale=True)
    shapes = [shape_of(leaf) for leaf in case.leaves]
    for i, shape in enumerate(shapes):
        others = {size for j, other in enumerate(shapes) if j != i for size in other}
        for axis, old in enumerate(shape):
            if old not in others:  # else what belongs together would be broadcast, which is another call
                yield from (partial(resized_axis, case, i, axis, new) for new in _shorter(old))


def _shorter(size: int) -> list[int]:
    """Sizes to try: small ones, then from half on ever closer to the size, so that few steps find any limit."""
    return sorted({n for n in (1, 2, 3, *(size - (size >> k) for k in range(1, size.bit_length()))) if n < size})


def _simpler(case: Case) -> Iterator[Change]:
    """Simpler values, for a whole tensor before single elements; no step backwards, so that it ends."""
    primals = case.primals
    for i, primal in enumerate(primals):
        for value in _simple(primal):
            if _length(value) < _length(primal):
                yield partial(case.replaced, [value if j == i else p for j, p in enumerate(primals)])


def _simple(primal: Tensor) -> Iterator[Tensor]:
    """Tensors like this one with simpler values."""
    sign = torch.where(primal == 0, primal, primal / primal.abs()) if primal.is_complex() else primal.sign()
    yield torch.ones_like(primal)
    yield sign
    if primal.ndim:
        steps = torch.arange(1, primal.numel() + 1, dtype=torch.float64).reshape(primal.shape)
        yield (sign * steps).to(primal.dtype)
    for digits in (0, 1, 2):
        yield _rounded(primal, digits)
    if primal.numel() <= FEW:
        for place in range(primal.numel()):
            for number in (0.0, 1.0, 2.0, 0.5, -1.0, -2.0, -0.5):
                changed = primal.clone(memory_format=torch.contiguous_format)
                changed.view(-1)[place] = number
                yield changed


def _rounded(x: Tensor, digits: int) -> Tensor:
    if x.is_complex():
        return torch.complex(x.real.round(decimals=digits), x.imag.round(decimals=digits))
    return (x.double().round(decimals=digits)).to(x.dtype)


_RANKS = {1.0: 0.0, 2.0: 0.1, 0.5: 0.2, 0.0: 0.3, -1.0: 0.4, -2.0: 0.5, -0.5: 0.6}
"""Single numbers, the plainest first."""


def _length(x: Tensor) -> float:
    """How much there is to read in values."""
    return sum(_RANKS.get(float(v), 1.0 + len(f"{float(v):.15g}")) for v in _parts(x)[:4096])


def _parts(x: Tensor) -> Tensor:
    """The elements, real and imaginary parts one by one."""
    return (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x).flatten()
