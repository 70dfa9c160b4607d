"""Forward mode: the tangent against the backward, and against differences where the two disagree."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Baseline, Value, baseline, distance, generator, signed
from ..case import Case
from ..claims import Refused, attempt, refusal, unclaimed
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..numeric.probe import directional
from ..points import nearby


def tangents(case: Case) -> Iterator[Finding]:
    """All inputs along a direction, along another, and each input alone, whose neighbours then have no tangent."""
    base = baseline(case)
    if any(isinstance(leaf, Tensor) and leaf.layout != torch.strided for leaf in case.leaves):
        raise Skip("sparse tensors carry no tangents")
    try:
        for place, direction in _trials(base):
            found = attempt(partial(push, place.case, direction))
            wrong = list(_compare(place, direction, found))
            yield from wrong
            if wrong:
                return
    except Refused as why:
        yield from refusal(case, "forward", why)
        return
    yield from unclaimed(case, "forward")


def _trials(base: Baseline) -> Iterator[tuple[Baseline, list[Value]]]:
    """Each input alone, then all; and all at another point, where what was kept of the first call is wrong."""
    case, source = base.case, generator(base.case, 61)
    first, second = ([signed(primal, source) for primal in case.primals] for _ in range(2))
    if len(first) > 1:
        for j in range(min(len(first), 4)):
            yield base, [u if i == j else None for i, u in enumerate(first)]
    yield base, list(first)
    yield base, list(second)
    with contextlib.suppress(Inconclusive):
        yield baseline(case.replaced(nearby(case, spread=2.0**-3))), list(first)


def push(case: Case, direction: Sequence[Value]) -> list[Value]:
    """J u by forward mode: a tangent for each output, None where it has none."""
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        duals = [
            primal.clone() if tangent is None else forward_ad.make_dual(primal.clone(), tangent.clone())
            for primal, tangent in zip(case.primals, direction, strict=True)
        ]
        with torch.no_grad():
            outputs = case.outputs(duals)
        return [None if (t := forward_ad.unpack_dual(o).tangent) is None else t.clone() for o in outputs]


def _compare(base: Baseline, direction: Sequence[Value], found: Sequence[Value]) -> Iterator[Finding]:
    which = [name for name, u in zip(base.case.names, direction, strict=True) if u is not None]
    where = f"tangents of {', '.join(which) if len(which) < len(direction) else 'all inputs'}; {base.case.label}"
    for i, (cotangent, tangent) in enumerate(zip(base.cotangents, found, strict=True)):
        if cotangent is None:
            continue
        alone = [c if j == i else None for j, c in enumerate(base.cotangents)]
        gradients = base.case.linearize().pull(alone) if len(alone) > 1 else base.gradients
        backward = sum(_inner(g, u) for g, u in zip(gradients, direction, strict=True))
        forward = _inner(tangent, cotangent)
        slack = _slack(base, direction, gradients, tangent, cotangent)
        if abs(forward - backward) <= slack or forward != forward or backward != backward:
            continue
        error = abs(forward - backward)
        if tangent is None:
            yield _lost(base, i, where).but(analytic=forward, numeric=backward, error=error, estimate=slack)
        else:
            yield _wrong(base, i, where, direction, tangent).but(error=error, estimate=slack)


def _lost(base: Baseline, index: int, where: str) -> Finding:
    name = base.output_name(index)
    if any(
        "GeneratedBackwardFor" in type(node).__name__ for node in _torch.nodes_in_graph(base.case.linearize().outputs)
    ):
        return Finding(
            "no-tangent", Verdict.PASS, f"Forward mode gives {name} no tangent, and says nothing", f"{name}; {where}",
            cause="operators with torch.library.register_autograd have no forward mode: PyTorch takes it for zero",
            hint="use reverse mode, or a torchgraft operator",
        )  # fmt: skip
    return Finding(
        "lost-tangent", Verdict.FAIL, f"Forward mode gives {name} no tangent, and says nothing", f"{name}; {where}",
        cause="jvp returns None, or numbers leave torch on the way: the tangent counts as zero",
        hint="return the tangent from jvp, or raise",
    )  # fmt: skip


def _wrong(base: Baseline, index: int, where: str, direction: Sequence[Value], tangent: Tensor) -> Finding:
    """The disagreement; differences say which side is wrong."""
    name = base.output_name(index)
    numeric = _numeric(base, index, direction)
    if numeric is not None and distance(tangent, numeric) <= 1e-4 * float(numeric.abs().max()):
        return Finding(
            "wrong-gradient", Verdict.FAIL, f"The backward of {name} disagrees with forward mode and with differences",
            f"{name}; {where}", tangent, numeric, cause="the tangent is right: look at the backward",
        )  # fmt: skip
    return Finding(
        "wrong-tangent", Verdict.FAIL, f"The tangent of {name} is wrong", f"{name}; {where}", tangent, numeric,
        cause=_cause(tangent, numeric), hint="jvp gets a tangent for each input (None where it has none)",
    )  # fmt: skip


def _cause(tangent: Tensor, numeric: Tensor | None) -> str:
    """What makes the tangent of the derivative along the direction."""
    size = 0.0 if numeric is None else float(numeric.abs().max())
    if numeric is None or not size:
        return "jvp and backward are not of the same function"
    factor = _inner(numeric, tangent) / _inner(numeric, numeric)
    if distance(tangent, factor * numeric) > 1e-6 * size:
        return "jvp and backward are not of the same function, or not of the same call: state is kept between calls"
    if abs(factor) < 1e-6:
        return "the tangent is zero: the part of an input is missing"
    if abs(factor + 1) < 1e-6:
        return "the tangent has the wrong sign"
    return f"the tangent is {factor:.6g} times what it should be: a wrong factor"


def _numeric(base: Baseline, index: int, direction: Sequence[Value]) -> Tensor | None:
    """The derivative of an output along the direction by differences, or None where that cannot be told."""
    primals = base.case.primals
    dense = [torch.zeros_like(p) if u is None else u for p, u in zip(primals, direction, strict=True)]
    try:
        flat = directional(base.case, dense).derivative
    except Exception:
        return None
    place = 0
    for i, output in enumerate(base.outputs):
        size = output.numel() * (2 if output.is_complex() else 1)
        if i == index:
            piece = flat[place : place + size].clone()
            shaped = torch.view_as_complex(piece.view(-1, 2)) if output.is_complex() else piece
            return shaped.reshape(output.shape)
        place += size
    return None


def _inner(left: Value, right: Value) -> float:
    """The real inner product, in double precision."""
    if left is None or right is None:
        return 0.0
    wide = torch.complex128 if left.is_complex() or right.is_complex() else torch.float64
    a, b = left.detach().to(wide), right.detach().to(wide)
    return float((a.conj() * b).real.sum())


def _slack(
    base: Baseline, direction: Sequence[Value], gradients: Sequence[Value], tangent: Value, cotangent: Tensor
) -> float:
    """The slack of each gradient along the direction, and 64 units in the last place of both sums' terms."""
    total = 0.0
    for slack, gradient, u in zip(base.gradient_slack, gradients, direction, strict=True):
        if gradient is not None and u is not None:
            total += slack * float(u.abs().sum()) + 64 * torch.finfo(u.dtype).eps * float(
                (gradient.abs() * u.abs()).sum()
            )
    if tangent is not None:
        total += 64 * torch.finfo(cotangent.dtype).eps * float((tangent.detach().abs() * cotangent.abs()).sum())
    return 4 * total
