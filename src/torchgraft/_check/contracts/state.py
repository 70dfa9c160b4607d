"""Calls that do not know of each other."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..baseline import baseline, pulled
from ..case import Case
from ..finding import Finding, Verdict
from ..points import elsewhere

HINT = "keep what backward needs on ctx, by save_for_backward; nothing on the class, in a global or in a closure"


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
    yield from _graph_in_buffers(case)


def _graph_in_buffers(case: Case) -> Iterator[Finding]:
    """A buffer that a call leaves behind must not be part of its graph: the next call's would go on in it."""
    if case.target.kind != "module":
        return
    module = case.target.origin
    (parameters, *args), kwargs = case.arguments([primal.clone().requires_grad_() for primal in case.primals])
    buffers = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
    state = parameters | buffers
    with torch.enable_grad():
        torch.func.functional_call(module, state, tuple(args), kwargs)  # which puts what was assigned into `state`
    for name in buffers:
        if state[name].requires_grad:
            yield Finding(
                "graph-in-buffer", Verdict.FAIL, f"The buffer {name} keeps the graph of the call",
                f"the buffer {name}; {case.label}",
                cause="it is computed from inputs or parameters: the backward of the next call goes through this one",
                hint="update it under torch.no_grad(), or from x.detach()",
            )  # fmt: skip
