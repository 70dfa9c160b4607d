"""Each output alone: the upstream gradients of the others are undefined, not zero."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..baseline import baseline, short
from ..case import Case
from ..finding import Finding, Skip, Verdict


def outputs(case: Case) -> Iterator[Finding]:
    """Leave the other outputs out, and compare with zeros in their place."""
    base = baseline(case)
    used = [i for i, c in enumerate(base.cotangents) if c is not None]
    if len(used) < 2:
        raise Skip("one differentiable output")
    for index in used:
        alone = [c.clone() if c is not None and i == index else None for i, c in enumerate(base.cotangents)]
        zeros = [None if c is None else c if i == index else torch.zeros_like(c) for i, c in enumerate(base.cotangents)]
        expected = case.linearize().pull(zeros)
        where = f"{base.output_name(index)} alone; {case.label}"
        try:
            found = case.linearize().pull(alone)
        except Exception as error:
            yield Finding(
                "undefined-gradient-raises", Verdict.FAIL, "The backward raises where only one output is used", where,
                cause=f"an upstream gradient is None: {short(error)}",
                hint="an upstream gradient may be None: return None or skip its term then",
            )  # fmt: skip
            continue
        for difference in base.differing_gradients(found, expected):
            yield difference.finding(
                "undefined-gradient", "The gradient of one output alone is another than with zeros for the others",
                where, cause="an upstream gradient that is None is not taken as zero",
                hint="leave out the terms of outputs that were not used",
            )  # fmt: skip
