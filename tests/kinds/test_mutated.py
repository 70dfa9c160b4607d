"""Operators that write into their arguments, beside functions of plain torch that write in place."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

import torchgraft as tg

from ..fuzz.on_writes import scale_
from ..simulated import simulated

# -- operators, and what they are in plain torch ----------------------------------------------------------------------


@tg.op
def axpy_(y: tg.Mutated[Float[Tensor, "..."]], x: Float[Tensor, "..."], a: float) -> None:
    y.add_(x, alpha=a)


@axpy_.vjp("y")
def _(grad_y):
    return grad_y


@axpy_.vjp("x")
def _(grad_y, a):
    return a * grad_y


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


# -- differences from plain torch -------------------------------------------------------------------------------------


def test_overlapping_arguments_are_read_before_anything_is_written():
    for _ in range(3):
        z = torch.arange(5.0)
        axpy_(z[:4], z[1:], 2.0)
        assert z.tolist() == [2, 5, 8, 11, 4]


def test_the_same_tensor_twice():
    for _ in range(3):
        z = torch.arange(3.0)
        axpy_(z, z, 2.0)
        assert z.tolist() == [0, 3, 6]


def test_overlapping_arguments_have_gradients():
    a = torch.arange(5.0, dtype=torch.float64, requires_grad=True)
    z = a * 1
    axpy_(z[:4], z[1:], 2.0)
    (found,) = torch.autograd.grad(z.sum(), a)
    assert found.tolist() == [1, 3, 3, 3, 3]


HOOKS = {
    "nothing": nullcontext,
    "hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
    "save_on_cpu": torch.autograd.graph.save_on_cpu,
}


@pytest.mark.parametrize("around", HOOKS)
def test_overlapping_arguments_that_rules_read(around):
    """They read the values before the call: of x, and of y that is written into."""

    @tg.op
    def add_square(y: tg.Mutated[Float[Tensor, "n"]], x: Float[Tensor, "n"]) -> None:
        y.mul_(y).add_(x * x)

    @add_square.vjp("y")
    def _(grad_y, y):
        return 2 * grad_y * y

    @add_square.vjp("x")
    def _(grad_y, x):
        return 2 * grad_y * x

    def same(a):
        b = a * 1
        add_square(b, b)
        return b

    def shifted(a):
        b = a * 1
        add_square(b[1:], b[:-1])
        return b

    def plainly(f, a):
        b = a * 1
        return 2 * b * b if f is same else torch.cat([b[:1], b[1:] ** 2 + b[:-1] ** 2])

    a = torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64, requires_grad=True)
    for f in (same, shifted):
        wanted = torch.autograd.grad(plainly(f, a).sum(), a)
        with HOOKS[around]():
            made = f(a)
            torch.testing.assert_close(torch.autograd.grad(made.sum(), a), wanted)
        torch.testing.assert_close(torch.func.grad(lambda a, f=f: f(a).sum())(a.detach()), wanted[0])
        pushed = [
            torch.func.jvp(g, (a.detach(),), (torch.ones(3).double(),)) for g in (f, lambda a, f=f: plainly(f, a))
        ]
        torch.testing.assert_close(*pushed)


def test_the_memory_itself_is_written():
    for kind in PAIRS:
        f, _ = pair(kind)
        y, x = values(8)
        address, version = y.data_ptr(), y._version
        for i in range(1, 4):
            f(y, x)
            assert y.data_ptr() == address
            assert y._version == version + i


def test_halves():
    for op, arguments in ((axpy_, (2.0,)), (scale_, ()), (step_, None)):
        for dtype in (torch.float16, torch.bfloat16):
            y, x = (v.to(dtype) for v in values(2, 3))
            exact = y.float()
            if arguments is None:
                made = op(y, torch.ones_like(y), x)
                assert made.dtype is dtype
                _step(exact, torch.ones_like(exact), x.float())
            else:
                op(y, x, *arguments)
                (_axpy if op is axpy_ else _scale)(exact, x.float(), *arguments)
            torch.testing.assert_close(y, exact.to(dtype))


@tg.op
def count_(seen: tg.Mutated[Int64[Tensor, "k"]], label: Int64[Tensor, "n"]) -> None:
    seen.index_add_(0, label, torch.ones_like(label))


@tg.op
def keep_(y: tg.Mutated[Float[Tensor, "n"]], x: Float[Tensor, "n"]) -> tg.Saved[Float[Tensor, "n"], Literal["factor"]]:
    factor = torch.exp(x.detach())
    y.mul_(factor)
    return factor


@keep_.vjp("y")
def _(grad_y, factor):
    return grad_y * factor


@keep_.vjp("x")
def _(grad_y, y_after):
    return grad_y * y_after


def test_integers_are_written():
    seen = torch.zeros(3, dtype=torch.int64)
    for i in range(3):
        assert count_(seen, torch.tensor([0, 2, 2])) is None
        assert seen.tolist() == [i + 1, 0, 2 * (i + 1)]


def test_a_saved_output_is_kept():
    for _ in range(2):
        y, x = (v.requires_grad_() for v in values(3))
        z = y * 1
        assert keep_(z, x) is None
        found = torch.autograd.grad((z**2).sum(), (y, x))
        expected = torch.autograd.grad(((y * x.exp()) ** 2).sum(), (y, x))
        torch.testing.assert_close(found, expected)


def test_the_written_argument_is_the_last_one():
    @tg.op
    def onto_(x: Float[Tensor, "n"], others: list[Float[Tensor, "n"]], y: tg.Mutated[Float[Tensor, "n"]]) -> None:
        y.mul_(x + sum(others))

    @onto_.vjp("y")
    def _(grad_y, x, others):
        return grad_y * (x + sum(others))

    @onto_.vjp("x", "others")
    def _(grad_y, y, others):
        return grad_y * y, [grad_y * y for _ in others]

    @tg.op
    def product_(x: Float[Tensor, "n"], y: tg.Mutated[Float[Tensor, "n"]]) -> None:
        y.mul_(x)

    @product_.vjp("y")
    def _(grad_y, x):
        return grad_y * x

    @product_.vjp("x")
    def _(grad_y, y):
        return grad_y * y

    for _ in range(3):
        y, x = (v.requires_grad_() for v in values(3))
        z = y * 1
        product_(x, z)
        onto_(x, [x, y], z)
        found = torch.autograd.grad((z**2).sum(), (y, x))
        expected = torch.autograd.grad(((y * x * (2 * x + y)) ** 2).sum(), (y, x))
        torch.testing.assert_close(found, expected)


def test_two_written_arguments_that_overlap_under_autocast():
    z, x = values(4)
    with torch.autocast("cpu"), pytest.raises(tg.UnsupportedError, match="in common"):
        step_(z[:3], z[1:], x[1:])


def test_a_rule_has_the_old_value_whatever_the_caller_writes_afterwards():
    for _ in range(2):
        y, x = (v.requires_grad_() for v in values(3))
        z = y * 1
        scale_(z, x)
        made = z * 3
        z.zero_()
        found = torch.autograd.grad(made.sum(), (y, x))
        expected = torch.autograd.grad(3 * (y * torch.sin(x)).sum(), (y, x))
        torch.testing.assert_close(found, expected)


def test_a_value_that_was_written_later_is_refused_by_name():
    for _ in range(2):
        y, x = (v.requires_grad_() for v in values(3))
        z = y * 1
        keep_(z, x)  # Its rule reads the value after the call.
        made = z * 3
        z.zero_()
        with pytest.raises(tg.DerivativeError, match="keep_"):
            torch.autograd.grad(made.sum(), (y, x))


def test_what_was_saved_of_a_written_tensor_is_refused():
    a = torch.ones(3, requires_grad=True)
    z = a * 1
    w = z * z
    with torch.no_grad():
        for _ in range(2):
            axpy_(z, torch.ones(3), 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        w.sum().backward()


def test_a_module_writes_its_buffer():
    @tg.op
    def follow(x: Float[Tensor, "*batch n"], mean: tg.Mutated[Float[Tensor, "n"]]) -> Float[Tensor, "*batch n"]:
        mean.lerp_(x.reshape(-1, x.shape[-1]).mean(0), 0.1)
        return x - mean

    module = tg.module(follow, buffers=("mean",), name="Follow")(3)
    x, expected = torch.randn(5, 3), torch.zeros(3)
    for _ in range(2):
        expected.lerp_(x.mean(0), 0.1)
        torch.testing.assert_close(module(x), x - expected)
    torch.testing.assert_close(module.state_dict()["mean"], expected)


# -- running statistics ---------------------------------------------------------------------------------------------


def normalized(declared: str) -> Any:
    """Normalize by the mean of a batch, and write a running mean, which `x` and `w` are said not to move."""

    @tg.op(name=f"norm_{declared}")
    def norm(
        x: Float[Tensor, "b n"], w: Float[Tensor, "n"], mean: tg.Mutated[Float[Tensor, "n"]]
    ) -> Float[Tensor, "b n"]:
        now = x.mean(0)
        mean.lerp_(now, 0.25)
        return (x - now) * w

    say = {"independent": "mean_after"}
    if declared == "nondifferentiable":
        norm.nondifferentiable("mean_after", reason="statistics")
        norm.nondifferentiable("mean", reason="statistics")
        say = {}
    else:
        norm.vjp("mean", independent="out")(lambda grad_mean: 0.75 * grad_mean)

    @norm.vjp("x", **say)
    def _(grad_out, w):
        grad = grad_out * w
        return grad - grad.mean(0)

    @norm.vjp("w", **say)
    def _(grad_out, x):
        return (grad_out * (x - x.mean(0))).sum(0)

    return norm


NORMS = {name: normalized(name) for name in ("independent", "nondifferentiable")}


class Norm(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(n))
        self.register_buffer("mean", torch.zeros(n))

    def forward(self, x):
        now = x.mean(0)
        with torch.no_grad():
            self.mean.lerp_(now, 0.25)
        return (x - now) * self.w


@pytest.mark.parametrize("declared", NORMS)
@pytest.mark.parametrize("road", ["in place", "view", "mode", "aot_eager"])
def test_running_statistics_stay_out_of_the_graph(declared, road):
    made = tg.module(NORMS[declared], parameters=("w",), buffers=("mean",), name="Norm")(3), Norm(3)
    for module in made:
        torch.nn.init.ones_(module.w)
        torch.nn.init.zeros_(module.mean)
        if road == "view":  # No node writes into a view: the functional road.
            module.mean = torch.zeros(2, 3)[1]
    for _ in range(3):
        x = torch.randn(4, 3)
        grads = []
        for module in made:
            call = module
            if road == "aot_eager" and module is made[0]:
                call = torch.compile(module, backend="aot_eager", fullgraph=True)
            with torch.overrides.BaseTorchFunctionMode() if road == "mode" else nullcontext():
                call(x).square().sum().backward()
            assert not module.mean.requires_grad
            grads.append((module.w.grad, module.mean))
        torch.testing.assert_close(*grads)
    copy.deepcopy(made[0])


@pytest.mark.parametrize("compiled", [False, True])
def test_a_statistic_that_requires_grad_joins_the_graph(compiled):
    norm = NORMS["independent"]

    def loss(start, x, w):
        mean = start * 1
        out = norm(x, w, mean)
        return (mean * torch.arange(3.0)).sum() + out.square().sum()

    start = torch.zeros(3, requires_grad=True)
    run = torch.compile(loss, backend="aot_eager", fullgraph=True) if compiled else loss
    run(start, torch.randn(4, 3), torch.ones(3, requires_grad=True)).backward()
    torch.testing.assert_close(start.grad, 0.75 * torch.arange(3.0))


def test_a_statistic_that_some_level_differentiates_joins_the_graph():
    norm, x, w = NORMS["independent"], torch.randn(4, 3), torch.ones(3)

    def inner(w, start):
        mean = start * 1
        return norm(x, w, mean).square().sum() + (mean.square() * w).sum()

    def loss(start):
        return torch.func.grad(inner)(w, start).sum()  # of mean.square(), of which start is at the outer level

    torch.testing.assert_close(
        torch.func.grad(loss)(torch.ones(3)), 2 * 0.75 * (0.75 * torch.ones(3) + 0.25 * x.mean(0))
    )


def test_both_operators_are_copied_and_pickled_by_name():
    for op in (axpy_, axpy_.functional):
        assert copy.deepcopy(op) is op
        assert pickle.loads(pickle.dumps(op)) is op


def test_a_rule_that_is_declared_later_is_used():
    @tg.op
    def twice_(y: tg.Mutated[Float[Tensor, "n"]]) -> None:
        y.mul_(2)

    x = torch.ones(2, requires_grad=True)
    z = x * 1
    with torch.no_grad():
        twice_(z)
    z = x * 1
    twice_(z)
    with pytest.raises(tg.DerivativeError, match="twice_"):
        z.sum().backward()

    @twice_.vjp("y")
    def _(grad_y):
        return 2 * grad_y

    z = x * 1
    twice_(z)
    assert torch.autograd.grad(z.sum(), x)[0].tolist() == [2, 2]
    assert torch.func.grad(lambda x: twice_.functional(x).sum())(torch.ones(2)).tolist() == [2, 2]


def test_it_says_what_it_writes():
    text = str(step_)
    assert "y: tg.Mutated[" in text
    assert "Tensor(a0!) y, Tensor(a1!) z, Tensor x" in text
    assert "writes   y, z" in text
    assert step_.prototype().startswith("void step_(int64_t n, T *y, T *z, const T *x, double a, T *out)")


def test_opcheck():
    y, x = values(3)
    for op, arguments in ((axpy_, (y, x, 2.0)), (scale_, (y, x)), (step_, (y, x.clone(), x, 0.5))):
        torch.library.opcheck(op.torch_op, arguments)


@pytest.mark.slow
@pytest.mark.parametrize("op", [axpy_, scale_, step_, keep_], ids=lambda op: op.__name__)
def test_it_is_proved(op):
    report = tg.check(op)
    assert report, report


# -- what is refused --------------------------------------------------------------------------------------------------


def refusals() -> dict[str, tuple[type[Exception], str, Callable[[], Any]]]:
    y, x = (v.float() for v in values(3))

    def inside_grad():
        torch.func.grad(lambda x: (axpy_(y.clone(), x, 1.0), axpy_(captured, x, 1.0), x.sum())[2])(x)

    captured = y.clone()
    with torch.inference_mode():
        inferred = torch.ones(3)
    leaf = torch.ones(3, requires_grad=True)
    return {
        "a leaf": (tg.UnsupportedError, "leaf that requires grad", lambda: axpy_(leaf, x, 1.0)),
        "a leaf in C": (tg.UnsupportedError, "leaf", lambda: step_(leaf, y.clone(), x)),
        "an expanded tensor": (tg.UnsupportedError, "one place", lambda: axpy_(torch.ones(1).expand(3), x, 1.0)),
        "windows": (tg.UnsupportedError, "one place", lambda: scale_(torch.ones(4).unfold(0, 2, 1), torch.ones(3, 2))),
        "inference": (tg.UnsupportedError, "inference", lambda: axpy_(inferred, x, 1.0)),
        "one tensor written twice": (tg.UnsupportedError, "in common", lambda: step_(captured, captured, x)),
        "two views written": (tg.UnsupportedError, "in common", lambda: step_(captured[:2], captured[1:], x[:2])),
        "no room": (tg.ShapeError, "has not room", lambda: axpy_(y.clone(), torch.ones(2, 3), 1.0)),
        "no room for samples": (
            tg.UnsupportedError, "cannot be written here", lambda: torch.vmap(lambda x: axpy_(y, x, 1.0))(x[None])
        ),
        "a captured tensor": (tg.UnsupportedError, "captured", inside_grad),
        "a number": (tg.ArgumentError, "not a tensor", lambda: axpy_(1.0, x, 1.0)),
    }  # fmt: skip


@pytest.mark.parametrize("name", refusals())
def test_refused(name: str):
    error, words, call = refusals()[name]
    for _ in range(2):
        with pytest.raises(error, match=words) as caught:
            call()
        assert caught.value.operator.endswith("_")
        assert caught.value.hint


def test_an_undeclared_argument_is_not_written():
    @tg.op
    def wrong_(y: tg.Mutated[Float[Tensor, "n"]], x: Float[Tensor, "n"], how: int) -> None:
        y.add_(x)
        if how:
            x.zero_()

    y, x = values(3)
    wrong_(y, x, 0)
    for _ in range(2):
        with pytest.raises(tg.KernelError, match="wrote into its input") as caught:
            wrong_(y, torch.ones(3, dtype=torch.float64), 1)
        assert caught.value.argument == "x"


def test_a_kernel_that_returns_too_much():
    @tg.op
    def wrong_(y: tg.Mutated[Float[Tensor, "n"]]) -> None:
        return y.mul_(2)

    with pytest.raises(tg.KernelError, match="number of outputs") as caught:
        wrong_(torch.ones(2))
    assert "write the result into y" in caught.value.hint


def test_a_kernel_that_returns_what_it_writes():
    @tg.op
    def same_(y: tg.Mutated[Float[Tensor, "n"]]) -> Float[Tensor, "n"]:
        return y.mul_(2)

    for _ in range(3):
        y = torch.ones(2)
        made = same_(y)
        made.zero_()
        assert y.tolist() == [2, 2]


def test_declarations_that_are_refused():
    with pytest.raises(tg.DeclarationError, match="one tensor"):

        @tg.op
        def f(y: tg.Mutated[list[Float[Tensor, "n"]]]) -> None: ...

    with pytest.raises(tg.DeclarationError, match="cannot be left out"):

        @tg.op
        def g(y: tg.Mutated[Float[Tensor, "n"]] | None) -> None: ...

    with pytest.raises(tg.DeclarationError, match="one tensor"):

        @tg.op
        def h(y: tg.Mutated[int]) -> None: ...

    with pytest.raises(tg.DeclarationError, match="already that of"):

        @tg.op
        def i(y: tg.Mutated[Float[Tensor, "n"]], y_after: Float[Tensor, "n"]) -> None: ...

    with pytest.raises(tg.DeclarationError, match="grad_y"):

        @axpy_.vjp("y")
        def _(grad):
            return grad


@tg.op(batch="loop")
def rotate_(y: tg.Mutated[Float[np.ndarray, "n"]], x: Float[np.ndarray, "n"]) -> Float[np.ndarray, ""]:
    y[:] = np.roll(y, 1) + x
    return y.max()


@tg.op(batch="loop")
def rotate_torch_(y: tg.Mutated[Float[Tensor, "n"]], x: Float[Tensor, "n"]) -> Float[Tensor, ""]:
    y.copy_(y.roll(1) + x)
    return y.amax()


@pytest.mark.parametrize("op", [rotate_, rotate_torch_], ids=lambda op: op.__name__)
def test_loops(op):
    y, x = values(2, 4, 3)
    for shape in ((2, 4, 3), (1, 4, 3), (3,)):
        given = x[:1] if shape == (1, 4, 3) else x[0, 0] if shape == (3,) else x
        written, expected = y.clone(), y.roll(1, -1) + given
        torch.testing.assert_close(op(written, given), expected.amax(-1))
        torch.testing.assert_close(written, expected)
    new, top = torch.vmap(op.functional, in_dims=(None, 0))(y[0, 0], x[0])  # The function takes what is not mapped.
    torch.testing.assert_close(new, y[0, 0].roll(1) + x[0])
    torch.testing.assert_close(top, new.amax(-1))
    mapped = torch.vmap(lambda x: op.functional(y[0], x)[0])(x)
    torch.testing.assert_close(mapped, y[:1].roll(1, -1) + x)


# -- meshes ------------------------------------------------------------------------------------------------------------


def _whole(tensor: Tensor) -> Tensor:
    full = tensor.full_tensor()
    return full.reconcile() if hasattr(full, "reconcile") else full


@pytest.mark.parametrize("kind", PAIRS)
def test_dtensors_keep_their_placements(kind: str):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    ours, theirs = pair(kind)
    y, x = values(4, 3)
    expected = y.clone()
    theirs(expected, x)
    z = y.clone().requires_grad_()
    (slope,) = torch.autograd.grad(_loss(theirs)(z, x), z)
    with simulated(2) as mesh:
        for own, other in ((Shard(0), Shard(0)), (Replicate(), Shard(0)), (Shard(1), Replicate())):
            written = distribute_tensor(y.clone(), mesh, [own])
            given = distribute_tensor(x, mesh, [other])
            ours(written, given)
            assert written.placements == (own,)
            torch.testing.assert_close(_whole(written), expected)
            leaf = distribute_tensor(y.clone(), mesh, [own]).requires_grad_()
            (found,) = torch.autograd.grad(_loss(ours)(leaf, given), leaf)
            torch.testing.assert_close(_whole(found), slope)


# -- refused before anything is written -------------------------------------------------------------------------------


@pytest.mark.parametrize("view", [lambda w: w[0], lambda w: (w * 1).unbind()[0]], ids=["of a leaf", "of several"])
@pytest.mark.parametrize("calls", [1, 3])
def test_a_view_that_autograd_refuses_is_not_written(view, calls):
    @tg.op
    def twice_(y: tg.Mutated[Float[Tensor, "..."]], x: Float[Tensor, "..."]) -> None:
        y.mul_(x)

    twice_.partial("y")(lambda x: x)
    twice_.partial("x")(lambda y: y)
    for _ in range(calls):
        y = view(torch.ones(2, 3, requires_grad=True))
        with pytest.raises(tg.UnsupportedError, match="operator 'twice_' argument 'y': cannot be written here"):
            twice_(y, torch.full((3,), 2.0))
        assert torch.equal(y, torch.ones(3))
        assert y._version == 0


@pytest.mark.slow
@pytest.mark.parametrize(("y", "x"), [([3, 4], [1.5, 1.5]), ([3.0, 4.0], [1.5j, 1.5])])
def test_compiled_code_does_not_round_in_silence(y, x):
    @tg.op
    def scaled_(y: tg.Mutated[Num[Tensor, "n"]], x: Num[Tensor, "n"]) -> None:
        y.mul_(x)

    y = torch.tensor(y)
    before = y.clone()
    with pytest.raises(tg.DtypeError, match=r"'scaled_' argument 'y': is written, and .* does not hold"):
        torch.compile(scaled_, backend="aot_eager")(y, torch.tensor(x))
    with pytest.raises((tg.DtypeError, torch._dynamo.exc.Unsupported)):
        torch.compile(scaled_, backend="aot_eager", fullgraph=True)(y, torch.tensor(x))
    assert torch.equal(y, before)


@pytest.mark.parametrize("factor", [0.0, 1.0])
def test_a_number_that_makes_the_write_idle_is_no_alarm(factor):
    @tg.op
    def mixed_(y: tg.Mutated[Float[Tensor, "..."]], x: Float[Tensor, "..."], a: float) -> None:
        y.lerp_(x, a)

    mixed_.partial("y")(lambda a: 1 - a)
    mixed_.partial("x")(lambda a: a)
    y, x = torch.rand(2, 3, dtype=torch.float64).unbind()
    assert "writes-nothing" not in str(tg.check(mixed_, y, x, factor))


# -- beside other kinds -----------------------------------------------------------------------------------------------


@dataclass
class Moving:
    position: tg.Mutated[Float[Tensor, "*batch n"]]
    velocity: Float[Tensor, "*batch n"]


@pytest.mark.slow
@pytest.mark.parametrize("c", [False, True])
def test_a_field_of_a_structure_is_written(c):
    source = "void step_(int64_t n, T *s_position, const T *s_velocity) {\n"
    source += "for (int64_t i = 0; i < n; i++) s_position[i] += s_velocity[i]; }"

    def step_(s: Moving) -> None:
        s.position.add_(s.velocity)

    step_.__annotations__ = {"s": Moving, "return": None}
    op = tg.op(kernel=tg.c(source))(step_) if c else tg.op(step_)
    op.vjp("s.position", "s.velocity")(lambda grad_s_position: (grad_s_position, grad_s_position))
    a, b = (torch.ones(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    for _ in range(2):
        with torch.no_grad():
            plain = Moving(torch.ones(2, 3), torch.ones(2, 3))
            op(plain)
            assert torch.equal(plain.position, torch.full((2, 3), 2.0))
        moving = Moving(a * 1, b)
        op(moving)
        found = torch.autograd.grad((moving.position**2).sum(), (a, b))
        assert all(torch.equal(g, torch.full_like(g, 4.0)) for g in found)

    def of_sample(velocity):
        moving = Moving(velocity * 0, velocity)
        op(moving)
        return moving.position

    assert torch.equal(torch.vmap(of_sample)(torch.eye(3)), torch.eye(3))
    report = tg.check(op)
    assert report.ok, str(report)


@pytest.mark.slow
def test_dropout_in_place():
    @tg.domain(p="[0, 0.9]")
    @tg.op
    def drop_(x: tg.Mutated[Float[Tensor, "*batch n"]], p: float, *, seed: tg.Seed = tg.drawn) -> None:
        x.mul_(tg.random_uniform(seed, x.shape[-1:], dtype=x.dtype).ge(p).to(x.dtype) / (1 - p))

    @drop_.vjp("x")
    def _(grad_x, p, seed):
        kept = tg.random_uniform(seed, grad_x.shape[-1:], dtype=grad_x.dtype).ge(p)
        return grad_x * kept.to(grad_x.dtype) / (1 - p)

    x = torch.ones(2, 40, requires_grad=True)
    y, again = x * 1, x * 1
    drop_(y, 0.5)
    drop_(again, 0.5)
    assert not torch.equal(y, again)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], y)
    fixed = torch.ones(2, 40)
    drop_(fixed, 0.5, seed=3)
    assert torch.equal(fixed, drop_.functional(torch.ones(2, 40), 0.5, seed=3))
    report = tg.check(drop_)
    assert report.ok, str(report)


@dataclass
class Step:
    towards: Float[Tensor, "n"]
    by: float


@pytest.mark.slow
def test_a_structure_beside_what_is_written_passes_the_check():
    @tg.op
    def towards_(y: tg.Mutated[Float[Tensor, "n"]], s: Step) -> None:
        y.add_(s.towards, alpha=s.by)

    towards_.vjp("y")(lambda grad_y: grad_y)
    towards_.vjp("s.towards")(lambda grad_y, s_by: grad_y * s_by)
    report = tg.check(towards_)
    assert report.ok, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("inside", [True, False], ids=["views made inside", "views given"])
@pytest.mark.parametrize("grad", [True, False])
def test_compiled_code_refuses_two_written_arguments_that_overlap(inside, grad):
    @tg.op
    def swap_(a: tg.Mutated[Float[Tensor, "n"]], b: tg.Mutated[Float[Tensor, "n"]]) -> None:
        kept = a.clone()
        a.copy_(b)
        b.copy_(kept)

    swap_.vjp("a", "b")(lambda grad_a, grad_b: (grad_b, grad_a))
    compiled = torch.compile(swap_, backend="aot_eager")
    within = torch.compile(lambda x: swap_(x[:3], x[2:]), backend="aot_eager")
    x = torch.arange(5.0, requires_grad=grad) * 1
    before = x.detach().clone()
    with pytest.raises((tg.UnsupportedError, torch._dynamo.exc.TorchRuntimeError), match="both written, have memory"):
        within(x) if inside else compiled(x[:3], x[2:])
    assert torch.equal(x, before)
    apart = torch.arange(6.0, requires_grad=grad) * 1
    compiled(apart[:3], apart[3:])
    assert apart.tolist() == [3, 4, 5, 0, 1, 2]


@tg.op
def grow_(y: tg.Mutated[Float[Tensor, "..."]]) -> None:
    y.exp_()


grow_.partial("y")(lambda y_after: y_after)


@pytest.mark.parametrize("again", [lambda y: y.sin_(), lambda y: axpy_(y, torch.ones(1), 2.0)], ids=["torch", "ours"])
def test_a_checkpoint_does_not_hand_out_what_was_written_again(again):
    def f(w):
        y = w * 1
        grow_(y)
        again(y)
        return y + 0

    w = torch.ones(1, requires_grad=True)
    for _ in range(2):
        for out in (f(w), checkpoint(lambda w: f(w).sin(), w, use_reentrant=False)):
            with pytest.raises(tg.DerivativeError, match=r"'grow_': a tensor that was saved .* changed in place since"):
                out.backward()


@pytest.mark.parametrize(
    "under",
    [
        lambda f, w: f(w),
        lambda f, w: checkpoint(f, w, use_reentrant=False),
        lambda f, w: checkpoint(f, w, use_reentrant=True),
        lambda f, w: checkpoint(lambda w: checkpoint(f, w, use_reentrant=False), w, use_reentrant=False),
    ],
    ids=["plain", "checkpoint", "reentrant", "nested"],
)
@pytest.mark.parametrize("hooks", [None, torch.autograd.graph.save_on_cpu, "clone", "same"])
def test_hooks_hand_out_what_was_written_once(under, hooks):
    def f(w):
        y = w * 1
        for _ in range(3):  # Before, it may be written as often as one likes.
            axpy_(y, torch.ones(1, dtype=torch.float64), 0.5)
        grow_(y)
        return y.sin()

    pair = {"clone": lambda t: t.clone(), "same": lambda t: t}.get(hooks)
    context = torch.autograd.graph.saved_tensors_hooks(pair, pair) if pair else hooks() if hooks else nullcontext()
    w = torch.ones(1, requires_grad=True, dtype=torch.float64)
    expected = torch.autograd.grad((w + 1.5).exp().sin(), w)[0]
    for _ in range(2):
        with context:
            out = under(f, w)
        w.grad = None
        out.backward()
        assert torch.allclose(w.grad, expected)


@pytest.mark.slow
def test_arrays_with_one_output_beside_a_saved_one():
    """Callers get the output, in the first call and in those that write into the memory itself."""

    @tg.op
    def grown_(
        y: tg.Mutated[Float[np.ndarray, "n"]], x: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, ""], tg.Saved[Float[np.ndarray, "n"], Literal["factor"]]]:
        factor = np.exp(x)
        y *= factor
        return y.sum(), factor

    grown_.vjp("y")(lambda grad_y, grad_out, factor: (grad_y + grad_out) * factor)
    grown_.vjp("x")(lambda grad_y, grad_out, y_after: (grad_y + grad_out) * y_after)
    y, x = torch.ones(3, dtype=torch.float64), torch.full((3,), 0.5, dtype=torch.float64)
    for i in range(1, 4):
        torch.testing.assert_close(grown_(y, x), 3 * torch.exp(i * x[0]))
    report = tg.check(grown_)
    assert report.ok, str(report)
