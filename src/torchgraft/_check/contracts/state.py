"""Calls that do not know of each other."""

from __future__ import annotations

from collections.abc import Iterator

from ..baseline import baseline, pulled
from ..case import Case
from ..contract import contract
from ..finding import Finding
from ..points import elsewhere

HINT = "keep what backward needs on ctx, by save_for_backward; nothing on the class, in a global or in a closure"


@contract("state", "A call is not changed by the calls around it.")
def state(case: Case) -> Iterator[Finding]:
    """Two forwards, then two backwards; then the first call again."""
    base, other = baseline(case), elsewhere(case)
    expected = pulled(case.linearize(other), base)
    for order in ("in the same order", "in reverse order"):
        first, second = case.linearize(), case.linearize(other)
        if order == "in reverse order":
            second_found = pulled(second, base)
            first_found = pulled(first, base)
        else:
            first_found = pulled(first, base)
            second_found = pulled(second, base)
        where = f"two forwards, then their backwards {order}; {case.label}"
        wrong = base.differing_gradients(first_found) or base.differing_gradients(second_found, expected)
        for difference in wrong:
            yield difference.finding(
                "state-between-calls", "The gradient is another where two calls are interleaved", where,
                cause="what the forward keeps is overwritten by the next call", hint=HINT,
            )  # fmt: skip
        if wrong:
            return
    for difference in base.differing_outputs([output.detach() for output in case.linearize().outputs]):
        yield difference.finding(
            "state-between-calls", "The output is another after other calls", f"the same call again; {case.label}",
            cause="a result or a counter is kept between calls", hint=HINT,
        )  # fmt: skip
