"""Tables and results that are kept between calls, and made for other options, another dtype or other numbers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

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
from ..variations import limits, resized, sizes, tried, with_precision
from .ways import Words

MOST = 8
"""Calls with other options before the one that is looked at."""

NEW = 13
"""By so much an axis becomes longer, to a size that no other check tries."""

CACHED = Words(
    "state-between-calls", "The output is another after calls with other options or dtypes",
    "a table or a result that is kept between calls was made for others",
    "keep it under a key that has all options, dtypes and devices it is made from",
)  # fmt: skip
REWRITTEN = Words(
    "state-between-calls", "The output is another where an argument held other numbers in the call before",
    "what is kept between calls is told by an argument's memory, or by some of its numbers",
    "keep it with a copy of all numbers that it is made from, and compare these",
)  # fmt: skip


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
    longer = [resized(case, size, size + NEW) for size in itertools.islice(sizes(case), 2)]
    for long in longer:  # To measure its own would be the first call at its size.
        long.memo["limits"] = limits(case)
    after = run_in_child(partial(_after_others, longer))
    plain = survive(lambda: _twice(longer), apart=is_native(case.target))
    for given, calls, (other, again) in zip(longer, after, plain, strict=True):
        for one, words, how in zip(calls, (REWRITTEN, CACHED), ("numbers", "options or dtypes"), strict=True):
            if one and _same(other, again) and not _same(one, again):  # It may count its calls.
                yield words.at(f"a call after others with other {how}; {given.label}")
                return


def _after_others(given: Sequence[Case]) -> list[tuple[list[Value], list[Value]]]:
    """Outputs and gradients of cases after a call with other numbers, and after some with other options and dtypes."""
    found: list[tuple[list[Value], list[Value]]] = []
    for case in given:
        rewritten = _called(case, _rewritten)
        others = [other for _, other in itertools.islice(options(case), MOST)]
        narrow = with_precision(case, "another precision")
        others += [] if tried(narrow, given=case) is None else [narrow]
        for other in others:
            _called(other)
        found.append((rewritten, _called(case) if others else []))
    return found


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


def _twice(given: Sequence[Case]) -> list[tuple[list[Value], list[Value]]]:
    return [(_called(case), _called(case)) for case in given]


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
