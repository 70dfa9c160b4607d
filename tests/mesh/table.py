"""What every operator is called with on a mesh, and the comparison with the same call on plain tensors."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from tests.cases import CASES, REVERSE, REVERSE_AGAIN, Case, real

from . import operators as ops

Placements = tuple[Any, ...]

EXACT = {"rtol": 1e-9, "atol": 1e-9}


# -- the operators ----------------------------------------------------------------------------------------------------


def _linear(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    out = (x.unsqueeze(-2) * w).sum(-1)
    return out if b is None else out + b


def _arguments() -> tuple[Tensor, ...]:
    return real(5, 6), real(4, 6), real(4)


_ONCE = frozenset({REVERSE_AGAIN})

OWN = [
    Case("mesh linear", ops.linear, _linear, _arguments),
    Case("mesh linear 2", ops.linear, _linear, lambda: (real(2, 3, 5), real(1, 5))),
    Case("mesh linear_np", ops.linear_np, _linear, _arguments, cannot=_ONCE),
    Case("mesh linear_c", ops.linear_c, _linear, _arguments, cannot=_ONCE),
    Case("mesh linear_cpp", ops.linear_cpp, _linear, _arguments, cannot=_ONCE),
    Case("mesh linear_num", ops.linear_num, _linear, _arguments),
    Case("mesh linear_loop", ops.linear_loop, _linear, lambda: (real(5, 6), real(5, 4, 6))),
    Case("mesh linear_loop 2", ops.linear_loop, _linear, lambda: (real(5, 6), real(4, 6))),
    Case("mesh moments", ops.moments, lambda x, s: (x.sum(-2) + s, (x * x).sum(-2)), lambda: (real(2, 5, 4), real(1))),
    Case("mesh moments 2", ops.moments, lambda x, s: (x.sum(-2) + s, (x * x).sum(-2)), lambda: (real(5, 4), real(4))),
    Case("mesh widest", ops.widest, lambda x: x.amax(0), lambda: (real(3, 5),)),
    Case(
        "mesh total",
        ops.total,
        lambda terms, offsets: sum((t * t).sum() for t in terms) + sum(offsets),
        lambda: ([real(5), real(5)], [real(), real()]),
    ),
    Case("mesh between", ops.between, lambda x, y: x.movedim(0, -1) * y, lambda: (real(4, 2, 3), real(4))),
    Case("mesh turned", ops.turned, lambda x: x.mT, lambda: (real(3, 4),)),
    Case("mesh ranked", ops.ranked, lambda x: (2 * x, x.argmax(-1)), lambda: (real(3, 4),)),
    Case("mesh looked_up", ops.looked_up, lambda t, i: t[i], lambda: (real(3, 4), torch.tensor([2, 0, 2, 1, 1]))),
    Case("mesh mean_of", ops.mean_of, lambda x, y: (x + y * y) / 2, lambda: (real(3, 4), real(4))),
]

TABLE = {case.name: case for case in [*OWN, *CASES]}


# -- tensors on a mesh ------------------------------------------------------------------------------------------------


def lay(tensor: Tensor, mesh: Any, placements: Sequence[Any]) -> DTensor:
    """A DTensor of a tensor that is the same on all ranks. Of a sum, each rank has a term of its own."""
    whole = [Replicate() if p.is_partial() else p for p in placements]
    laid = distribute_tensor(tensor, mesh, whole)
    if whole == list(placements):
        return laid
    local = laid.to_local()
    for axis, placement in enumerate(placements):
        if placement.is_partial():
            local = local * _share(mesh, axis, tensor.dtype)
    return DTensor.from_local(
        local, mesh, placements, run_check=False, shape=tensor.shape, stride=tensor.contiguous().stride()
    )


def _share(mesh: Any, axis: int, dtype: torch.dtype) -> Tensor:
    """The factor of one rank; those of all ranks differ, and add up to 1."""
    ranks, rank = mesh.size(axis), mesh.get_coordinate()[axis]
    return torch.tensor(rank + 2 if rank < ranks - 1 else 1 - sum(range(2, ranks + 1)), dtype=dtype)


def full(value: Any) -> Tensor:
    """The whole of a DTensor."""
    assert isinstance(value, DTensor), f"this is no DTensor, but {type(value)}"
    with torch.no_grad():
        return value.detach().full_tensor()


def words(places: Sequence[Placements]) -> str:
    """Placements for the names of tests and errors: S0, R or P for each mesh axis of each tensor."""

    def word(placement: Any) -> str:
        return "P" if placement.is_partial() else f"S{placement.dim}" if placement.is_shard() else "R"

    return " ".join("/".join(map(word, placements)) for placements in places)


# -- placements -------------------------------------------------------------------------------------------------------


def _ways(tensor: Tensor) -> list[Any]:
    """All ways for a tensor to lie along one mesh axis."""
    numbers = tensor.is_floating_point() or tensor.is_complex()
    return [Replicate(), *map(Shard, range(tensor.dim())), *([Partial()] if numbers else [])]


def layouts(leaves: Sequence[Tensor], ndim: int, count: int) -> list[list[Placements]]:
    """Placements of all tensors of a call: each way of each tensor beside whole ones, then mixed ones."""
    whole = (Replicate(),) * ndim
    made = [[whole] * len(leaves)]
    for i, leaf in enumerate(leaves):
        for way in _ways(leaf)[1:]:
            placements = (way, *whole[1:])
            made.append([placements if j == i else whole for j in range(len(leaves))])
    for number in range(count):
        chance = random.Random(f"{number} {ndim} {[tuple(leaf.shape) for leaf in leaves]}")
        made.append([tuple(chance.choice(_ways(leaf)) for _ in range(ndim)) for leaf in leaves])
    return made


# -- the comparison ---------------------------------------------------------------------------------------------------


def derivatives(
    function: Callable[..., tuple[Any, ...]], leaves: Sequence[Any], cotangents: Sequence[Any], order: int
) -> list[Any]:
    """The outputs of a call; first derivatives, seeded with cotangents; second ones, seeded with the first's numbers.

    Args:
        cotangents: one for each differentiable output, then one for each leaf that requires a gradient.
    """
    outputs = function(*leaves)
    inputs = [leaf for leaf in leaves if leaf.requires_grad]
    seen = [output for output in outputs if output.requires_grad]
    results = list(outputs)
    if order == 0 or not seen:
        return results
    seeds = [cotangent.detach().requires_grad_() for cotangent in cotangents[: len(seen)]]
    first = torch.autograd.grad(seen, inputs, seeds, create_graph=order > 1, allow_unused=True)
    results += [_or_zeros(gradient, leaf) for gradient, leaf in zip(first, inputs, strict=True)]
    curved = [
        (gradient, seed)
        for gradient, seed in zip(first, cotangents[len(seen) :], strict=True)
        if gradient is not None and gradient.requires_grad
    ]
    if order == 1 or not curved:
        return results
    gradients, more = zip(*curved, strict=True)
    second = torch.autograd.grad(gradients, [*inputs, *seeds], more, allow_unused=True)
    return results + [_or_zeros(g, leaf) for g, leaf in zip(second, [*inputs, *seeds], strict=True)]


def _or_zeros(gradient: Any, leaf: Any) -> Any:
    return torch.zeros_like(leaf) if gradient is None else gradient


def order_of(case: Case) -> int:
    """How often an operator can be differentiated, as far as is compared."""
    return 0 if REVERSE in case.cannot else 1 if REVERSE_AGAIN in case.cannot else 2


def compare(case: Case, mesh: Any, places: Sequence[Placements], *, order: int | None = None) -> tuple[Any, ...]:
    """Compare a call on a mesh with the same on plain tensors, with all derivatives; return its outputs."""
    order = order_of(case) if order is None else order
    raw = case.raw(case.call)
    plain = case.leaves()
    plain = [leaf.requires_grad_(grad and order > 0) for leaf, grad in zip(plain, _wanted(case), strict=True)]
    outputs = raw(*plain)
    seeds = [torch.randn_like(t.detach()) for t in (*outputs, *plain) if t.requires_grad]
    expected = derivatives(raw, plain, seeds, order)
    chance = random.Random(words(places))
    laid = [
        lay(leaf.detach(), mesh, p).requires_grad_(leaf.requires_grad) for leaf, p in zip(plain, places, strict=True)
    ]
    laid_seeds = [lay(seed, mesh, [chance.choice(_ways(seed)) for _ in range(mesh.ndim)]) for seed in seeds]
    made = derivatives(raw, laid, laid_seeds, order)
    assert len(made) == len(expected), (len(made), len(expected))
    for number, (one, other) in enumerate(zip(made, expected, strict=True)):
        torch.testing.assert_close(
            full(one), other.detach(), **EXACT,
            msg=lambda text, number=number: f"{case.name}, {words(places)}, result {number}: {text}",
        )  # fmt: skip
    return tuple(made[: len(outputs)])


def _wanted(case: Case) -> list[bool]:
    return [case._differentiable(position, leaf) for position, leaf in case._leaves(torch.float64)]
