"""The call under autocast: dtypes fit, and gradients are right to the digits that are left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from ..baseline import Baseline, Value, baseline, distance, generator, short
from ..case import Case
from ..claims import claimed
from ..finding import Finding, Inconclusive, Skip, Verdict

DTYPE = torch.bfloat16


def autocast(case: Case) -> Iterator[Finding]:
    """Run in float32 with and without autocast."""
    baseline(case)
    single = in_float32(case)
    try:
        base = baseline(single)
    except Inconclusive as why:
        raise Skip(f"not in float32: {why}") from why
    if base.random:
        raise Skip("it draws random numbers, and others in another dtype")
    where = f"autocast to bfloat16; {single.label}"
    try:
        with torch.autocast("cpu", DTYPE):
            recorded = single.linearize()
    except Exception as error:
        yield _raises(case, "It raises under autocast", where, error)
        return
    cotangents = [None if c is None else c.to(o.dtype) for c, o in zip(base.cotangents, recorded.outputs, strict=True)]
    try:
        found = recorded.pull(cotangents)
    except Exception as error:
        yield _raises(case, "The backward raises after a forward under autocast", where, error)
        return
    wide = _with_slack(base)
    for difference in wide.differing_outputs([output.detach() for output in recorded.outputs]):
        yield difference.finding(
            "autocast-output", f"Under autocast {difference.name} is another", where,
            cause="the forward asks whether autocast is on", hint="compute the same in every dtype",
        )  # fmt: skip
    for difference in wide.differing_gradients(found):
        yield difference.finding(
            "autocast-gradient", f"Under autocast {difference.name} is wrong", where,
            cause="forward and backward work in different dtypes", hint=HINT,
        )  # fmt: skip


HINT = "decorate forward with torch.amp.custom_fwd(device_type=...) and backward with custom_bwd, or cast by hand"


def _raises(case: Case, title: str, where: str, error: Exception) -> Finding:
    """A refusal: what is checked in single precision is meant for autocast; in double precision it plays no part."""
    meant = any(primal.dtype == torch.float32 for primal in case.primals) or claimed(case, "autocast")
    severity = Verdict.FAIL if meant else Verdict.PASS
    cause = f"forward and backward get different dtypes: {short(error)}"
    return Finding("autocast-raises", severity, title, where, cause=cause, hint=HINT)


def in_float32(case: Case) -> Case:
    """The case in single precision: autocast leaves float64 alone."""

    def single(leaf: object) -> object:
        if not isinstance(leaf, Tensor) or leaf.layout != torch.strided or leaf.dtype != torch.float64:
            return leaf
        return leaf.to(torch.float32)

    return case.with_leaves([single(leaf) for leaf in case.leaves])


def _with_slack(base: Baseline) -> Baseline:
    """The baseline, from which results may be as far as rounding whatever comes by to bfloat16 can take them."""
    every = [*base.outputs, *base.gradients]
    slacks = [16 * torch.finfo(DTYPE).eps * _largest(value) for value in every]
    for sample in range(3):
        rounded = partial(_rounded, source=generator(base.case, 83, sample))
        moved = base.case.linearize([rounded(primal) for primal in base.case.primals])
        found = [*moved.outputs, *moved.pull([None if c is None else rounded(c) for c in base.cotangents])]
        slacks = [s + 4 * distance(value, other) for s, value, other in zip(slacks, found, every, strict=True)]
    count = len(base.outputs)
    return replace(base, output_slack=slacks[:count], gradient_slack=slacks[count:])


def _rounded(tensor: Tensor, source: torch.Generator) -> Tensor:
    noise = (torch.rand(tensor.shape, generator=source, dtype=torch.float64) - 0.5) * 4 * torch.finfo(DTYPE).eps
    return (tensor * (1 + noise)).to(tensor.dtype)


def _largest(value: Value) -> float:
    if value is None or not value.numel():
        return 0.0
    finite = value.detach().abs()[value.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0
