"""`torch.vmap` against a loop: of the function, of its backward, and of its forward mode."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Baseline, Difference, Value, baseline, cotangents_for, distance, generator, signed
from ..case import Case, Linearization
from ..children import survive
from ..code import is_native
from ..ended import Ended
from ..finding import Finding
from ..variations import nearby, within
from ..work import limits
from .orders import push
from .ways import Refused, Words, attempt, claimed, may_refuse, placed, require_dense, require_fixed, used

SAMPLES, MOST = 3, 6
"""Samples that are mapped; or as many as a first axis is long, up to so many."""

Batch = list[Tensor]
InDims = tuple[int | None, ...]


@may_refuse("vmap")
def mapped(case: Case) -> Iterator[Finding]:
    """Map over all inputs, over each alone, and over the last axis; then over gradients, tangents, and beside NaN."""
    base = baseline(case)
    require_fixed(base, ", and vmap asks whether samples share them")
    require_dense(case, "vmap takes no sparse tensors")
    refused: list[Refused] = []
    ways = (_values, _gradients, batched_gradients, batched_tangents)
    for way in ways:
        try:
            found = list(way(base))
        except Refused as why:
            if way is _values and claimed(case, "vmap"):
                raise
            refused.append(why)
            continue
        yield from found
        if found:
            return
    if len(refused) == len(ways) or (refused and claimed(case, "vmap") is False):  # It does not claim the first one.
        raise refused[0]
    with contextlib.suppress(Ended):  # A kernel may loop forever where nothing is finite.
        yield from survive(lambda: list(_beside_others(base)), apart=is_native(case.target))


def _samples(case: Case, count: int = SAMPLES) -> list[Batch]:
    return [case.primals, *(nearby(case, salt=i) for i in range(count - 1))]


def _map(function: Callable[..., tuple[Tensor, ...]], stacked: Batch, dims: InDims | int = 0) -> tuple[Tensor, ...]:
    with torch.no_grad(), _torch.quiet_vmap():
        return torch.vmap(function, in_dims=dims)(*stacked)


def _values(base: Baseline) -> Iterator[Finding]:
    """Compare the outputs of vmapped calls, of as many samples as a first axis is long: mistaken axes fit then.

    It is the first axis of the first input that is mapped.
    """
    case = base.case
    lengths = [len(p) if p.dim() and 1 < len(p) <= MOST else None for p in case.primals]
    known = _samples(case, max(filter(None, lengths), default=SAMPLES))
    for dims in dict.fromkeys(_in_dims(case.primals)):
        mapped = [length for length, dim in zip(lengths, dims, strict=True) if length and dim is not None]
        samples = known[: mapped[0]] if mapped else known
        loop = [[samples[0 if dim is None else i][j] for j, dim in enumerate(dims)] for i in range(len(samples))]
        columns = zip(dims, zip(*samples, strict=True), strict=True)
        stacked = [column[0].clone() if dim is None else torch.stack(column, dim) for dim, column in columns]
        try:
            found = attempt(partial(_map, lambda *primals: tuple(case.outputs(primals)), stacked, dims))
        except Refused:
            if set(dims) == {0}:
                raise
            continue  # A rule may refuse other places than the first, and inputs that are not mapped.
        expected = [torch.stack(column) for column in zip(*(case.values(sample) for sample in loop), strict=True)]
        worst = base.differing_outputs(found, expected)[:1]
        words = Words("vmap-output", "An output under vmap is another than in a loop", *_cause_and_hint(case, dims))
        yield from words.of(worst, f"vmap, in_dims={dims}; {case.label}")
        if worst:
            return


def _cause_and_hint(case: Case, dims: InDims) -> tuple[str, str | None]:
    if case.target.operator is not None:  # The rule is torchgraft's, and calls the kernel once.
        return (
            "the kernel gives a sample another value in a batch than alone",
            "compute each sample from itself alone, and the same in every call",
        )
    if not _torch.functions_in_graph(case.linearize().outputs):
        return "a sample is given another value in a batch than alone, by the function or by torch's rule for it", None
    hint = "in a vmap staticmethod move the mapped axis to where you want it: in_dims says where it is, or None"
    if None in dims:
        return "an input that is not mapped is taken as mapped", hint
    return "the mapped axis is taken as the first" if any(dims) else "the vmap rule is wrong", hint


def _in_dims(primals: Batch) -> Iterator[InDims]:
    """All mapped at the front, second, at the back, in turn at the front and second; and each alone."""
    count = len(primals)
    rows = [[place] * count for place in (0, 1, max(p.dim() for p in primals))] + [[i % 2 for i in range(count)]]
    ways = [tuple(min(place, p.dim()) for place, p in zip(row, primals, strict=True)) for row in rows]
    for places in ways:
        yield places
        if count > 1:
            yield from (tuple(places[i] if i == j else None for i in range(count)) for j in range(min(count, 3)))


GRADIENT = Words(
    "vmap-gradient", "A gradient under vmap is another than in a loop",
    "the backward mixes the samples, or its vmap rule is wrong",
    "backward runs under vmap as well: sum over no axis that it does not know",
)  # fmt: skip


def _gradients(base: Baseline) -> Iterator[Finding]:
    """The gradients of each sample: of a vmapped function, and of the function, vmapped, as `torch.func` takes them."""
    case, samples = base.case, _samples(base.case)
    wanted = [i for i, g in enumerate(base.gradients) if g is not None]
    cotangents = [[c * (i + 1) for c in base.cotangents if c is not None] for i in range(SAMPLES)]
    pairs = zip(samples, cotangents, strict=True)
    loop = [case.linearize(sample).vjp(placed(base, pieces)) for sample, pieces in pairs]

    def outputs(*primals: Tensor) -> tuple[Tensor, ...]:
        made = case.outputs(primals)
        return tuple(made[i] for i in used(base))

    def gradients(*arguments: Tensor) -> tuple[Tensor, ...]:
        primals, pieces = arguments[: len(case.primals)], arguments[len(case.primals) :]
        found = torch.func.vjp(outputs, *primals)[1](pieces)
        return tuple(found[i] for i in wanted)

    primals = [torch.stack(column) for column in zip(*samples, strict=True)]
    upstream = [torch.stack(column) for column in zip(*cotangents, strict=True)]

    def backward_of_map() -> tuple[Tensor, ...]:
        leaves = [primal.detach().requires_grad_() for primal in primals]
        with torch.enable_grad(), _torch.quiet_vmap():
            made = torch.vmap(outputs)(*leaves)
        return torch.autograd.grad(made, [leaves[i] for i in wanted], upstream)

    outer = attempt(backward_of_map)
    inner = attempt(partial(_map, gradients, [*primals, *upstream]))
    expected = [_stack([row[i] for row in loop]) if i in wanted else None for i in range(len(base.gradients))]
    for found, how in ((outer, "the backward of a vmapped call"), (inner, "vmap of the gradient of each sample")):
        row = [found[wanted.index(i)] if i in wanted else None for i in range(len(base.gradients))]
        yield from GRADIENT.of(base.differing_gradients(row, expected, times=SAMPLES), f"{how}; {case.label}")


FILLS = torch.nan, 4096.0
"""Numbers that another sample is made of; a large one hides all others where a maximum is taken of the batch."""
_LEAKS = Words("vmap-output", "Under vmap {} depends on another sample")
LEAKS = replace(
    _LEAKS, cause="a maximum, a sum or a mean runs over the batch too, where each sample has its own",
    hint="reduce along the axes of a sample alone, such as x.amax(-1, keepdim=True)",
)  # fmt: skip
OPAQUE_LEAKS = replace(
    _LEAKS, cause="it reads beyond the end of a sample, into the next one, and multiplies what is there by 0",
    hint="read no element that is not used: i + 1 < n ? x[i + 1] : 0",
)  # fmt: skip


def _beside_others(base: Baseline) -> Iterator[Finding]:
    """Fill the last sample of an operator's batch with some number: nothing of it may be in the others."""
    case = base.case
    if case.target.operator is None or not any(primal.numel() for primal in case.primals):
        return
    samples = _samples(case)[:-1]
    outputs = [torch.stack(column) for column in zip(*map(case.values, samples), strict=True)]
    gradients = [case.linearize(sample).vjp(base.cotangents) for sample in samples]
    columns = list(zip(*gradients, strict=True))
    alone = outputs, [None if any(g is None for g in column) else _stack(column) for column in columns]
    for fill in FILLS:
        other = [torch.full_like(primal, fill) for primal in case.primals]
        if math.isnan(fill) or within(case.replaced(other)):  # Every kernel has to take NaN.
            found = list(_beside(base, [*samples, other], fill, alone))
            yield from found
            if found:
                return


def _beside(
    base: Baseline, samples: list[Batch], fill: float, alone: tuple[Sequence[Tensor], Sequence[Value]]
) -> Iterator[Finding]:
    """Compare the outputs and gradients of all samples but the last, mapped together, with those of each alone."""
    case, (expected, right) = base.case, alone
    leaves = [torch.stack(column).requires_grad_() for column in zip(*samples, strict=True)]
    upstream = [None if c is None else torch.stack([c, c, c * fill]) for c in base.cotangents]
    made, found = list[Tensor](), list[Value]()
    with contextlib.suppress(Exception, _torch.TooMuch), _torch.Effort(*limits(case)):
        with torch.enable_grad(), _torch.quiet_vmap():  # The kernel may refuse what is not finite, and so may the rule.
            made += torch.vmap(lambda *primals: tuple(case.outputs(primals)))(*leaves)
        found += Linearization(leaves, made).vjp(upstream)
    different = base.differing_outputs([output[:-1].detach() for output in made], expected) if made else []
    if found and not different:
        rest = [None if g is None else g[:-1] for g in found]
        different = base.differing_gradients(rest, right, times=SAMPLES)
    operator = case.target.operator
    beyond = math.isnan(fill) and operator is not None and operator._record.opaque
    leaks = OPAQUE_LEAKS if beyond else LEAKS
    yield from leaks.of(different[:1], f"samples beside one of {fill:g}; {case.label}")


def _stack(tensors: Sequence[Value]) -> Tensor:
    return torch.stack([tensor for tensor in tensors if tensor is not None])


def batched_gradients(base: Baseline) -> Iterator[Finding]:
    """Several upstream gradients at once, by ``is_grads_batched``, as `torch.autograd.functional.jacobian` does."""
    case, recorded = base.case, base.case.linearize()
    several = [base.cotangents, cotangents_for(case, recorded.outputs, salt=5)]
    columns = list(zip(*(recorded.vjp(one) for one in several), strict=True))
    stacked = [_stack([one[i] for one in several]) for i in used(base)]
    again = case.linearize()
    grad = partial(torch.autograd.grad, is_grads_batched=True, allow_unused=True)
    values = attempt(partial(grad, [again.outputs[i] for i in used(base)], again.primals, stacked))
    told = [all(row is not None for row in column) for column in columns]
    found = [value if is_told else None for value, is_told in zip(values, told, strict=True)]
    expected = [_stack(column) if is_told else None for column, is_told in zip(columns, told, strict=True)]
    different = base.differing_gradients(found, expected, times=SAMPLES)
    yield from GRADIENT.of(different, f"several upstream gradients at once; {case.label}")


def batched_tangents(base: Baseline) -> Iterator[Finding]:
    """Several tangents at once, by forward mode under vmap, as `torch.func.jacfwd` does."""
    case, source = base.case, generator(base.case, 67)
    directions = [[signed(primal, source) for primal in case.primals] for _ in range(2)]
    loop = [attempt(partial(push, case, direction)) for direction in directions]

    def tangents(*direction: Tensor) -> tuple[Tensor, ...]:
        primals = tuple(primal.clone() for primal in case.primals)
        with torch.enable_grad():  # As a caller of `jacfwd` has it: a target may ask for it.
            return torch.func.jvp(lambda *p: tuple(case.outputs(p)), primals, direction)[1]  # type: ignore[no-any-return]

    found = attempt(partial(_map, tangents, [torch.stack(column) for column in zip(*directions, strict=True)]))
    cause = "the jvp mixes the samples, or its vmap rule is wrong"
    words = Words("vmap-tangent", "A tangent under vmap is another than in a loop", cause)
    for i, value in enumerate(found):
        expected = torch.stack([torch.zeros_like(base.outputs[i]) if (t := one[i]) is None else t for one in loop])
        units = 256 * torch.finfo(value.dtype).eps + case.target.declared.error
        slack = units * float(expected[expected.isfinite()].abs().sum()) + sum(base.gradient_slack)
        difference = Difference(base.output_name(i), value, expected, distance(value, expected), slack)
        if not difference.error <= difference.slack:
            yield from words.of([difference], f"several tangents at once; {case.label}")
