"""Operators that write into arguments: in place they do what the function behind them does, which writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..._kernels.kernel import positional
from ..._op import Op
from ..baseline import baseline
from ..case import Case
from ..finding import Finding, Skip
from ..variations import elsewhere, values_of
from .ways import Words, compared, made, require_fixed, tensors

Place = Callable[[Tensor], Tensor]

WRITES = Words(
    "writes-otherwise", "{} is another where the operator writes in place",
    "the kernel depends on how the memory that it writes lies, on what it held in an earlier call, or keeps it",
    "write every element, from the arguments alone, and keep no tensor or pointer between calls",
)  # fmt: skip
BESIDE = Words(
    "writes-beside", "The operator writes beside the argument that it is given",
    "memory before or behind the argument was changed", "write the argument's own elements alone",
)  # fmt: skip
NOTHING = Words(
    "writes-nothing", "The operator writes nothing into `{}`", "the kernel binds the name to a new tensor",
    "wrong: y = y + x\nright: y += x",
)  # fmt: skip
MARGIN = 64
"""Elements on each side of an argument that are looked at afterwards."""


def writing(case: Case) -> Iterator[Finding]:
    """Write in place, in several kinds of memory, and compare with what the function behind the operator returns."""
    op = case.target.writing
    if op is None:
        raise Skip("it writes into no argument")
    record = op._record
    values = values_of(record, *case.arguments(case.primals))
    written = [v for p, v in zip(record.signature.parameters, values, strict=True) if p.written]
    if any(v.shape != after.shape for v, after in zip(written, tensors(case.call()), strict=False)):
        raise Skip("what is written broadcasts, and has no place for the result")
    yield from _unwritten(op, case)
    ways = {how: case.calling(partial(_in_place, op, place)) for how, place in PLACES.items()}
    if case.primals:
        yield from _with_gradients(case, ways)
    for how, other in ways.items():
        yield from _values(case, how, other)
    yield from _beside(op, case)


def _unwritten(op: Op[..., Any], case: Case) -> Iterator[Finding]:
    """Find an argument that is the same after the call, wherever its values lie."""
    names = [p.name for p in op._record.signature.written]
    same = set(names)
    for primals in (case.primals, elsewhere(case)):
        values = values_of(op._record, *case.arguments(primals))
        if any(map(_is_idle, values)):
            return
        before = [v for p, v in zip(op._record.signature.parameters, values, strict=True) if p.written]
        after = tensors(case.call(primals))
        same &= {n for n, a, b in zip(names, after, before, strict=False) if a.numel() and torch.equal(a, b)}
    for name in sorted(same):
        words = replace(NOTHING, title=NOTHING.title.format(name), hint=(NOTHING.hint or "").replace("y", name))
        yield words.at(case.label)


def _is_idle(value: Any) -> bool:
    """Tell whether a number may make a write change nothing: what is added times 0, a factor of 1, a flag."""
    return value is False or (isinstance(value, int | float) and value is not True and value in (0, 1))


def _with_gradients(case: Case, ways: Mapping[str, Case]) -> Iterator[Finding]:
    base = baseline(case)
    require_fixed(base)
    for how, other in ways.items():
        yield from compared(base, how, partial(made, other, base), output=WRITES, gradient=WRITES)


def _values(case: Case, how: str, other: Case) -> Iterator[Finding]:
    """Compare all that is written and returned, counts and indices too, where nothing is recorded."""
    with torch.no_grad():
        expected = tensors(case.call())
        for _ in range(2):  # The next call finds what this one has found out.
            found = tensors(other.call())
            if not all(torch.allclose(a, b, equal_nan=True) for a, b in zip(found, expected, strict=True)):
                yield WRITES.at(f"{how}, without a gradient; {case.label}")
                return


def _in_place(op: Op[..., Any], place: Place, *args: Any, **kwargs: Any) -> list[Tensor]:
    """Call an operator that writes, on copies that `place` makes; return these, and what it returned."""
    record = op._record
    values = values_of(record, args, kwargs)
    given = [place(v) if p.written else v for p, v in zip(record.signature.parameters, values, strict=True)]
    result = positional(record.signature, op)(*given)
    shown = [] if result is None else [result] if isinstance(result, Tensor) else list(result)
    return [*(v for p, v in zip(record.signature.parameters, given, strict=True) if p.written), *shown]


def _within(tensor: Tensor) -> Tensor:
    """A copy in the middle of a larger tensor."""
    flat = tensor.new_zeros(tensor.numel() + 2 * MARGIN)
    middle = flat[MARGIN : MARGIN + tensor.numel()].reshape(tensor.shape)
    return middle.copy_(tensor)


def _spread(tensor: Tensor) -> Tensor:
    """A copy of which each element has a gap behind it."""
    return tensor.new_zeros(*tensor.shape, 2)[..., 0].copy_(tensor)


PLACES: dict[str, Place] = {
    "in place": torch.clone,
    "in place, within a larger tensor": _within,
    "in place, with strides": _spread,
}


def _beside(op: Op[..., Any], case: Case) -> Iterator[Finding]:
    """Look at the memory around what was written."""
    larger: list[Tensor] = []

    def within(tensor: Tensor) -> Tensor:
        placed = _within(tensor)
        larger.append(placed._base if placed._base is not None else placed)
        return placed

    with torch.no_grad():
        for _ in range(2):  # The first call of a kind may go another way than those that follow.
            tensors(case.calling(partial(_in_place, op, within)).call())
    for flat in larger:
        if bool(flat[:MARGIN].any()) or bool(flat[-MARGIN:].any()):
            yield BESIDE.at(case.label)
            return
