"""Operators that write into their arguments, beside functions of plain torch that write in place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad

import torchgraft as tg

# -- operators, and what they are in plain torch ------------------------------------------------------------------------


@tg.op
def axpy_(y: tg.Mutated[Float[Tensor, "..."]], x: Float[Tensor, "..."], a: float) -> None:
    y.add_(x, alpha=a)


@axpy_.vjp("y")
def _(grad_y):
    return grad_y


@axpy_.vjp("x")
def _(grad_y, a):
    return a * grad_y


@tg.op
def scale_(y: tg.Mutated[Float[np.ndarray, "*batch n"]], x: Float[np.ndarray, "*batch n"]) -> None:
    y *= np.sin(x)


@scale_.vjp("y")
def _(grad_y, x):
    return grad_y * torch.sin(x)


@scale_.vjp("x")
def _(grad_y, y, x):
    return grad_y * y * torch.cos(x)


@tg.op(
    kernel=tg.c("""
void step_(int64_t n, T *y, T *z, const T *x, double a, T *out) {
    *out = 0;
    for (int64_t i = 0; i < n; i++) {
        z[i] = a * z[i] + x[i] * x[i];
        y[i] *= z[i];
        *out += y[i];
    }
}""")
)
def step_(
    y: tg.Mutated[Float[Tensor, "*batch n"]],
    z: tg.Mutated[Float[Tensor, "*batch n"]],
    x: Float[Tensor, "*batch n"],
    a: float = 0.5,
) -> Float[Tensor, "*batch"]:
    return tg.native


@step_.vjp("y", independent="z_after")
def _(grad_y, grad_out, z_after):
    return (grad_y + grad_out[..., None]) * z_after


@step_.vjp("z", "x")
def _(grad_y, grad_z, grad_out, y, x, a):
    inner = grad_z + (grad_y + grad_out[..., None]) * y
    return a * inner, 2 * x * inner


def _axpy(y: Tensor, x: Tensor, a: float) -> None:
    y.add_(x, alpha=a)


def _scale(y: Tensor, x: Tensor) -> None:
    y.mul_(torch.sin(x))


def _step(y: Tensor, z: Tensor, x: Tensor, a: float = 0.5) -> Tensor:
    z.mul_(a).add_(x * x)
    y.mul_(z)
    return y.sum(-1)


PAIRS = {
    "torch": (lambda f: lambda y, x: f(y, x, 2.0), axpy_, _axpy),
    "numpy": (lambda f: f, scale_, _scale),
    "c": (lambda f: lambda y, x: _with_state(f, y, x), step_, _step),
}


def _with_state(f: Callable[..., Tensor], y: Tensor, x: Tensor) -> Tensor:
    z = torch.ones_like(y) * x
    out = f(y, z, x)
    return z.sum() + out.sum()


def pair(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The operator and the plain function, as functions that write into the first of two tensors."""
    wrap, op, plain = PAIRS[name]
    return wrap(op), wrap(plain)


def values(*shape: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    y, x = (torch.rand(shape, dtype=torch.float64, generator=generator) + 0.5 for _ in range(2))
    return y, x


# -- ways of calling --------------------------------------------------------------------------------------------------


def _loss(f: Callable[..., Any]) -> Callable[[Tensor, Tensor], Tensor]:
    """A function of both tensors whose value hangs on what is written and on what is returned."""

    def loss(y: Tensor, x: Tensor) -> Tensor:
        z = torch.sin(y)
        made = f(z, x)
        return (z**2).sum() + (0 if made is None else made.sum())

    return loss


def plain(f):
    y, x = values(2, 3)
    outs = [f(y, x) for _ in range(3)]
    return y, x, *outs


def no_grad_on_leaf(f):
    y, x = values(3)
    y.requires_grad_()
    with torch.no_grad():
        return f(y, x), y.detach(), y.requires_grad, y.is_leaf


def inference(f):
    with torch.inference_mode():
        y, x = values(3)
        return f(y, x), f(y, x), y.clone()


def gradients(f):
    y, x = (v.requires_grad_() for v in values(2, 3))
    found = [torch.autograd.grad(_loss(f)(y, x), (y, x)) for _ in range(3)]
    return found


def gradient_of_x_alone(f):
    y, x = values(3)
    x.requires_grad_()
    z = y.clone()
    f(z, x)
    return z.requires_grad, torch.autograd.grad((z**2).sum(), x)


def gradient_of_y_alone(f):
    y, x = values(3)
    y.requires_grad_()
    return torch.autograd.grad(_loss(f)(y, x), y)


def second(f):
    y, x = (v.requires_grad_() for v in values(3))
    first = torch.autograd.grad(_loss(f)(y, x), (y, x), create_graph=True)
    return [torch.autograd.grad((g**2).sum(), (y, x), retain_graph=True, allow_unused=True) for g in first]


def into_a_view(f):
    y, x = values(2, 3)
    y.requires_grad_()
    base = y * 1
    f(base[1], x[1])
    return base.detach(), torch.autograd.grad((base**2).sum(), y)


def into_columns(f):
    y, x = values(3, 2)
    for _ in range(2):
        f(y.mT, x.mT)
    return y


def neighbours(f):
    y, _ = values(6)
    return f(y[:3], y[3:]), f(y[:3], y[3:]), y


def empty(f):
    y, x = torch.zeros(0), torch.zeros(0)
    return f(y, x), y


def func_grad(f):
    return torch.func.grad(_loss(f), argnums=(0, 1))(*values(3))


def func_jvp(f):
    y, x = values(3)
    return torch.func.jvp(_loss(f), (y, x), (x, y))


def hessian(f):
    return torch.func.hessian(_loss(f), argnums=(0, 1))(*values(3))


def jacrev(f):
    def both(y, x):
        z = y * 2
        f(z, x)
        return z

    return torch.func.jacrev(both, argnums=(0, 1))(*values(3))


def dual_level(f):
    y, x = values(3)
    with forward_ad.dual_level():
        z = forward_ad.make_dual(y, x) * 2
        f(z, forward_ad.make_dual(x, y))
        return tuple(forward_ad.unpack_dual(z))


def vmap(f):
    y, x = values(4, 3)

    def one(y, x):
        made = f(y, x)
        return x if made is None else made

    return torch.vmap(one)(y, x), torch.vmap(one, in_dims=(1, 1))(y, x), y


def vmap_of_a_shared_x(f):
    y, x = values(4, 3)
    torch.vmap(lambda y: (f(y, x[0]), y.sum())[1])(y)
    return y


def per_sample_gradients(f):
    return torch.vmap(torch.func.grad(_loss(f), argnums=(0, 1)))(*values(4, 3))


def checkpointed(f):
    y, x = (v.requires_grad_() for v in values(3))
    made = torch.utils.checkpoint.checkpoint(_loss(f), y, x, use_reentrant=False)
    return made, torch.autograd.grad(made, (y, x))


def functionalized(f):
    def body(y, x):
        z = y * 2
        f(z, x)
        return z

    return torch.func.functionalize(body)(*values(3))


def compiled(f, backend="aot_eager"):
    y, x = values(3)
    run = torch.compile(lambda y, x: f(y, x), fullgraph=True, backend=backend)
    return run(y, x), run(y, x), y


def compiled_with_gradients(f, backend="aot_eager"):
    y, x = (v.requires_grad_() for v in values(3))
    run = torch.compile(_loss(f), fullgraph=True, backend=backend)
    return torch.autograd.grad(run(y, x), (y, x))


def compiled_inside(f):
    def body(y, x):
        z = y * 2
        f(z, x)
        f(z, x)
        return z + 1

    return torch.compile(body, fullgraph=True, backend="aot_eager")(*values(3))


def inductor(f):
    return compiled(f, "inductor"), compiled_with_gradients(f, "inductor")


def exported(f):
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.state = torch.nn.Buffer(values(3)[0])

        def forward(self, x):
            f(self.state, x)
            return self.state * 2

    x = values(3)[1]
    with torch.no_grad():
        module = torch.export.export(Module(), (x,)).module()
        return module(x), module(x + 1)


def profiled(f):
    y, x = values(3)
    with torch.profiler.profile():
        return f(y, x), f(y, x), y


def in_threads(f):
    made = [values(64) for _ in range(4)]
    threads = [threading.Thread(target=lambda y=y, x=x: [f(y, x) for _ in range(20)]) for y, x in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [y for y, _ in made]


def autocast(f):
    y, x = (v.float() for v in values(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        f(y, x)
    return y


WAYS = [
    plain, no_grad_on_leaf, inference, gradients, gradient_of_x_alone, gradient_of_y_alone, second, into_a_view,
    into_columns, neighbours, empty, func_grad, func_jvp, hessian, jacrev,
    dual_level, vmap, vmap_of_a_shared_x, per_sample_gradients, checkpointed, functionalized, compiled,
    compiled_with_gradients, compiled_inside, exported, profiled, in_threads, autocast,
    pytest.param(inductor, marks=pytest.mark.slow),
]  # fmt: skip


def numbers(value: Any) -> list[Any]:
    return [
        leaf.detach() if isinstance(leaf, Tensor) else leaf
        for leaf in torch.utils._pytree.tree_leaves(value)
        if leaf is not None
    ]


@pytest.fixture(autouse=True)
def _fresh_compiler():
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", PAIRS)
def test_it_does_what_plain_torch_does(kind: str, way: Callable[..., Any]):
    ours, theirs = pair(kind)
    found, expected = way(ours), way(theirs)
    assert len(numbers(found)) == len(numbers(expected)) > 0
    for one, other in zip(numbers(found), numbers(expected), strict=True):
        if isinstance(other, Tensor):
            torch.testing.assert_close(one, other)
        else:
            assert one == other
