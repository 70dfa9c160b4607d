"""What an operator says of itself, against what it does."""

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int64
from torch import Tensor

import torchgraft as tg
from examples.correlate2d import correlate2d
from examples.linear import linear
from examples.softplus import softplus


def answers(op):
    return {name: capability.answer for name, capability in op.capabilities().items()}


@tg.op
def plain(x: Float[Tensor, "n"], index: Int64[Tensor, "m"]) -> Float[Tensor, "m"]:
    return x[index]


@tg.op
def opaque(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return np.sin(x)


@opaque.vjp("x")
def _(grad: np.ndarray, x):
    return grad * np.cos(x)


@tg.op
def unshaped(x: np.ndarray) -> np.ndarray:
    return x * 2


def test_the_examples():
    assert answers(linear) == {
        "reverse": "yes", "forward": "derived", "second order": "derived", "vmap": "derived",
        "compile": "yes", "export": "yes", "autocast": "yes",
    }  # fmt: skip
    assert answers(correlate2d)["forward"] == answers(correlate2d)["second order"] == "yes"
    assert answers(softplus)["vmap"] == "yes"
    assert "fused" in linear.capabilities()["compile"].how
    assert "not fused" in correlate2d.capabilities()["compile"].how


@pytest.mark.parametrize(
    ("op", "transform", "advice"),
    [
        (plain, "reverse", '@plain.vjp("x")'),
        (plain, "forward", '@plain.jvp("x")'),
        (opaque, "forward", '@opaque.jvp("x")'),
        (opaque, "second order", "torch functions"),
        (unshaped, "compile", "@unshaped.shape"),
        (unshaped, "export", "@unshaped.shape"),
    ],
)
def test_a_no_says_what_to_add(op, transform, advice):
    capability = op.capabilities()[transform]
    assert not capability
    assert str(capability).startswith("no: ")
    assert advice in capability.how


def test_a_no_is_an_error_when_it_is_tried():
    x, index = torch.rand(3), torch.tensor([0, 2])
    with pytest.raises(tg.DerivativeError, match=r"plain.*reverse-mode"):
        torch.func.grad(lambda x: plain(x, index).sum())(x)
    with pytest.raises(tg.DerivativeError, match=r"plain.*forward-mode"):
        torch.func.jvp(lambda x: plain(x, index), (x,), (x,))
    with pytest.raises(tg.DerivativeError, match="opaque"):
        torch.func.hessian(lambda x: opaque(x).sum())(x)
    with pytest.raises(tg.UnsupportedError, match="shape"):
        unshaped(torch.rand(3, device="meta"))


def test_what_is_added_changes_the_answer():
    @tg.op
    def grown(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * 2

    assert answers(grown)["reverse"] == "no"
    grown.vjp("x")(lambda grad: grad * 2)
    assert answers(grown)["reverse"] == "yes"
    assert answers(grown)["forward"] == "derived"
    grown.jvp("x")(lambda x_tangent: x_tangent * 2)
    assert answers(grown)["forward"] == "yes"


def test_print_shows_schema_kernels_rules_and_transforms():
    text = str(linear)
    for part in (
        "(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
        "any: torch",
        "linear.vjp[weight] on tensors, reads grad, input",
        "derived: the transpose of the vjp",
    ):
        assert part in text
    assert 'cpu: numpy, batch="loop"' in str(correlate2d)
    assert "not differentiable: its dtype has no derivative" in str(plain)
    assert repr(linear) == f"<torchgraft.Op {linear._record.qualname}>"


def test_claims_are_made_for_each_device():
    @tg.op
    def scaled(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return 2 * x

    @scaled.adjoint("x")
    def _(grad: np.ndarray):
        return 2 * grad

    assert scaled.capabilities("cuda")["reverse"].how == "add @scaled.kernel('cuda')"

    @scaled.kernel("meta")
    def _(x):
        return 2 * x

    assert scaled.capabilities()["reverse"]
    assert not scaled.capabilities("meta")["reverse"]
    assert "on meta, no: scaled.adjoint[x] is on arrays, for the CPU alone" in str(scaled)


def test_a_rule_that_reads_an_output_without_derivative():
    """Second derivatives are refused where they flow through it, and nowhere else: that is not known before."""

    @tg.op
    def kept(x: Float[Tensor, "n"], state: tg.Mutated[Float[Tensor, "n"]]) -> Float[Tensor, "n"]:
        state.add_(x)
        return x * state

    kept.nondifferentiable("state", "state_after")
    assert not kept.capabilities()["second order"]

    @kept.vjp("x")
    def _(grad_out, x, state_after):
        return grad_out * (state_after + x)

    capability = kept.capabilities()["second order"]
    assert capability.answer == "unknown"
    assert "state_after" in capability.how


def test_an_adjoint_beside_an_argument_without_derivative():
    """It is linear in the upstream gradient; nobody differentiates it by the other."""

    @tg.op
    def weighed(x: Float[np.ndarray, "n"], w: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return w * x

    weighed.nondifferentiable("w")

    @weighed.adjoint("x")
    def _(grad: np.ndarray, w: np.ndarray):
        return w * grad

    assert answers(weighed)["second order"] == "yes"
    x, w, grad = (torch.tensor([a, 2.0], dtype=torch.float64, requires_grad=a != 3) for a in (1.0, 3.0, 5.0))
    (found,) = torch.autograd.grad(weighed(x, w), x, grad, create_graph=True)
    assert torch.autograd.grad(found.sum(), grad)[0].tolist() == [3, 2]
