"""A backward is a linear map of the upstream gradient: no clamp, no constant, no threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from ..baseline import Baseline, Difference, Value, baseline, cotangents_for
from ..case import Case, Linearization
from ..finding import Finding, Verdict

HINT = "multiply the upstream gradient by the derivative, and do nothing else to it: clip gradients outside"


def linearity(case: Case) -> Iterator[Finding]:
    """Scale the upstream gradient by powers of two, which round nothing, and add two of them."""
    base = baseline(case)
    recorded = case.linearize()
    plain = recorded.pull(_scaled(base.cotangents, 1.0))
    seen = [
        (factor, worst)
        for factor in _factors(base)
        for worst in base.differing_gradients(
            _scaled(recorded.pull(_scaled(base.cotangents, factor)), 1 / factor), plain
        )[:1]
    ]
    if not seen:
        yield from _additive(base, recorded, plain)
        return
    factor, worst = next(((f, w) for f, w in seen if not _slight(w)), seen[0])
    where = f"upstream gradient times {factor:g}; {case.label}"
    if _slight(worst):
        title = "The backward loses digits where upstream gradients are large or small"
        yield worst.finding("loses-digits", title, where).but(severity=Verdict.LOSES_DIGITS)
    else:
        title = "The backward is not linear in the upstream gradient"
        yield worst.finding("nonlinear-backward", title, where, cause=_cause(factor, worst), hint=HINT)


def _additive(base: Baseline, recorded: Linearization, plain: Sequence[Value]) -> Iterator[Finding]:
    other = cotangents_for(base.case, recorded.outputs, salt=1)
    both = recorded.pull(_sum(base.cotangents, other))
    apart = _sum(plain, recorded.pull(other))
    for worst in base.differing_gradients(both, apart, times=4.0)[:1]:
        yield worst.finding(
            "nonlinear-backward", "The backward of a sum is not the sum of the backwards",
            f"two upstream gradients added; {base.case.label}", hint=HINT,
        )  # fmt: skip


def _slight(difference: Difference) -> bool:
    """Whether most of the digits are right."""
    expected = difference.expected
    if expected is None:
        return False
    part: float = max(1e-6, torch.finfo(expected.dtype).eps ** 0.5)
    return difference.error <= part * float(expected.detach().abs().max())


def _factors(base: Baseline) -> tuple[float, ...]:
    """Powers of two within the range of the narrowest dtype."""
    narrowest = min(
        (torch.finfo(c.dtype) for c in base.cotangents if c is not None), key=lambda info: math.log2(info.max)
    )
    reach = max(3, int(math.log2(narrowest.max)) // 50)
    return (-1.0, 2.0**reach, 2.0**-reach)


def _cause(factor: float, worst: Difference) -> str:
    if worst.found is not None and not worst.found.isfinite().all():
        return "it overflows: the gradient is computed in a narrower dtype, such as float16 (half precision)"
    if factor < 0:
        return "the sign of the upstream gradient is lost, or something is added to it"
    if factor > 1:
        return "large upstream gradients are clipped, or it is used to another power than 1"
    return "something is added to the upstream gradient, or small ones are set to 0"


def _scaled(values: Sequence[Value], factor: float) -> list[Value]:
    return [None if value is None else value.detach() * factor for value in values]


def _sum(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    return [b if a is None else a if b is None else a + b for a, b in zip(left, right, strict=True)]
