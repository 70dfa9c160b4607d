"""Outputs that a rule leaves out: refused, unless it was said that they are independent or have no derivative."""

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

import torchgraft as tg

X, W = (torch.linspace(0.1, 0.9, 3, dtype=torch.float64) + i for i in range(2))
TWO = tuple[Float[Tensor, "n"], Float[Tensor, "n"]]


def two():
    @tg.op
    def two(x: Float[Tensor, "n"], w: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
        return torch.sin(x), torch.exp(w) * 2

    return two


def loss(op):
    def value(x, w):
        one, other = op(x, w)
        return (one * other).sum() + other.cos().sum()

    return value


# -- refused -----------------------------------------------------------------------------------------------------------

USES = {
    "backward": lambda op: op(X.clone().requires_grad_(), W),
    "grad": lambda op: grad(loss(op))(X, W),
    "jvp": lambda op: jvp(lambda x: op(x, W), (X,), (X,)),
    "vmap": lambda op: vmap(grad(loss(op)), (0, None))(X[None], W),
    "jacfwd": lambda op: jacfwd(loss(op))(X, W),
}


@pytest.mark.parametrize("use", USES)
def test_a_rule_that_leaves_out_a_gradient_is_refused(use):
    op = two()

    @op.vjp("x")
    def _(grad_out0, x):
        return grad_out0 * torch.cos(x)

    assert not op.capabilities()["reverse"]
    assert not op.capabilities()["forward"]
    assert "grad_out1" in str(op)
    with pytest.raises(
        tg.RuleError, match=r"two\.vjp\[x\]' argument 'grad_out1'.*output 'out1' would be lost"
    ) as caught:
        USES[use](op)
    for way in ('@two.vjp("x", independent="out1")', 'two.nondifferentiable("out1", reason="...")'):
        assert way in str(caught.value)


def test_rules_on_arrays_in_c_and_adjoints_are_refused_alike():
    @tg.op
    def doubled(x: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        return 2 * x, 3 * x

    @doubled.adjoint("x")
    def _(grad_out0: np.ndarray) -> np.ndarray:
        return 2 * grad_out0

    source = tg.c("""
    void twice(int64_t n, const T *x, T *out0, T *out1) {
        for (int64_t i = 0; i < n; i++) out0[i] = 2 * (out1[i] = x[i]);
    }
    void twice_vjp_x(int64_t n, const T *grad_out0, T *grad_x) {
        for (int64_t i = 0; i < n; i++) grad_x[i] = 2 * grad_out0[i];
    }
    """)

    @tg.op(kernel=source)
    def twice(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]: ...

    @twice.vjp("x", kernel=source)
    def _(grad_out0): ...

    for op in (doubled, twice):
        with pytest.raises(tg.RuleError, match="does not read grad_out1") as caught:
            op(X.clone().requires_grad_())
        assert ("independent" in str(caught.value)) == (op is twice)  # linear in x, an output moves with x or is zero


def test_without_a_gradient_nothing_is_refused():
    op = two()
    op.vjp("x")(lambda grad_out0, x: grad_out0 * torch.cos(x))
    torch.testing.assert_close(op(X, W), (torch.sin(X), torch.exp(W) * 2))
    with torch.no_grad():
        op(X.clone().requires_grad_(), W)


# -- independent -------------------------------------------------------------------------------------------------------


def independent():
    op = two()
    op.vjp("x", independent="out1")(lambda grad_out0, x: grad_out0 * torch.cos(x))
    op.vjp("w", independent=["out0"])(lambda grad_out1, w: grad_out1 * torch.exp(w) * 2)
    return op


def test_independent_outputs_are_right_in_every_mode():
    op, plain = independent(), lambda x, w: (torch.sin(x), torch.exp(w) * 2)
    assert "independent of out1" in str(op)
    assert op.capabilities()["reverse"]
    for transform in (grad, jacfwd, hessian, lambda f, argnums: jacrev(jacrev(f, argnums), argnums)):
        found, expected = (transform(loss(f), argnums=(0, 1))(X, W) for f in (op, plain))
        torch.testing.assert_close(found, expected)


@pytest.mark.slow
def test_a_wrong_promise_of_independence_is_found():
    @tg.op
    def wrong(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
        return torch.sin(x), torch.cos(x)

    wrong.vjp("x", independent="out1")(lambda grad_out0, x: grad_out0 * torch.cos(x))
    report = tg.check(wrong)
    assert not report.ok
    assert tg.check(independent()).ok


@pytest.mark.parametrize(
    ("names", "rule", "words"),
    [
        ("out2", lambda grad_out0: grad_out0, "no output with a gradient"),
        ("out1", lambda grad_out0, grad_out1: grad_out0, "calls independent"),
        (("out0", "out1"), lambda: X, "independent of every output"),
    ],
)
def test_promises_that_cannot_be_meant(names, rule, words):
    with pytest.raises(tg.DeclarationError, match=words):
        two().vjp("x", independent=names)(rule)


# -- outputs without a derivative --------------------------------------------------------------------------------------


def inert(reason="it jumps"):
    op = two()
    op.nondifferentiable("out1", reason=reason)
    op.vjp("x")(lambda grad_out0, x: grad_out0 * torch.cos(x))
    op.vjp("w")(lambda grad_out0, w: 0 * grad_out0 * w)
    return op


def of_first(op):
    return lambda x, w: op(x, w)[0].square().sum()


def test_the_other_outputs_have_their_derivatives():
    op, plain = inert(), lambda x, w: (torch.sin(x), torch.exp(w) * 2)
    for transform in (grad, jacfwd, hessian, lambda f: jacrev(jacrev(f))):
        found, expected = (transform(of_first(f))(X, W) for f in (op, plain))
        torch.testing.assert_close(found, expected)
    mapped = vmap(grad(of_first(op)), (0, None))(X.expand(2, 3), W)
    torch.testing.assert_close(mapped, grad(of_first(plain))(X, W).expand(2, 3))
    x = X.clone().requires_grad_()
    op(x, W)[0].sum().backward()
    torch.testing.assert_close(x.grad, torch.cos(X))
    assert "it jumps" in str(op)


SILENT = {
    "grad": lambda op: grad(loss(op))(X, W),
    "vmap": lambda op: vmap(grad(loss(op)), (0, None))(X[None], W),
    "backward": lambda op: op(X.clone().requires_grad_(), W)[1].sum().backward(),
    "compile": lambda op: torch.compile(loss(op), backend="aot_eager")(X.clone().requires_grad_(), W).backward(),
    "hessian": lambda op: hessian(loss(op))(X, W),
}


@pytest.mark.parametrize("use", SILENT)
def test_nothing_comes_back_through_them_in_silence(use):
    torch._dynamo.reset()
    with pytest.raises(tg.DerivativeError, match=r"two' argument 'out1'.*it jumps"):
        SILENT[use](inert())


def test_their_tangent_is_no_number():
    _, (_, tangent) = jvp(lambda x: inert()(x, W), (X,), (X,))
    assert tangent.isnan().all()


@pytest.mark.slow
def test_compiled_code_hands_them_out():
    op = inert()
    torch._dynamo.reset()
    for backend in ("aot_eager", "inductor"):
        x = X.clone().requires_grad_()
        one, other = torch.compile(lambda x: op(x, W), backend=backend, fullgraph=True)(x)
        torch.testing.assert_close(other, torch.exp(W) * 2)
        one.sum().backward()
        torch.testing.assert_close(x.grad, torch.cos(X))


def test_they_are_named_before_the_rules_that_count_them():
    for kind, rule in {
        "jvp": lambda x_tangent: (x_tangent, x_tangent),
        "vjp": lambda grad_out0, grad_out1: grad_out0,
    }.items():
        op = two()
        getattr(op, kind)("x")(rule)
        with pytest.raises(tg.DeclarationError, match="before the rules"):
            op.nondifferentiable("out1")
    with pytest.raises(tg.DeclarationError, match=r"asks for 'grad_out1'"):
        inert().jvp("x")(lambda x_tangent, grad_out1: x_tangent)
    with pytest.raises(tg.DeclarationError, match="no floating output 'out2'"):
        two().nondifferentiable("out2")


def test_a_jvp_pushes_the_others():
    op = two()
    op.nondifferentiable("out1")
    op.jvp("x")(lambda x, x_tangent: x_tangent * torch.cos(x))
    _, (tangent, none) = jvp(lambda x: op(x, W), (X,), (X,))
    torch.testing.assert_close(tangent, X * torch.cos(X))
    assert none.isnan().all()
