"""The call under autocast: dtypes fit, and gradients are right to the digits that are left."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from ..baseline import Value, baseline, distance, generator, short
from ..case import Case
from ..claims import claimed
from ..contract import contract
from ..finding import Finding, Inconclusive, Skip, Verdict

DTYPE = torch.bfloat16


@contract("autocast", "Under autocast the backward runs, and gradients are right to bfloat16's digits.")
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
        yield Finding("autocast-raises", _severity(case), "It raises under autocast", where, cause=short(error), hint=HINT)
        return
    cotangents = [None if c is None else c.to(o.dtype) for c, o in zip(base.cotangents, recorded.outputs, strict=True)]
    try:
        found = recorded.pull(cotangents)
    except Exception as error:
        title = "The backward raises after a forward under autocast"
        yield Finding("autocast-raises", _severity(case), title, where, cause=short(error), hint=HINT)
        return
    for i, (value, expected, slack) in enumerate(zip(found, base.gradients, _slacks(single), strict=True)):
        error = distance(value, expected)
        if not error <= slack:
            yield Finding(
                "autocast-gradient", Verdict.FAIL, f"Under autocast {base.gradient_name(i)} is wrong",
                f"{base.gradient_name(i)}; {where}", value, expected, error, slack,
                cause="forward and backward work in different dtypes", hint=HINT,
            )  # fmt: skip


HINT = "decorate forward with torch.amp.custom_fwd(device_type=...) and backward with custom_bwd, or cast by hand"


def _severity(case: Case) -> Verdict:
    """Of a refusal: what is checked in single precision is meant for it; in double precision autocast plays no part."""
    single = any(primal.dtype == torch.float32 for primal in case.primals)
    return Verdict.FAIL if single or claimed(case, "autocast") else Verdict.PASS


def in_float32(case: Case) -> Case:
    """The case in single precision: autocast leaves float64 alone."""

    def single(leaf: object) -> object:
        if not isinstance(leaf, Tensor) or leaf.layout != torch.strided or leaf.dtype != torch.float64:
            return leaf
        return leaf.to(torch.float32)

    return case.with_leaves([single(leaf) for leaf in case.leaves])


def _slacks(case: Case) -> list[float]:
    """What rounding inputs, upstream gradients and what lies between them to bfloat16 can do to each gradient."""
    base, unit = baseline(case), torch.finfo(DTYPE).eps
    slacks = [16 * unit * _largest(g) for g in base.gradients]
    for sample in range(3):
        rounded = partial(_rounded, source=generator(case, 83, sample))
        moved = case.linearize([rounded(primal) for primal in case.primals])
        found = moved.pull([None if c is None else rounded(c) for c in base.cotangents])
        slacks = [max(s, 16 * unit * _largest(g) + 8 * distance(f, g)) for s, f, g in zip(slacks, found, base.gradients, strict=True)]
    return slacks


def _rounded(tensor: Tensor, source: torch.Generator) -> Tensor:
    noise = (torch.rand(tensor.shape, generator=source, dtype=torch.float64) - 0.5) * 4 * torch.finfo(DTYPE).eps
    return (tensor * (1 + noise)).to(tensor.dtype)


def _largest(value: Value) -> float:
    if value is None or not value.numel():
        return 0.0
    finite = value.detach().abs()[value.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0
