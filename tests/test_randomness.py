"""Hidden randomness in kernels and rules: refused by name where a result depends on it, and only there."""

import random
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
import torch
import torch.utils.flop_counter
from jaxtyping import Float
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import torchgraft as tg

X = torch.arange(1.0, 10.0, dtype=torch.float64).reshape(3, 3) / 10
held = np.random.default_rng(0)
held_by_torch = torch.Generator()

TORCH_DRAWS = {
    "torch": lambda x: x * torch.rand_like(x),
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5),
    "in place": lambda x: x + torch.empty_like(x).normal_(),
    "a generator it holds": lambda x: x + torch.empty_like(x).normal_(generator=held_by_torch),
    "random": lambda x: x * random.random(),
}
ARRAY_DRAWS = {
    "numpy.random": lambda x: x * np.random.rand(*x.shape),
    "a generator it holds": lambda x: x + held.standard_normal(x.shape),
    "random": lambda x: x * random.gauss(0, 1),
    "a generator that it makes": lambda x: x + 1e-9 * np.random.default_rng().standard_normal(x.shape),
}
SURROUNDINGS = {
    "plain": lambda op: op(X),
    "vmap": lambda op: torch.vmap(op, randomness="different")(X[None]),
    "jvp": lambda op: torch.func.jvp(op, (X,), (X,)),
    "compile": lambda op: torch.compile(op, backend="aot_eager")(X),
}


def of_tensors(draw):
    @tg.op
    def noisy(x: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
        return draw(x)

    return noisy


def of_arrays(draw):
    @tg.op
    def noisy(x: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        return draw(x)

    return noisy


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
@pytest.mark.parametrize(
    ("make", "draw"),
    [*((of_tensors, draw) for draw in TORCH_DRAWS.values()), *((of_arrays, draw) for draw in ARRAY_DRAWS.values())],
    ids=[*(f"tensors-{name}" for name in TORCH_DRAWS), *(f"arrays-{name}" for name in ARRAY_DRAWS)],
)
def test_a_kernel_that_draws_is_refused_wherever_it_is_met_first(make, draw, surroundings):
    if surroundings == "compile":
        torch._dynamo.reset()
    with pytest.raises(Exception, match=r"(?s)noisy.*draws random numbers"):
        SURROUNDINGS[surroundings](make(draw))


def test_a_kernel_that_draws_in_some_calls_alone_is_refused_in_those():
    @tg.op
    def noisy(x: Float[Tensor, "n m"], p: float = 0.0) -> Float[Tensor, "n m"]:
        return torch.nn.functional.dropout(x, p)

    for _ in range(5):  # past the calls that are looked at in any case, on the hot path
        torch.testing.assert_close(noisy(X), X)
    with pytest.raises(tg.KernelError, match="draws random numbers"):
        noisy(X, 0.5)


def by_seeds(a):
    return a @ np.random.default_rng(0).standard_normal(a.shape)


def expm_multiply(a):
    return scipy.sparse.linalg.expm_multiply(a, a)


@pytest.mark.parametrize("function", [scipy.linalg.logm, expm_multiply, by_seeds])
def test_a_kernel_that_draws_and_does_not_depend_on_it_is_none(function):
    @tg.op
    def quiet(x: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        return np.ascontiguousarray(np.real(function(x @ x.T + np.eye(3))))

    torch.testing.assert_close(quiet(X), quiet(X))


def with_rule(kind, rule):
    @tg.op
    def copy(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x.clone()

    getattr(copy, kind)("x")(rule)
    return copy


def mask(like):
    return torch.rand_like(like)


RULES = {
    "vjp": lambda grad: grad * mask(grad),
    "jvp": lambda x_tangent: x_tangent * mask(x_tangent),
    "partial": lambda x: mask(x),
    "adjoint": lambda grad: grad * mask(grad),
}


def array_vjp(grad: np.ndarray) -> np.ndarray:
    return grad * np.random.rand(*grad.shape)


def backward(op):
    x = X.clone().requires_grad_()
    return torch.autograd.grad(op(x).sum(), x)


USES = {
    "backward": backward,
    "grad": lambda op: torch.func.grad(lambda x: op(x).sum())(X),
    "jvp": lambda op: torch.func.jvp(op, (X,), (X,)),
    "vmap": lambda op: torch.vmap(torch.func.grad(lambda x: op(x).sum()), randomness="different")(X),
}


RUN_BY = {"vjp": set(USES), "partial": set(USES), "jvp": {"jvp"}, "adjoint": set(USES) - {"jvp"}}


@pytest.mark.parametrize(("kind", "use"), [(kind, use) for kind in RULES for use in USES if use in RUN_BY[kind]])
def test_a_rule_that_draws_is_refused(kind, use):
    with pytest.raises(tg.RuleError, match=rf"copy\.{kind}\[x\]'.*draws random numbers"):
        USES[use](with_rule(kind, RULES[kind]))


@pytest.mark.parametrize("use", USES)
def test_a_rule_that_draws_and_reads_what_was_saved_is_refused(use):
    @tg.op
    def square(x: Float[Tensor, "..."]) -> tuple[Float[Tensor, "..."], tg.Saved[Float[Tensor, "..."], "s"]]:
        return x * x, x.clone()

    square.vjp("x")(lambda grad, s: grad * s * mask(s))
    with pytest.raises(tg.RuleError, match=r"square\.vjp\[x\]'.*draws random numbers"):
        USES[use](square)


def test_a_rule_on_arrays_that_draws_is_refused():
    for use in ("backward", "grad", "vmap"):
        with pytest.raises(tg.RuleError, match="draws random numbers"):
            USES[use](with_rule("vjp", array_vjp))


def test_a_rule_that_draws_is_refused_below_several_transforms():
    op = with_rule("jvp", lambda x_tangent: x_tangent * random.random())

    def push(f):
        return lambda x: torch.func.jvp(f, (x,), (x,))[1]

    with pytest.raises(tg.RuleError, match="draws random numbers"):
        torch.func.vjp(torch.vmap(push(push(op))), X[None])


@pytest.mark.parametrize("mode", [torch.utils.flop_counter.FlopCounterMode, None], ids=["a counter", "make_fx"])
def test_a_rule_of_which_forward_mode_is_derived_is_looked_at_under_modes(mode):
    op = with_rule("vjp", lambda grad: grad * random.random())

    def push(x):
        return torch.func.jvp(op, (x,), (x,))[1]

    with pytest.raises(tg.RuleError, match="draws random numbers"), mode(display=False) if mode else nullcontext():
        push(X) if mode else make_fx(push)(X)


@pytest.mark.parametrize("rule", [lambda grad, w: grad * w * mask(w), None], ids=["torch", "numpy"])
@pytest.mark.parametrize("kind", ["vjp", "adjoint"])
def test_zeros_do_not_hide_a_draw(kind, rule):
    """The rule returns zeros whatever it draws, and its own derivative depends on the draw."""

    @tg.op
    def product(x: Float[Tensor, "..."], w: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x * w

    def on_arrays(grad: np.ndarray, w: np.ndarray) -> np.ndarray:
        return grad * w * np.random.rand(*w.shape)

    getattr(product, kind)("x")(rule or on_arrays)
    with pytest.raises(tg.RuleError, match="draws random numbers"):
        torch.func.grad(lambda x: product(x, torch.zeros_like(X)).sum())(X)


def branching(branch):
    @tg.op
    def branched(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return torch.cond(x.sum() > 0, branch, torch.cos, (x,))

    @branched.vjp("x")
    def _(grad, x):
        return grad * torch.where(x.sum() > 0, x.cos(), -x.sin())

    return branched


def test_a_higher_order_operator_in_a_kernel_is_compiled():
    branched, x = branching(torch.sin), torch.ones(3, requires_grad=True)
    compiled = torch.compile(lambda x: branched(x) * 2, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), 2 * x.sin())
    torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x)[0], 2 * x.cos())


def test_a_draw_in_a_branch_is_refused():
    branched, x = branching(lambda x: torch.nn.functional.dropout(x)), torch.ones(3)
    with pytest.raises((tg.KernelError, RuntimeError)):  # The second where Dynamo looks into it first.
        torch.compile(lambda x: branched(x) * 2, backend="aot_eager", fullgraph=True)(x)
