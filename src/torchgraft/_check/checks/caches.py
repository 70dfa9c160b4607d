"""Tables and results that are kept between calls, and made for other options, another dtype or other numbers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Value, baseline, cotangents_for
from ..case import Case, Linearization
from ..children import may_fork, run_in_child, survive
from ..code import is_native
from ..finding import Finding, Skip
from ..options import options
from ..target import differentiable
from ..variations import resized, sizes, with_precision
from ..work import taken, tried
from .ways import Words

MOST = 8
"""Calls with other options before the one that is looked at."""


def caches(case: Case) -> Iterator[Finding]:
    """Call with other options, dtypes and numbers first: a table that is kept may be made for them.

    Sizes are new, and a child makes the other calls, which so leave nothing to this process or a later check.
    """
    if baseline(case).random:
        raise Skip("it draws random numbers")
    if case.target.is_torch:
        raise Skip("it is torch's own")
    if not may_fork():
        raise Skip("here can be no child process, in which calls with other options and dtypes leave nothing behind")
    rows = [(way, resized(case, size, size + way.more)) for way in WAYS for size in sizes(case)[:2]]
    for _, longer in rows:  # To measure its own would be the first call at its size.
        longer.memo["taken"] = taken(case)
    after = run_in_child(lambda: [way.look(longer) for way, longer in rows])
    if not any(after):
        raise Skip("it takes no other sizes")
    plain = survive(lambda: [(_called(longer), _called(longer)) for _, longer in rows], apart=is_native(case.target))
    for (way, longer), one, (other, again) in zip(rows, after, plain, strict=True):
        if one and _same(other, again) and not _same(one, again):  # It may count its calls.
            yield way.words.at(f"a call after others; {longer.label}")
            return


def _after_options(case: Case) -> list[Value]:
    """Outputs and gradients after calls with other options and dtypes; nothing without such calls."""
    others = [other for _, other in itertools.islice(options(case), MOST)]
    narrow = with_precision(case, "another precision")
    others += [] if tried(narrow, given=case) is None else [narrow]
    for other in others:
        _called(other)
    return _called(case) if others else []


def _after_numbers(case: Case) -> list[Value]:
    """Outputs and gradients after a call with other numbers in the same memory.

    It is the first at its size: a table that is told by some of the numbers would have been filled before.
    """
    return _called(case, _rewritten)


class Way(NamedTuple):
    """Calls before the one that is looked at.

    Attributes:
        more: by so much an axis becomes longer, to a size that no other check tries.
        look: makes the calls, and returns outputs and gradients of the last one.
        words: what is said where these are others than without the calls before.
    """

    more: int
    look: Callable[[Case], list[Value]]
    words: Words


WAYS = (
    Way(13, _after_options, Words(
        "state-between-calls", "The output is another after calls with other options or dtypes",
        "a table or a result that is kept between calls was made for others",
        "keep it under a key that has all options, dtypes and devices it is made from",
    )),
    Way(15, _after_numbers, Words(
        "state-between-calls", "The output is another where an argument held other numbers in the call before",
        "what is kept between calls is told by an argument's memory, or by some of its numbers",
        "keep it with a copy of all numbers that it is made from, and compare these",
    )),
)  # fmt: skip


def _rewritten(case: Case) -> Linearization:
    """A recorded call, in whose tensors lay other numbers in the call before; their ends and extremes are the same."""
    leaves = case.leaves_of(case.primals)
    args, kwargs = case.arguments(leaves)
    tensors = [t for t in _torch.pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor) and t.numel() > 2]
    given = [tensor.detach().clone() for tensor in tensors]
    with torch.no_grad():
        for tensor in filter(differentiable, tensors):
            tensor.copy_(_between(tensor))
    with contextlib.suppress(Exception):  # It may refuse the other numbers.
        case.call_with(args, kwargs)
    with torch.no_grad():
        for tensor, numbers in zip(tensors, given, strict=True):
            tensor.copy_(numbers)
    with torch.enable_grad():
        return Linearization(leaves, case.target.differentiable(case.call_with(args, kwargs)))


def _between(x: Tensor) -> Tensor:
    """Other numbers between the smallest and the largest, of which the first and the last are the same."""
    flat, order = x.flatten(), x.real.flatten()
    inside = (order > order.min()) & (order < order.max())
    inside[0] = inside[-1] = False
    return torch.where(inside, flat + (flat.mean() - flat) / 16, flat).view(x.shape)


def _called(case: Case, record: Callable[[Case], Linearization] = Case.linearize) -> list[Value]:
    """Outputs and gradients; nothing where the target refuses the call."""
    with contextlib.suppress(Exception):
        recorded = record(case)
        outputs = [output.detach() for output in recorded.outputs]
        return [*outputs, *recorded.vjp(cotangents_for(case, outputs))]
    return []


def _same(values: Sequence[Value], others: Sequence[Value]) -> bool:
    return len(values) == len(others) and all(map(_near, values, others))


def _near(one: Value, other: Value) -> bool:
    if one is None or other is None or one.shape != other.shape:
        return one is other
    finite = other[other.isfinite()].abs()
    close = 4096 * torch.finfo(other.dtype).eps * (float(finite.max()) if finite.numel() else 1.0)
    return torch.allclose(one, other, 0.0, close, equal_nan=True)
