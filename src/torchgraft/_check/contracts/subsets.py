"""Each subset of the inputs may be the one that requires grad."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ..baseline import Difference, baseline, pulled, short
from ..case import Case
from ..finding import Finding, Skip, Verdict


def subsets(case: Case) -> Iterator[Finding]:
    """Require grad of a part of the inputs only."""
    base = baseline(case)
    count = len(base.gradients)
    if count < 2:
        raise Skip("one differentiable input")
    for chosen in _subsets(count):
        wanted = [i in chosen for i in range(count)]
        where = f"only {', '.join(case.names[i] for i in chosen)} requires grad; {case.label}"
        try:
            recorded = case.linearize(wanted=wanted)
            found = pulled(recorded, base)
        except Exception as error:
            yield Finding(
                "subset-raises", Verdict.FAIL, "It raises where only some of the inputs require grad", where,
                cause=short(error), hint="look at ctx.needs_input_grad, and return None for the others",
            )  # fmt: skip
            continue
        for difference in base.differing_outputs([output.detach() for output in recorded.outputs]):
            yield difference.finding("subset-output", "An output depends on which inputs require grad", where)
        for difference in base.differing_gradients(found, wanted=wanted):
            yield difference.finding(
                "subset-gradient", "A gradient depends on which other inputs require grad", where,
                cause=_cause(difference), hint="compute each gradient from ctx.needs_input_grad of its own input",
            )  # fmt: skip


def _cause(difference: Difference) -> str:
    if difference.found is None:
        return "the gradient is missing (None) where another input does not require grad"
    if not difference.found.any():
        return "the gradient is zero where another input does not require grad"
    return "the gradient is that of another input where only this one requires grad"


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    """All proper subsets of few inputs; of many, each input alone and all but one."""
    if count <= 4:
        for size in range(1, count):
            yield from itertools.combinations(range(count), size)
        return
    for i in range(min(count, 8)):
        yield (i,)
        yield tuple(j for j in range(count) if j != i)
