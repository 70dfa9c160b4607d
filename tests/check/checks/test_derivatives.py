"""Checks of derivatives beyond one backward at one size: forward mode, second order, other sizes."""

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

import torchgraft as tg
from torchgraft._check.finding import Skip, Verdict

from .looking import DOUBLE, SIN, alarms, case_of, findings, function, modern, normal, plain
from .right import CUBE, MATMUL, RIGHT, scale

X = normal(3)

# -- promises about outputs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moves", [False, True])
def test_an_output_that_is_promised_to_be_independent(moves):
    @tg.op
    def sine_and_square(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
        return x.sin(), x.square() if moves else torch.ones_like(x)

    @sine_and_square.vjp("x", independent="out1")
    def _(grad_out0: Tensor, x: Tensor) -> Tensor:
        return grad_out0 * x.cos()

    assert alarms("gradient", sine_and_square, X) == ({"wrong-gradient"} if moves else set())


# -- forward mode ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jvp", "words"),
    [
        (lambda dx, x: -dx * x.cos(), "sign"),
        (lambda dx, x: 2 * dx * x.cos(), "2 times"),
        (lambda dx, x: torch.zeros_like(dx), "zero"),
        (lambda dx, x: dx * x.sin(), "not of the same function"),
    ],
    ids=["sign", "factor", "zero", "formula"],
)
def test_a_wrong_tangent(jvp, words):
    (finding,) = findings("forward mode", modern(torch.sin, lambda g, x: g * x.cos(), jvp), X)
    assert finding.code == "wrong-tangent"
    assert words in finding.cause
    torch.testing.assert_close(finding.analytic, jvp(finding.numeric / X.cos(), X))


def test_the_tangent_of_one_input_is_dropped():
    drops = modern(
        torch.mul, lambda g, x, y: (g * y, g * x), lambda dx, dy, x, y: torch.zeros_like(x) if dx is None else dx * y
    )
    found = findings("forward mode", drops, X, normal(3, seed=1))
    assert [f.code for f in found] == ["wrong-tangent"]
    assert "tangents of input 1" in found[0].where


def test_tangents_that_are_not_there_are_zeros():
    wants = modern(torch.mul, lambda g, x, y: (g * y, g * x), lambda dx, dy, x, y: dx * y + x * dy)
    assert findings("forward mode", wants, X, normal(3, seed=1)) == []


def test_where_the_backward_is_wrong_it_says_so():
    (finding,) = findings("forward mode", modern(torch.sin, lambda g, x: -g * x.cos(), lambda dx, x: dx * x.cos()), X)
    assert finding.code == "wrong-gradient"


def test_a_tangent_that_depends_on_what_autograd_records():
    def jvp(ctx, dx):
        (x,) = ctx.saved_tensors
        return (2 if ctx.needs_input_grad[0] else 1) * dx * x.cos()

    sine = modern(torch.sin, lambda g, x: g * x.cos(), lambda dx, x: dx * x.cos())
    assert findings("forward mode", sine, X) == []
    sine.__self__.jvp = staticmethod(jvp)
    (finding,) = findings("forward mode", sine, X)
    assert (finding.code, "records" in finding.cause) == ("wrong-tangent", True)


def test_a_tangent_of_an_earlier_call():
    kept = {}

    def jvp(dx, x):
        return dx * kept.setdefault(x.shape, x.detach().cos().clone())

    assert alarms("forward mode", modern(torch.sin, lambda g, x: g * x.cos(), jvp), X) == {"wrong-tangent"}


def test_forward_mode_that_is_right_or_refused():
    assert findings("forward mode", CUBE, X) == []
    assert findings("forward mode", MATMUL, normal(3, 4), normal(4, 5)) == []
    with pytest.raises(Skip, match="jvp"):
        findings("forward mode", SIN, X)
    (notice,) = findings("forward mode", scale, X, 2.0)
    assert (notice.code, notice.severity) == ("no-tangent", Verdict.PASS)


# -- second order ---------------------------------------------------------------------------------------------------


def saving(*keep):
    """x * sigmoid(x), whose backward reads what `keep` makes."""

    def forward(ctx, x):
        ctx.save_for_backward(x, *(make(x) for make in keep))
        return x * x.sigmoid()

    def backward(ctx, grad):
        x, *gate = ctx.saved_tensors
        s = gate[0] if gate else x.sigmoid()
        return grad * s * (1 + x * (1 - s))

    return plain(forward, backward)


def test_a_saved_intermediate():
    (finding,) = findings("second order", saving(torch.sigmoid), X)
    assert finding.code == "wrong-second-derivative"
    assert "intermediate result is saved" in finding.cause
    assert "once_differentiable" in finding.hint
    assert findings("second order", saving(), X) == []


def test_an_intermediate_on_ctx():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.cos = x.cos()
        return x.sin()

    (finding,) = findings("second order", plain(forward, lambda ctx, g: g * ctx.cos), X)
    assert "intermediate result is saved" in finding.cause


def numpy_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return torch.from_numpy(grad.detach().numpy() * np.cos(x.detach().numpy()))


def sine(backward):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    return plain(forward, backward)


def test_a_backward_that_leaves_torch():
    (finding,) = findings("second order", sine(numpy_backward), X)
    assert finding.code == "lost-second-derivative"
    with pytest.raises(Skip, match="once_differentiable"):
        findings("second order", sine(once_differentiable(numpy_backward)), X)


def test_a_second_derivative_that_is_dropped_for_one_input():
    dropped = function(torch.mul, lambda g, x, y: (g * y.detach(), g * x))
    (finding,) = findings("second order", dropped, X, normal(3, seed=1))
    assert finding.code == "wrong-second-derivative"


def test_the_gradient_of_steps_is_detached_and_right():
    assert findings("second order", torch.round, X) == []
    assert findings("second order", function(torch.sign, lambda g, x: torch.zeros_like(g)), X) == []


# -- sizes ----------------------------------------------------------------------------------------------------------


def mean(count):
    """The mean over the first axis, with a wrong number of rows in the backward."""
    return function(lambda x: x.mean(0), lambda g, x: (g / count(x.shape[0])).expand_as(x))


@pytest.mark.parametrize(
    ("count", "size"),
    [(lambda n: n if n > 1 else 2, 1), (lambda n: n if n < 64 else 64, 67), (lambda n: n if n % 4 == 0 else n + 1, 1)],
    ids=["one", "large", "not a multiple"],
)
def test_a_gradient_that_is_wrong_at_other_sizes(count, size):
    (finding,) = findings("sizes", mean(count), normal(4, 3))
    assert finding.code == "wrong-gradient-at-size"
    assert f"size {size} instead of 4" in finding.cause


def test_a_gradient_that_is_right_for_squares():
    def backward(grad, x):
        return (grad / x.shape[1]).expand_as(x)

    squares = function(lambda x: x.mean(0), backward)
    (finding,) = findings("sizes", squares, normal(3, 3))
    assert finding.code == "wrong-gradient-at-size"
    assert "axis 0 of" in finding.cause
    assert "longer by one" in finding.cause


def test_an_empty_batch():
    def backward(grad, x):
        return torch.stack([g * row.cos() for g, row in zip(grad, x, strict=True)])

    (finding,) = findings("sizes", function(torch.sin, backward), normal(3, 2))
    assert (finding.code, finding.severity) == ("backward-raises", Verdict.FAIL)
    assert "size 0" in finding.cause


def test_an_empty_filter_is_a_notice():
    def backward(grad, x, w):
        if not w.numel():
            raise ValueError("no filter")
        return grad * w.sum(), (grad * x).sum().expand_as(w)

    (finding,) = findings("sizes", function(lambda x, w: x * w.sum(), backward), normal(3), normal(2))
    assert (finding.code, finding.severity) == ("backward-raises", Verdict.PASS)


def test_empty_weights_are_a_notice():
    """The batch is in the first argument."""
    weight = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]], dtype=torch.int8)

    def forward(x, weight, bias):
        return torch.nn.functional.linear(x, weight.to(x.dtype), bias)

    def backward(grad, x, weight, bias):
        flat = grad.reshape(-1, grad.shape[-1])  # Torch refuses it where there are no outputs.
        return grad @ weight.to(grad.dtype), None, flat.sum(0)

    found = findings("sizes", function(forward, backward), normal(3, 4), weight, normal(2))
    assert {(f.code, f.severity) for f in found} == {("backward-raises", Verdict.PASS)}


def test_to_refuse_a_size_in_the_backward_is_loud():
    """Unless it is that of a small batch, or annotations admit it."""

    def backward(grad, x):
        if x.shape[1] != 3:
            raise ValueError("no vectors in space")
        return grad * x.cos()

    (finding,) = findings("sizes", function(torch.sin, backward), normal(4, 3))
    assert (finding.code, finding.severity) == ("backward-raises", Verdict.PASS)
    assert "refuse such sizes in the forward" in finding.hint

    @tg.op
    def annotated(x: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
        return x.sin()

    annotated.vjp("x")(backward)
    assert alarms("sizes", annotated, normal(4, 3)) == {"backward-raises"}


def test_arguments_that_do_not_fit_each_other():
    """A gradient of a wrong shape is a defect where sizes may differ, which the shape of the output tells."""
    ignored = function(lambda x, y: x * y[:3], lambda g, x, y: (g * y[:3], g * x))
    joined = function(lambda x, y: torch.cat([x, y]), lambda g, x, y: (g[: len(y)], g[len(y) :]))
    assert alarms("sizes", ignored, normal(3), normal(3)) == set()
    assert alarms("sizes", joined, normal(3), normal(3)) == {"backward-raises"}


@pytest.mark.slow
def test_a_batch_of_one_that_the_backward_refuses():
    squeezed = function(torch.sin, lambda g, x: torch.einsum("ij,ij->ij", g.squeeze(), x.cos()))
    (finding,) = tg.check(squeezed, normal(4, 3), only="sizes").findings
    assert (finding.code, finding.severity) == ("backward-raises", Verdict.FAIL)
    assert "size 1" in finding.cause


@pytest.mark.slow
def test_what_is_wrong_only_elsewhere_is_told_apart():
    nearly = mean(lambda n: n if n < 64 else 64)
    report = tg.check(nearly, normal(4, 3))
    assert not report.ok
    assert "Nothing is wrong with the call that you gave" in report.to_text()
    assert not any(finding.given for finding in report.findings if finding.severity is Verdict.FAIL)
    assert all(f.title.endswith("you did not give") for f in report.findings if f.severity is Verdict.FAIL)
    assert "Nothing is wrong" not in tg.check(mean(lambda n: n + 1), normal(4, 3)).to_text()


class Edged(Function):
    """Doubles, with an edge of a kind whose words nobody else uses."""

    @staticmethod
    def forward(ctx, x, edge):
        if edge not in ("open", "shut"):
            raise ValueError(edge)
        ctx.edge = edge
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return (3 if ctx.edge == "shut" else 2) * grad, None


def test_options_whose_words_stand_in_the_code():
    (finding,) = findings("options", Edged.apply, normal(3), "open")
    assert "edge='shut'" in finding.where


@pytest.mark.slow
def test_sizes_that_are_right_already_wrong_or_refused():
    for name in ("matmul", "conv2d", "Linear", "nn.GRU", "sort"):
        assert findings("sizes", *RIGHT[name]) == []
    with pytest.raises(Skip, match="already"):
        findings("sizes", function(torch.sin, lambda g, x: -g * x.cos()), X)
    with pytest.raises(Skip, match="no other sizes"):
        findings("sizes", torch.sin, torch.tensor(1.0, dtype=DOUBLE))


def test_a_case_keeps_its_parameters_sizes():
    from torchgraft._check.checks.sizes import variants

    case = case_of(*RIGHT["nn.GRU"])
    shapes = {name: leaf.shape for name, leaf in zip(case.leaf_names, case.leaves, strict=True) if "_l0" in name}
    for other in (variant.case for variant in variants(case)):
        found = {name: leaf.shape for name, leaf in zip(other.leaf_names, other.leaves, strict=True) if "_l0" in name}
        assert found == shapes


# -- ties -----------------------------------------------------------------------------------------------------------


def shared(pick):
    """The largest of each row, whose gradient goes where `pick(x, largest)` says."""
    return function(lambda x: x.amax(-1), lambda grad, x: grad[..., None] * pick(x, x.amax(-1, keepdim=True)))


def test_ties_that_the_arguments_do_not_have():
    x = normal(3, 4)
    assert alarms("ties", shared(lambda x, top: (x == top).double()), x) == {"wrong-at-ties"}
    assert not alarms("ties", shared(lambda x, top: (x == top) / (x == top).sum(-1, keepdim=True)), x)
    assert not alarms("gradient", shared(lambda x, top: (x == top).double()), x)


@pytest.mark.slow
def test_ties_of_two_tensors():
    maximum = function(torch.maximum, lambda grad, x, y: (grad * (x >= y), grad * (y >= x)))
    (finding,) = tg.check(maximum, normal(3), normal(3, seed=1), only=["ties"]).findings
    assert "input 0 and input 1 are equal (ties), their gradients add up to 2 times" in finding.cause


def test_what_is_wrong_anyhow_is_not_said_to_be_wrong_at_ties():
    with pytest.raises(Skip, match="wrong where elements differ already"):
        findings("ties", function(lambda x: x.amax(-1), lambda grad, x: torch.zeros_like(x)), normal(3, 4))


def test_where_no_elements_may_be_equal():
    def distinct(x):
        if len(x.unique()) < x.numel():
            raise ValueError("equal elements")
        return x.sin()

    with pytest.raises(Skip, match="no equal elements"):
        findings("ties", distinct, X)


def test_what_torch_refuses_at_another_size_is_a_notice():
    index = torch.tensor([0, 1, 1, 3])

    def spread(x):
        return torch.zeros(5, dtype=x.dtype).scatter_reduce(0, index, x, "amax")

    (notice,) = findings("sizes", spread, normal(4))
    assert (notice.code, notice.severity) == ("backward-raises", Verdict.PASS)
    cube = function(lambda x: x**3, lambda grad, x: 3 * grad.reshape(4) * x**2)
    assert alarms("sizes", lambda x: cube(x) + 0, normal(4)) == {"backward-raises"}


class HalfATanh(Function):
    """Its second derivative goes through its first, which is wrong."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * (1 - ctx.saved_tensors[0])


def test_a_second_derivative_that_follows_from_a_wrong_first_one():
    with pytest.raises(Skip, match="wrong already"):
        findings("second order", HalfATanh.apply, normal(3))


# -- second order in some inputs ------------------------------------------------------------------------------------


def partly(wrong=1.0):
    """The second derivative in `a` is refused, that in `x` is `wrong` times what it should be."""

    @tg.op
    def by_a(a: Float[Tensor, "..."], x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x.sin()

    @by_a.partial("a")
    def _(a, x):
        raise tg.DerivativeError("not available")

    @by_a.partial("x")
    def _(a, x):
        return x.cos()

    @tg.op
    def by_x(a: Float[Tensor, "..."], x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return a * x.cos()

    @by_x.partial("a")
    def _(a, x):
        return x.cos()

    @by_x.partial("x")
    def _(a, x):
        return -wrong * a * x.sin()

    @tg.op
    def wave(a: Float[Tensor, "..."], x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return a * x.sin()

    @wave.partial("a")
    def _(a, x):
        return by_a(a, x)

    @wave.partial("x")
    def _(a, x):
        return by_x(a, x)

    return wave


def test_a_second_derivative_in_some_inputs_is_proved_there():
    assert not alarms("second order", partly(), X, normal(3, seed=1))
    assert alarms("second order", partly(1.01), X, normal(3, seed=1)) == {"wrong-second-derivative"}
