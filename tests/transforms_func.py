"""Rows of the matrix: `torch.func` and its nestings."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

from .cases import FORWARD, FORWARD_AGAIN, REVERSE, REVERSE_AGAIN
from .transforms import Subject, directions, transform, weights

GROUP = "torch.func"
SECOND_REVERSE = (REVERSE, REVERSE_AGAIN)
FORWARD_OVER_REVERSE = (REVERSE, FORWARD, REVERSE_AGAIN)
REVERSE_OVER_FORWARD = (REVERSE, FORWARD, FORWARD_AGAIN)
SECOND_FORWARD = (FORWARD, FORWARD_AGAIN)
THIRD = (REVERSE, FORWARD, REVERSE_AGAIN, FORWARD_AGAIN)


@transform(GROUP, "grad", REVERSE)
def _(s: Subject) -> Any:
    return grad(s.loss, argnums=s.every)(*s.x)


@transform(GROUP, "vjp", REVERSE)
def _(s: Subject) -> Any:
    out, pullback = vjp(s.f, *s.x)
    return out, pullback(weights(out))


@transform(GROUP, "jvp", FORWARD)
def _(s: Subject) -> Any:
    return jvp(s.f, s.x, directions(s.x))


@transform(GROUP, "linearize", FORWARD)
def _(s: Subject) -> Any:
    out, pushforward = linearize(s.f, *s.x)
    return out, pushforward(*directions(s.x))


@transform(GROUP, "jacrev", REVERSE)
def _(s: Subject) -> Any:
    return jacrev(s.f, argnums=s.every)(*s.x)


@transform(GROUP, "jacfwd", FORWARD)
def _(s: Subject) -> Any:
    return jacfwd(s.f, argnums=s.every)(*s.x)


@transform(GROUP, "hessian", *FORWARD_OVER_REVERSE)
def _(s: Subject) -> Any:
    return hessian(s.loss, argnums=s.every)(*s.x)


@transform(GROUP, "jacfwd(jacfwd)", *SECOND_FORWARD)
def _(s: Subject) -> Any:
    return jacfwd(jacfwd(s.f, argnums=s.every), argnums=s.every)(*s.x)


@transform(GROUP, "jacrev(jacrev)", *SECOND_REVERSE)
def _(s: Subject) -> Any:
    return jacrev(jacrev(s.f, argnums=s.every), argnums=s.every)(*s.x)


@transform(GROUP, "jacrev(jacfwd)", *REVERSE_OVER_FORWARD)
def _(s: Subject) -> Any:
    return jacrev(jacfwd(s.f, argnums=s.every), argnums=s.every)(*s.x)


@transform(GROUP, "jacfwd(jacrev(jacfwd))", *THIRD)
def _(s: Subject) -> Any:
    return jacfwd(jacrev(jacfwd(s.loss, argnums=s.every), argnums=s.every), argnums=s.every)(*s.x)


@transform(GROUP, "jacfwd(jacfwd(jacfwd))", *SECOND_FORWARD)
def _(s: Subject) -> Any:
    return jacfwd(jacfwd(jacfwd(s.loss, argnums=s.every), argnums=s.every), argnums=s.every)(*s.x)


@transform(GROUP, "grad(jvp)", *REVERSE_OVER_FORWARD)
def _(s: Subject) -> Any:
    return grad(lambda *x: jvp(s.loss, x, directions(s.x))[1], argnums=s.every)(*s.x)


@transform(GROUP, "jvp(grad)", *FORWARD_OVER_REVERSE)
def _(s: Subject) -> Any:
    return jvp(grad(s.loss, argnums=s.every), s.x, directions(s.x))


def _mapped(leaves: list[Tensor], chosen: tuple[int, ...], dim: int, size: int) -> tuple[list[Tensor], tuple[Any, ...]]:
    """`leaves` with a new axis at `dim` in the chosen ones (in front, where there is no such place), and `in_dims`."""
    made, dims = [], []
    for i, leaf in enumerate(leaves):
        place = 0 if dim == 1 and leaf.dim() == 0 else dim
        samples = [leaf * (1 + 0.1 * j) if leaf.is_floating_point() else leaf.roll(j) for j in range(size)]
        made.append(torch.stack(samples, place) if i in chosen else leaf)
        dims.append(place if i in chosen else None)
    return made, tuple(dims)


def _subsets(count: int) -> list[tuple[int, ...]]:
    return [c for n in range(1, count + 1) for c in itertools.combinations(range(count), n)]


@transform(GROUP, "vmap, each subset of inputs, in_dims 0, 1, -1")
def _(s: Subject) -> Any:
    results = []
    for chosen in _subsets(len(s.leaves)):
        for dim in (0, 1, -1):
            leaves, in_dims = _mapped(s.leaves, chosen, dim, 3)
            results.append(vmap(s.raw, in_dims=in_dims)(*leaves))
    return results


@transform(GROUP, "vmap(vmap), each input in either")
def _(s: Subject) -> Any:
    results = []
    for outer in range(len(s.leaves)):
        for inner in range(len(s.leaves)):
            leaves, inner_dims = _mapped(s.leaves, (inner,), -1, 2)
            leaves, outer_dims = _mapped(leaves, (outer,), 0, 3)
            results.append(vmap(vmap(s.raw, in_dims=inner_dims), in_dims=outer_dims)(*leaves))
    return results


@transform(GROUP, "vmap(grad)", REVERSE)
def _(s: Subject) -> Any:
    return vmap(grad(s.loss, argnums=s.every))(*s.stacked())


@transform(GROUP, "grad(vmap)", REVERSE)
def _(s: Subject) -> Any:
    return grad(lambda *x: vmap(s.loss)(*x).cos().sum(), argnums=s.every)(*s.stacked())


@transform(GROUP, "vmap(jvp)", FORWARD)
def _(s: Subject) -> Any:
    x = s.stacked()
    return vmap(lambda x, t: jvp(s.f, x, t))(x, directions(x))


@transform(GROUP, "vmap(jvp), one primal, many tangents", FORWARD)
def _(s: Subject) -> Any:
    return vmap(lambda t: jvp(s.f, s.x, t))(directions(s.stacked()))


@transform(GROUP, "jvp(vmap)", FORWARD)
def _(s: Subject) -> Any:
    x = s.stacked()
    return jvp(vmap(s.f), x, directions(x))


@transform(GROUP, "vmap(vjp), one primal, many cotangents", REVERSE)
def _(s: Subject) -> Any:
    out, pullback = vjp(s.f, *s.x)
    return vmap(pullback)(weights(out.expand(3, *out.shape)))


@transform(GROUP, "vmap(jacrev)", REVERSE)
def _(s: Subject) -> Any:
    return vmap(jacrev(s.f, argnums=s.every))(*s.stacked(2))


@transform(GROUP, "vmap(jacfwd)", FORWARD)
def _(s: Subject) -> Any:
    return vmap(jacfwd(s.f, argnums=s.every))(*s.stacked(2))


@transform(GROUP, "vmap(hessian)", *FORWARD_OVER_REVERSE)
def _(s: Subject) -> Any:
    return vmap(hessian(s.loss, argnums=s.every))(*s.stacked(2))


@transform(GROUP, "hessian(vmap)", *FORWARD_OVER_REVERSE)
def _(s: Subject) -> Any:
    return hessian(lambda *x: vmap(s.loss)(*x).cos().sum(), argnums=s.every)(*s.stacked(2))


@transform(GROUP, "vmap(vmap(grad))", REVERSE)
def _(s: Subject) -> Any:
    x = tuple(torch.stack([x, 2 * x]) for x in s.stacked())
    return vmap(vmap(grad(s.loss, argnums=s.every)))(*x)


@transform(GROUP, "per-sample gradients", REVERSE)
def _(s: Subject) -> Any:
    def loss(first: Tensor, others: tuple[Tensor, ...], scale: Tensor) -> Tensor:
        return scale * s.loss(first, *others)

    scales = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, device=s.x[0].device)
    return vmap(grad(loss), in_dims=(None, 0, 0))(s.x[0], s.stacked()[1:], scales)


@transform(GROUP, "functional_call", REVERSE)
def _(s: Subject) -> Any:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.values = torch.nn.ParameterList(s.x)

        def forward(self) -> Tensor:
            return s.loss(*self.values)

    module = Module()
    parameters = {name: 2 * value.detach() for name, value in module.named_parameters()}
    return grad(lambda p: functional_call(module, p, ()))(parameters)
