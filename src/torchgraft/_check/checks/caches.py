"""Tables and results that are kept between calls, and made for other options, another dtype or other numbers."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ... import _torch
from ..._build.debug import debug
from ..baseline import Value, baseline, cotangents_for
from ..case import Case, Linearization
from ..children import hangs_in_child, may_fork, run_in_child, survive
from ..code import is_native
from ..ended import Hung
from ..finding import Finding, Skip
from ..options import nearly, options, untried
from ..target import differentiable
from ..variations import resized, sizes, with_precision, within
from ..work import taken, tried
from .ways import Words

MOST, FEW = 8, 3
"""Calls with other options before the one that is looked at, and calls in a program of their own."""

_VARIABLE = r"[^;={(\[]*[;=\[]"
STATIC = {
    "c": re.compile(rf"\bstatic\s+(?!inline\b|const\b){_VARIABLE}"),
    "c++": re.compile(rf"\bstatic\s+(?!inline\b|constexpr\b){_VARIABLE}"),
}
"""Variables that outlive a call, by language: what is constant in C was so before the program began."""


def caches(case: Case) -> Iterator[Finding]:
    """Call with other options, dtypes and numbers first: a table that is kept may be made for them.

    Sizes are new, and a child makes the other calls, which so leave nothing to this process or a later check.
    """
    if baseline(case).random:
        raise Skip("it draws random numbers")
    if case.target.is_torch:
        raise Skip("it is torch's own")
    found = list(_static(case))
    yield from found
    if found:
        return
    if not may_fork():
        raise Skip("here can be no child process, in which calls with other options and dtypes leave nothing behind")
    rows = [(way, resized(case, size, size + way.more)) for way in WAYS for size in sizes(case)[:2]]
    rows += [(WAYS[0], other) for other in itertools.islice(filter(_admits, untried(case)), MOST)]
    try:
        after = run_in_child(lambda: [way.look(other, case) for way, other in rows])
    except Hung:
        if hangs_in_child(case.values):
            raise Skip("it waits forever in a child process, in which it would leave nothing behind") from None
        raise
    if not any(after):
        raise Skip("it takes no other sizes")

    def called_twice() -> list[tuple[list[Value], list[Value]]]:
        return [(_called(other, case), _called(other, case)) for _, other in rows]

    plain = survive(called_twice, apart=is_native(case.target))
    for (way, other), one, (first, again) in zip(rows, after, plain, strict=True):
        if one and first and _same(first, again) and not _same(one, again):  # It may count its calls.
            yield way.words.at(f"a call after others; {other.label}")
            return


def _static(case: Case) -> Iterator[Finding]:
    """Call with other numbers here and in a program of its own, in which nothing is left of the calls before."""
    operator = case.target.operator
    sources = [] if operator is None else [native.source for native in operator._record.natives()]
    if not any(STATIC[source.language].search(source.code) for source in sources if source.language in STATIC):
        return
    for other in itertools.islice(filter(_admits, [*nearly(case), *untried(case)]), FEW):
        here = _called(other, case)
        with debug(sanitize=False):
            alone = _called(other, case)
        if here and alone and not _same(here, alone):
            yield OF_A_PROGRAM.at(f"a call after others; {other.label}")
            return


OF_A_PROGRAM = Words(
    "state-between-calls", "The output is another than in a program of its own",
    "a static or global variable of the native function was made for other options in a call before",
    "compute it in each call, or compare all options that it is made from",
)  # fmt: skip


def _admits(case: Case) -> bool:
    with contextlib.suppress(Exception):  # It is none of the choices.
        return within(case)
    return False


def _after_options(case: Case, given: Case) -> list[Value]:
    """Outputs and gradients after calls with other options and dtypes; nothing without such calls."""
    case.memo["taken"] = taken(given)  # To measure its own would be the first call with its size or number.
    close = list(filter(_admits, nearly(case)))
    for other in close:  # What is tried below may have the very numbers of the case.
        _called(other, given)
    others = [other for _, other in itertools.islice(options(case), MOST)]
    narrow = with_precision(case, "another precision")
    others += [] if tried(narrow, given=case) is None else [narrow]
    for other in others:
        _called(other, given)
    return _called(case, given) if close or others else []


def _after_numbers(case: Case, given: Case) -> list[Value]:
    """Outputs and gradients after a call with other numbers in the same memory.

    It is the first at its size: a table that is told by some of the numbers would have been filled before.
    """
    return _called(case, given, _rewritten)


class Way(NamedTuple):
    """Calls before the one that is looked at.

    Attributes:
        more: by so much an axis becomes longer, to a size that no other check tries.
        look: makes the calls of a case, with as much work as the given one; returns outputs and gradients of the last.
        words: what is said where these are others than without the calls before.
    """

    more: int
    look: Callable[[Case, Case], list[Value]]
    words: Words


WAYS = (
    Way(13, _after_options, Words(
        "state-between-calls", "The output is another after calls with other options or dtypes",
        "a table or a result that is kept between calls was made for others",
        "keep it under a key that has all options, to all digits, dtypes and devices it is made from",
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


def _called(case: Case, given: Case, record: Callable[[Case], Linearization] = Case.linearize) -> list[Value]:
    """Outputs and gradients; nothing where the target refuses the call, or works long beside the given one."""
    with contextlib.suppress(Exception):
        recorded = tried(case, given=given, record=record)
        if recorded is None:
            return []
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
