"""`torch.vmap` against a loop: of the function, of its backward, and of its forward mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Baseline, Difference, Value, baseline, cotangents_for, distance, generator, signed
from ..case import Case
from ..claims import Refused, attempt, claimed, refusal, unclaimed
from ..finding import Finding, Skip
from ..variations import nearby
from .orders import push

SAMPLES = 3

Batch = list[Tensor]
InDims = tuple[int | None, ...]


def mapped(case: Case) -> Iterator[Finding]:
    """Map over all inputs, over each alone, and over the last axis; then over gradients and tangents."""
    base = baseline(case)
    if base.random:
        raise Skip("it draws random numbers, and vmap asks whether samples share them")
    if any(isinstance(leaf, Tensor) and leaf.layout != torch.strided for leaf in case.leaves):
        raise Skip("vmap takes no sparse tensors")
    samples = [case.primals, nearby(case), nearby(case, salt=1)]
    refused: list[Refused] = []
    ways = (_values, _pulled, batched_gradients, batched_tangents)
    for way in ways:
        try:
            found = list(way(base, samples))
        except Refused as why:
            if way is _values and claimed(case, "vmap"):
                yield from refusal(case, "vmap", why)
                return
            refused.append(why)
            continue
        yield from found
        if found:
            return
    if len(refused) == len(ways):
        raise Skip(f"refused: {refused[0]}")
    yield from unclaimed(case, "vmap")


def _values(base: Baseline, samples: Sequence[Batch]) -> Iterator[Finding]:
    """The outputs."""
    case = base.case
    for dims in _in_dims(samples[0]):
        loop = [_sample(samples, dims, i) for i in range(SAMPLES)]
        expected = [torch.stack(column) for column in zip(*(case.values(s) for s in loop), strict=True)]
        found = attempt(partial(_map, _outputs_of(case), dims, _stacked(samples, dims)))
        for difference in base.differing_outputs(found, expected):
            yield difference.finding(
                "vmap-output", "An output under vmap is another than in a loop", f"vmap, in_dims={dims}; {case.label}",
                cause=_cause(dims), hint=HINT,
            )  # fmt: skip
            return


def _outputs_of(case: Case) -> Callable[..., tuple[Tensor, ...]]:
    return lambda *primals: tuple(case.outputs(primals))


def _map(function: Callable[..., tuple[Tensor, ...]], dims: InDims, stacked: Batch) -> tuple[Tensor, ...]:
    with torch.no_grad(), _torch.quiet_vmap():
        return torch.vmap(function, in_dims=dims)(*stacked)


HINT = "in a vmap staticmethod move the mapped axis to where you want it: in_dims says where it is, or None"


def _cause(dims: InDims) -> str:
    if None in dims:
        return "an input that is not mapped is taken as mapped"
    return "the mapped axis is taken as the first" if any(dim != 0 for dim in dims) else "the vmap rule is wrong"


def _in_dims(primals: Batch) -> Iterator[InDims]:
    """All mapped at the front, each alone, all at the back."""
    count = len(primals)
    yield (0,) * count
    if count > 1:
        yield from (tuple(0 if i == j else None for i in range(count)) for j in range(min(count, 3)))
    if any(primal.dim() for primal in primals):
        yield tuple(primal.dim() for primal in primals)


def _sample(samples: Sequence[Batch], dims: InDims, i: int) -> Batch:
    return [samples[0 if dim is None else i][j] for j, dim in enumerate(dims)]


def _stacked(samples: Sequence[Batch], dims: InDims) -> Batch:
    columns = zip(dims, zip(*samples, strict=True), strict=True)
    return [column[0].clone() if dim is None else torch.stack(column, dim) for dim, column in columns]


def _stack(tensors: Sequence[Value]) -> Tensor:
    return torch.stack([tensor for tensor in tensors if tensor is not None])


def _pulled(base: Baseline, samples: Sequence[Batch]) -> Iterator[Finding]:
    """The gradients of each sample: of a vmapped function, and of the function, vmapped, as `torch.func` takes them."""
    case = base.case
    wanted = [i for i, g in enumerate(base.gradients) if g is not None]
    used = [i for i, c in enumerate(base.cotangents) if c is not None]
    cotangents = [[c * (i + 1) for c in base.cotangents if c is not None] for i in range(SAMPLES)]
    loop = []
    for sample, pieces in zip(samples, cotangents, strict=True):
        given = dict(zip(used, pieces, strict=True))
        loop.append(case.linearize(sample).pull([given.get(i) for i in range(len(base.cotangents))]))

    def outputs(*primals: Tensor) -> tuple[Tensor, ...]:
        made = case.outputs(primals)
        return tuple(made[i] for i in used)

    def gradients(*arguments: Tensor) -> tuple[Tensor, ...]:
        primals, pieces = arguments[: len(case.primals)], arguments[len(case.primals) :]
        found = torch.func.vjp(outputs, *primals)[1](pieces)
        return tuple(found[i] for i in wanted)

    primals = [torch.stack(column) for column in zip(*samples, strict=True)]
    upstream = [torch.stack(column) for column in zip(*cotangents, strict=True)]
    everything = [*primals, *upstream]
    outer = attempt(partial(_backward_of_map, outputs, primals, upstream, wanted))
    inner = attempt(partial(_map, gradients, (0,) * len(everything), everything))
    for found, where in ((outer, "the backward of a vmapped call"), (inner, "vmap of the gradient of each sample")):
        for i, value in zip(wanted, found, strict=True):
            yield from _gradient_differs(base, i, value, _stack([row[i] for row in loop]), where)


def _backward_of_map(
    outputs: Callable[..., tuple[Tensor, ...]], primals: Batch, upstream: Batch, wanted: Sequence[int]
) -> tuple[Tensor, ...]:
    leaves = [primal.detach().requires_grad_() for primal in primals]
    with torch.enable_grad(), _torch.quiet_vmap():
        made = torch.vmap(outputs)(*leaves)
    return torch.autograd.grad(made, [leaves[i] for i in wanted], upstream)


def _gradient_differs(base: Baseline, index: int, found: Tensor, expected: Tensor, where: str) -> Iterator[Finding]:
    row: list[Tensor | None] = [None] * len(base.gradients)
    other = list(row)
    row[index], other[index] = found, expected
    for difference in base.differing_gradients(row, other, times=SAMPLES):
        yield difference.finding(
            "vmap-gradient", "A gradient under vmap is another than in a loop", f"{where}; {base.case.label}",
            cause="the backward mixes the samples, or its vmap rule is wrong",
            hint="backward runs under vmap as well: sum over no axis that it does not know",
        )  # fmt: skip


def batched_gradients(base: Baseline, samples: Sequence[Batch]) -> Iterator[Finding]:
    """Several upstream gradients at once, by ``is_grads_batched``, as `torch.autograd.functional.jacobian` does."""
    case, recorded = base.case, base.case.linearize()
    used = [i for i, c in enumerate(base.cotangents) if c is not None]
    several = [base.cotangents, cotangents_for(case, recorded.outputs, salt=5)]
    expected = [recorded.pull(one) for one in several]
    stacked = [_stack([one[i] for one in several]) for i in used]
    again = case.linearize()
    outputs = [again.outputs[i] for i in used]
    grad = partial(torch.autograd.grad, is_grads_batched=True, allow_unused=True)
    found = attempt(partial(grad, outputs, again.primals, stacked))
    for i, value in enumerate(found):
        rows = [row for one in expected if (row := one[i]) is not None]
        if len(rows) == len(several):
            yield from _gradient_differs(base, i, value, torch.stack(rows), "several upstream gradients at once")


def batched_tangents(base: Baseline, samples: Sequence[Batch]) -> Iterator[Finding]:
    """Several tangents at once, by forward mode under vmap, as `torch.func.jacfwd` does."""
    case = base.case
    source = generator(case, 67)
    directions = [[signed(primal, source) for primal in case.primals] for _ in range(2)]
    loop = [attempt(partial(push, case, direction)) for direction in directions]

    def tangents(*direction: Tensor) -> tuple[Tensor, ...]:
        return torch.func.jvp(_outputs_of(case), tuple(p.clone() for p in case.primals), direction)[1]  # type: ignore[no-any-return]

    stacked = [torch.stack(column) for column in zip(*directions, strict=True)]
    found = attempt(partial(_map, tangents, (0,) * len(stacked), stacked))
    for i, value in enumerate(found):
        rows = [one[i] for one in loop]
        present = [torch.zeros_like(base.outputs[i]) if row is None else row for row in rows]
        expected = torch.stack(present)
        slack = (256 * torch.finfo(value.dtype).eps + case.target.declared.error) * float(
            expected[expected.isfinite()].abs().sum()
        )
        slack += sum(base.gradient_slack)
        difference = Difference(i, base.output_name(i), value, expected, distance(value, expected), slack)
        if not difference.error <= difference.slack:
            yield difference.finding(
                "vmap-tangent", "A tangent under vmap is another than in a loop",
                f"several tangents at once; {case.label}",
                cause="the jvp mixes the samples, or its vmap rule is wrong",
            )  # fmt: skip
