"""A second backward over one graph: with `retain_graph` the same again, without it the same or an error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ..baseline import Baseline, Value, baseline, pulled, short
from ..case import Case, Linearization
from ..finding import Finding, Verdict

HINT = "keep tensors by ctx.save_for_backward, which frees them in time, and change nothing on ctx in backward"


def freed(case: Case) -> Iterator[Finding]:
    """Pull twice through a graph that is retained, then twice through one that is not."""
    base = baseline(case)
    recorded = case.linearize()
    first = pulled(recorded, base)
    try:
        second = pulled(recorded, base)
    except Exception as error:
        yield Finding(
            "backward-only-once", Verdict.FAIL, "A second backward raises, though the graph was retained",
            f"retain_graph=True; {case.label}", cause=f"the backward gives away what it needs: {short(error)}",
            hint=HINT,
        )  # fmt: skip
        return
    found = list(_differing(base, second, first, f"retain_graph=True; {case.label}"))
    yield from found
    if not found:
        yield from _after(base, case.linearize())


def _after(base: Baseline, recorded: Linearization) -> Iterator[Finding]:
    """The same where the first backward frees the graph: what saved nothing may be pulled through again."""
    first = recorded.pull(base.cotangents, retain_graph=False)
    with contextlib.suppress(Exception):
        second = recorded.pull(base.cotangents, retain_graph=False)
        yield from _differing(base, second, first, f"retain_graph=False; {base.case.label}")


def _differing(base: Baseline, second: Sequence[Value], first: Sequence[Value], where: str) -> Iterator[Finding]:
    for difference in base.differing_gradients(second, first)[:1]:
        yield difference.finding(
            "second-backward", "A second backward over the same graph gives another gradient", where,
            cause="what the backward reads is overwritten, used up or accumulated by the first one", hint=HINT,
        )  # fmt: skip
