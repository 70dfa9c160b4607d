"""Checks of what becomes of a call: mapped, faked, compiled, exported, under autocast; and claims about it."""

import itertools

import mpmath
import pytest
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

import torchgraft as tg
from torchgraft._check.checks import ways
from torchgraft._check.finding import Inconclusive, Skip, Verdict

from .looking import SIN, alarms, findings, function, modern, normal, plain
from .right import MATMUL, scale

X = normal(3, 4)
COUNT = itertools.count()

# -- the promise to a mesh --------------------------------------------------------------------------------------------
# The zoo has promises about values that are not kept.


def counting(count):
    @tg.op(reduction="n")
    def counting(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, ""], Int64[Tensor, ""]]:
        return x.sum(), count(x)

    @counting.vjp("x")
    def _(grad, x):
        return grad.expand(x.shape).clone()

    return counting


def test_whole_numbers_are_put_together_too():
    assert not findings("mesh", counting(lambda x: (x > 0).sum()), normal(5))
    (finding,) = findings("mesh", counting(torch.argmax), normal(5))
    assert finding.code == "mesh-reduction"
    assert finding.title.startswith("out1 is another")


def test_an_operator_without_a_batch_is_given_one():
    @tg.op
    def centered(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        return x - x.mean(0) if x.dim() > 1 else x

    @centered.vjp("x")
    def _(grad):
        return grad - grad.mean(0) if grad.dim() > 1 else grad

    (finding, *_) = findings("mesh", centered, normal(4))
    assert finding.code == "mesh-batch"
    assert "batch axis -1 is cut in two" in finding.title


def test_a_sum_that_does_not_go_through():
    @tg.op
    def shifted(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x + 1

    @shifted.adjoint("x")
    def _(grad):
        return grad

    assert {finding.code for finding in findings("mesh", shifted, normal(4))} == {"mesh-sum"}


# -- vmap -----------------------------------------------------------------------------------------------------------


def cumsum(vmap):
    return modern(
        lambda x: x.cumsum(-1), lambda g, x: g.flip(-1).cumsum(-1).flip(-1), lambda dx, x: dx.cumsum(-1), vmap
    )


def test_a_vmap_rule_that_takes_the_mapped_axis_for_the_first():
    (finding,) = findings("vmap", cumsum(lambda apply, dims, x: (apply(x), 0)), X)
    assert finding.code == "vmap-output"
    assert "in_dims=(1,)" in finding.where


def test_a_vmap_rule_that_takes_all_inputs_for_mapped():
    def rule(apply, dims, x, y):
        y = y if dims[1] is not None else y[None]
        return apply(x.movedim(dims[0], 0) if dims[0] is not None else x[None] * 2, y), 0

    assert alarms("vmap", modern(torch.mul, lambda g, x, y: (g * y, g * x), vmap=rule), X, X + 1) == {"vmap-output"}


def test_a_vmap_rule_that_takes_one_axis_for_all():
    def rule(apply, dims, x, y):
        axis = next(dim for dim in dims if dim is not None)
        moved = (t[None] if dim is None else t.movedim(axis, 0) for t, dim in zip((x, y), dims, strict=True))
        return apply(*moved), 0

    (finding,) = findings("vmap", modern(torch.mul, lambda g, x, y: (g * y, g * x), vmap=rule), X, X + 1)
    assert "in_dims=(0, 1)" in finding.where


def test_a_vmap_rule_that_fits_by_chance():
    """Where two tensors need the same axes in front, the first is taken for the batch if it is as long."""

    def matmul(moved):
        def rule(apply, dims, x, y):
            pairs = list(zip((x, y), dims, strict=True))
            size = next(tensor.shape[dim] for tensor, dim in pairs if dim is not None)
            return apply(*(t.expand(size, *t.shape) if dim is None else moved(t, dim) for t, dim in pairs)), 0

        def forward(x, y):
            if x.shape[:-2] != y.shape[:-2]:
                raise ValueError("the same axes in front")
            return x @ y.mT

        return modern(forward, lambda g, x, y: (g @ y, g.mT @ x), vmap=rule)

    assert not alarms("vmap", matmul(lambda tensor, dim: tensor.movedim(dim, 0)), normal(4, 5), normal(2, 5))
    assert alarms("vmap", matmul(lambda tensor, dim: tensor), normal(4, 5), normal(2, 5)) == {"vmap-output"}


def test_a_vmap_rule_that_fits_where_there_are_as_many_samples_as_the_second_input_is_long():
    def rule(apply, dims, x, y):
        x = x if dims[0] is None else x.movedim(dims[0], 0)
        return x @ y, 0  # The second input is not moved.

    target = modern(torch.matmul, lambda g, x, y: (g @ y.mT, x.mT @ g), vmap=rule)
    assert alarms("vmap", target, normal(3, 4), normal(4, 2)) == {"vmap-output"}


def test_a_vmap_rule_that_refuses_what_is_not_mapped():
    def rule(apply, dims, x, y):
        if x.shape != y.shape:
            raise ValueError("of one shape")
        return apply(x, y), 0

    def forward(x, y):
        return x / y

    target = modern(forward, lambda g, x, y: (g / y, -g * x / y**2), vmap=rule)
    (finding,) = findings("vmap", target, normal(4), normal(4, seed=1))
    assert "in_dims=(1, 1)" in finding.where


def test_a_backward_that_mixes_the_samples():
    """Its own rule runs the backward on the whole batch."""

    def backward(grad, x):
        return grad - grad.mean(0) if x.dim() == 2 else grad * x.cos()

    def rule(apply, dims, x):
        return apply(x.movedim(dims[0], 0)), 0

    assert alarms("vmap", modern(torch.sin, backward, vmap=rule), normal(3)) == {"vmap-gradient"}


def test_a_jvp_that_mixes_the_samples():
    """Its jvp calls another Function, whose rule exchanges the samples."""
    copied = modern(torch.clone, lambda g, x: g, vmap=lambda apply, dims, x: (apply(x).flip(dims[0]), dims[0]))
    sine = modern(torch.sin, lambda g, x: g * x.cos(), lambda dx, x: copied(dx) * x.cos())
    assert alarms("vmap", sine, normal(3)) == {"vmap-tangent"}


def test_vmap_that_is_right_or_refused():
    assert findings("vmap", MATMUL, X, normal(4, 2)) == []
    assert findings("vmap", torch.matmul, X, normal(4, 2)) == []
    assert findings("vmap", SIN, X) == []  # is_grads_batched works
    with pytest.raises(Skip, match="random"):
        findings("vmap", lambda x: x * torch.rand_like(x), X)


# -- fake -----------------------------------------------------------------------------------------------------------


def library(kernel, fake):
    """x * 2 by an operator of torch.library with a fake kernel."""
    name = f"test_checks::fake{next(COUNT)}"

    def double(x: Tensor) -> Tensor:
        return kernel(x)

    made = torch.library.custom_op(name, double, mutates_args=())
    made.register_fake(fake)
    made.register_autograd(lambda ctx, g: 2 * g)
    return made


@pytest.mark.parametrize(
    ("fake", "code"),
    [
        (lambda x: x.new_empty(3, 4), "fake-shape"),
        (lambda x: x.new_empty(x.shape[::-1]), "fake-shape"),
        (lambda x: torch.empty(x.shape, device=x.device), "fake-dtype"),
        (lambda x: x.mT.new_empty(x.shape[::-1]).mT, "fake-stride"),
    ],
    ids=["hard-coded", "swapped", "dtype", "stride"],
)
def test_a_wrong_fake_kernel(fake, code):
    assert alarms("fake", library(lambda x: (2 * x).contiguous(), fake), X) == {code}


def test_a_fake_kernel_that_forgets_the_layout():
    """Right for contiguous inputs."""
    assert alarms("fake", library(lambda x: 2 * x, lambda x: x.new_empty(x.shape)), X) == {"fake-stride"}
    assert findings("fake", library(lambda x: 2 * x, torch.empty_like), X) == []


def test_a_fake_kernel_of_one_axis_alone():
    """Right for the axis that is given."""

    def summed(x: Tensor, dim: int) -> Tensor:
        return x.sum(dim)

    made = torch.library.custom_op(f"test_checks::fake{next(COUNT)}", summed, mutates_args=())
    made.register_fake(lambda x, dim: x.new_empty(x.shape[:dim] + x.shape[dim + 1 :]))
    made.register_autograd(
        lambda ctx, g: (g.unsqueeze(ctx.dim).expand(ctx.shape), None),
        setup_context=lambda ctx, inputs, output: vars(ctx).update(shape=inputs[0].shape, dim=inputs[1]),
    )
    (finding,) = findings("fake", made, X, 0)
    assert finding.code == "fake-shape"
    assert "dim=-1" in finding.where


def test_what_has_no_fake():
    with pytest.raises(Skip, match="compilers=True"):
        findings("fake", lambda x: torch.from_numpy(x.detach().numpy()) + x, X)


# -- compilers ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_number_that_was_traced():
    calls = []

    def forward(x):
        calls.append(x)
        return x * 2 if torch.compiler.is_compiling() else x * 3

    target = function(forward, lambda g, x: 2 * g if torch.compiler.is_compiling() else 3 * g)
    assert alarms("compile", target, X) == {"compiled-output", "compiled-gradient"}


def test_a_derivative_below_autograd_is_lost_where_it_is_traced():
    torch.library.define("test_transforms::sine_below", "(Tensor x) -> Tensor")
    torch.library.impl("test_transforms::sine_below", "CPU", SIN)
    torch.library.register_fake("test_transforms::sine_below", torch.empty_like)
    found = findings("trace", torch.ops.test_transforms.sine_below.default, X)
    assert [f.code for f in found] == ["compiled-gradient"]
    assert "not registered" in found[0].cause


def test_a_number_that_a_traced_rule_reads():
    @torch.library.custom_op("test_transforms::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    twice.register_fake(torch.empty_like)
    twice.register_autograd(lambda ctx, grad: grad * (3 if isinstance(grad, FakeTensor) else 2))
    found = findings("trace", torch.ops.test_transforms.twice.default, X)
    assert [f.code for f in found] == ["compiled-gradient"]
    assert findings("trace", scale, X, 2.0) == []


def test_an_exported_number():
    assert alarms("export", lambda x: x * (2 if torch.compiler.is_exporting() else 3), X) == {"exported-output"}


def test_opcheck():
    wrong = library(lambda x: 2 * x, lambda x: x.new_empty(x.shape[0] + 1))
    assert "opcheck-faketensor" in alarms("opcheck", wrong, X)
    assert findings("opcheck", scale, X, 2.0) == []
    with pytest.raises(Skip):
        findings("opcheck", SIN, X)


# -- autocast -------------------------------------------------------------------------------------------------------


def product(backward):
    return function(torch.matmul, backward)


NAIVE = product(lambda g, x, w: (g @ w.mT, x.mT @ g))
WIDENED = product(lambda g, x, w: (g.to(x.dtype) @ w.mT, x.mT @ g.to(x.dtype)))


def test_a_backward_that_meets_two_dtypes():
    single, double = (normal(3, 4, dtype=d) for d in (torch.float32, torch.float64))
    (finding,) = findings("autocast", NAIVE, single, single.mT)
    assert (finding.code, finding.severity) == ("autocast-raises", Verdict.FAIL)
    assert "dtype" in finding.cause
    (notice,) = findings("autocast", NAIVE, double, double.mT)
    assert notice.severity is Verdict.PASS
    assert findings("autocast", WIDENED, single, single.mT) == []


def test_wrong_numbers_under_autocast():
    def forward(x):
        return x.square() / (16 if torch.is_autocast_enabled("cpu") else 1)

    assert alarms("autocast", function(forward, lambda g, x: 2 * g * x), X) == {"autocast-output"}

    def forward_asking(ctx, x):
        ctx.save_for_backward(x)
        ctx.asked = torch.is_autocast_enabled("cpu")
        return x.square()

    target = plain(forward_asking, lambda ctx, g: (1 if ctx.asked else 2) * g * ctx.saved_tensors[0])
    assert alarms("autocast", target, X) == {"autocast-gradient"}


# -- references and claims ------------------------------------------------------------------------------------------


def test_a_reference():
    @tg.op
    def softplus(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x.exp().log1p()

    softplus.partial("x")(lambda x: torch.sigmoid(x))
    with pytest.raises(Skip, match="no reference"):
        findings("reference", softplus, X)
    softplus.reference(lambda x: torch.nn.functional.softplus(x))
    assert findings("reference", softplus, X) == []
    (finding,) = findings("reference", softplus, torch.tensor([800.0], dtype=torch.float64))
    assert finding.code == "wrong-value"
    assert finding.numeric.item() == 800

    @softplus.reference
    def _(x: mpmath.mpf):
        return mpmath.log1p(mpmath.exp(x)) + mpmath.mpf(10) ** -9

    assert alarms("reference", softplus, X) == {"wrong-value"}

    @softplus.reference
    def _(x: mpmath.mpf):
        raise ValueError

    (finding,) = findings("reference", softplus, X)
    assert (finding.code, finding.cause) == ("raises-only-in-reference", "the reference raises ValueError: ")
    with pytest.raises(Inconclusive, match="the reference raises"):  # as Python's functions do where torch gives inf
        findings("reference", softplus, torch.tensor([1e3], dtype=torch.float64))


def test_rules_that_refuse_what_is_derived_from_them():
    """It hangs on what a rule is made of, which nobody knows before it is called: a notice, and no defect."""

    @tg.op
    def sine(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x.sin()

    @sine.vjp("x")
    def _(grad, x):
        return torch.func.vjp(torch.sin, x)[1](grad)[0]

    (finding,) = findings("forward mode", sine, X[0])
    assert (finding.code, finding.severity) == ("false-claim", Verdict.PASS)
    assert "DerivativeError" in finding.cause
    assert "@sine.jvp" in finding.hint


def test_tensors_without_derivative_are_traced_as_well():
    @tg.op
    def picked(x: Float[Tensor, "n"], index: Int64[Tensor, "k"]) -> Float[Tensor, "k"]:
        return x[index]

    @picked.vjp("x")
    def _(grad, x, index):
        return torch.zeros_like(x).index_add(0, index, grad)

    index = torch.tensor([0, 2, 2])
    assert findings("trace", picked, X[0], index) == []  # It raises Skip where the trace is refused.


CLAIMED = ("forward mode", "second order", "vmap", "compile", "export")


@tg.op
def square(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x * x


square.vjp("x")(lambda grad, x: 2 * grad * x)


@pytest.mark.slow
def test_claims_that_are_kept():
    for name in CLAIMED:
        assert findings(name, square, normal(3)) == []


@pytest.mark.parametrize("name", CLAIMED)
def test_claims_that_are_not_kept(name, monkeypatch):
    monkeypatch.setattr(ways, "claimed", lambda case, transform: False)
    (finding,) = findings(name, square, normal(3))
    assert finding.code == "false-claim"
    assert "is refused, and it returns" in finding.title


def test_refusals_of_what_is_claimed(monkeypatch):
    monkeypatch.setattr(ways, "claimed", lambda case, transform: True)
    for name, target in (("forward mode", SIN), ("second order", torch.library.custom_op)):
        if target is SIN:
            (finding,) = findings(name, target, X)
            assert finding.code == "false-claim"
            assert "jvp" in finding.cause


# -- beside a sample of NaN, or of large numbers ----------------------------------------------------------------------
# The zoo has a kernel that reads the next sample.


def rule_that(looks):
    @tg.op
    def doubled(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
        return 2 * x

    @doubled.vjp("x")
    def _(grad, x):
        return looks(grad, x)

    return doubled


def refuses_nan(grad, x):
    if not x.isfinite().all():
        raise ValueError("x must be finite")
    return 2 * grad


def takes_the_next_sample_times_zero(grad, x):
    return 2 * grad + 0 * x.reshape(-1).roll(-1).view(x.shape)


@tg.op
def logsumexp(x: Float[Tensor, "*batch n"], *, largest_of_all: bool) -> Float[Tensor, "*batch"]:
    largest = x.detach().amax() if largest_of_all else x.detach().amax(-1, keepdim=True)
    largest = torch.where(largest.isfinite(), largest, 0)
    return (x - largest).exp().sum(-1).log() + largest.expand_as(x)[..., 0]


@logsumexp.vjp("x")
def _(grad, x):
    return grad[..., None] * x.softmax(-1)


def test_a_large_sample_that_hides_the_others():
    """NaN does not show it: where the maximum is not finite, 0 is in its place."""
    assert not findings("vmap", logsumexp, X, largest_of_all=False)
    (finding,) = findings("vmap", logsumexp, X, largest_of_all=True)
    assert "depends on another sample" in finding.title
    assert "samples beside one of 4096" in finding.where


def test_a_rule_may_refuse_nan():
    assert not findings("vmap", rule_that(refuses_nan), X)


def test_a_rule_that_reads_the_next_sample():
    (finding,) = findings("vmap", rule_that(takes_the_next_sample_times_zero), X)
    assert "depends on another sample" in finding.title
