"""Checks of the backward as a linear map: of each output, for each input, of the right shape and dtype."""

import pytest
import torch
from torch.autograd import Function

from torchgraft._check.finding import Skip, Verdict

from .looking import SIN, alarms, findings, function, normal, plain
from .right import SinAndCos

X = normal(3)


@pytest.mark.parametrize(
    "touch",
    [
        lambda g: g.clamp(-2, 2),
        lambda g: g + 1e-9,
        lambda g: g.abs(),
        lambda g: torch.where(g.abs() < 1e-4, 0, g),
        torch.sin,
    ],
    ids=["clamps", "adds", "loses the sign", "drops the small", "bends"],
)
def test_a_backward_that_is_not_linear(touch):
    assert alarms("linearity", function(torch.sin, lambda g, x: touch(g) * x.cos()), X) == {"nonlinear-backward"}


def test_a_backward_that_is_linear_along_rays_alone():
    def backward(grad, x):
        return grad.sort().values * x.cos()

    assert alarms("linearity", function(torch.sin, backward), normal(6)) == {"nonlinear-backward"}


def test_half_precision_does_not_overflow():
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        assert findings("linearity", SIN, normal(5, dtype=dtype)) == []


def undefined(backward):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        return x.sin(), x.cos()

    return plain(forward, lambda ctx, a, b: backward(a, b, *ctx.saved_tensors))


def test_an_undefined_gradient_that_is_taken_for_a_tensor():
    crash = undefined(lambda a, b, x: a * x.cos() - b * x.sin())
    (first, second) = findings("outputs", crash, X)
    assert first.code == second.code == "undefined-gradient-raises"
    assert "None" in first.cause


def test_an_undefined_gradient_that_drops_the_others():
    drops = undefined(lambda a, b, x: None if a is None else a * x.cos() - (0 if b is None else b) * x.sin())
    (finding,) = findings("outputs", drops, X)
    assert finding.code == "undefined-gradient"
    assert "output 1 alone" in finding.where


def test_an_undefined_gradient_beside_a_buffer():
    """What zeros give in the place of a missing gradient lies in the buffer that the next call overwrites."""
    buffer = torch.zeros_like(X)

    def backward(a, b, x):
        return buffer.copy_(
            (5 if b is None else 1) * (0 if a is None else a) * x.cos() - (0 if b is None else b) * x.sin()
        )

    assert {finding.code for finding in findings("outputs", undefined(backward), X)} == {"undefined-gradient"}


def test_outputs_alone_that_are_right():
    assert findings("outputs", SinAndCos.apply, X) == []
    with pytest.raises(Skip, match="one differentiable output"):
        findings("outputs", SIN, X)


def product(backward):
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    return plain(forward, lambda ctx, g: backward(g, ctx.needs_input_grad, *ctx.saved_tensors))


def test_a_gradient_that_asks_for_the_wrong_input():
    swapped = product(lambda g, needs, x, y: (g * y, g * x if needs[0] else None))
    (finding,) = findings("subsets", swapped, X, normal(3, seed=1))
    assert (finding.code, finding.where[:17]) == ("subset-gradient", "the gradient of y")
    assert "None" in finding.cause


def test_a_backward_that_raises_for_a_subset():
    def backward(g, needs, x, y):
        if not all(needs):
            raise ValueError("both, please")
        return g * y, g * x

    assert alarms("subsets", product(backward), X, normal(3, seed=1)) == {"subset-raises"}


def test_all_subsets_of_three():
    def backward(g, needs, x, y, z):
        zero = 0 if needs == (True, False, True) else 1
        return g * y * z * zero, g * x * z, g * x * y

    def forward(ctx, x, y, z):
        ctx.save_for_backward(x, y, z)
        return x * y * z

    target = plain(forward, lambda ctx, g: backward(g, ctx.needs_input_grad, *ctx.saved_tensors))
    (finding,) = findings("subsets", target, X, X + 1, X + 2)
    assert "only x, z requires grad" in finding.where


def test_a_missing_reduction():
    missing = product(lambda g, needs, x, y: (g * y, g * x))
    found = findings("returned", missing, normal(3, 1), normal(1, 4))
    assert [f.code for f in found] == ["unreduced-gradient"] * 2
    assert "float64[3, 4]" in found[0].title
    assert "float64[3, 1]" in found[0].title
    assert findings("returned", missing, normal(3, 4), normal(3, 4, seed=1)) == []


def test_a_reduction_that_is_missing_inside_of_a_module():
    missing = product(lambda g, needs, x, y: (g * y, g * x))

    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(normal(4))

        def forward(self, x):
            return missing(x, self.weight)

    assert alarms("returned", Scale(), normal(3, 4)) == {"unreduced-gradient"}


def test_the_dtype_of_a_gradient():
    (finding,) = findings("returned", function(torch.sin, lambda g, x: (g * x.cos()).float()), X)
    assert (finding.code, finding.severity) == ("gradient-dtype", Verdict.FAIL)
    assert "float32" in finding.cause
    wider = function(torch.sin, lambda g, x: (g * x.cos()).double())
    (finding,) = findings("returned", wider, normal(3, dtype=torch.float32))
    assert finding.severity is Verdict.PASS


def test_a_backward_is_what_it_was_after_it_was_listened_to():
    owner = SIN.__self__
    before = vars(owner)["backward"]
    assert findings("returned", SIN, X) == []
    assert vars(owner)["backward"] is before
    with pytest.raises(Skip, match=r"no autograd\.Function"):
        findings("returned", torch.sin, X)


# -- a second backward ----------------------------------------------------------------------------------------------


class KeptByHand(Function):
    """Keeps the cosine on ctx; what a backward does with it is a subclass's."""

    @staticmethod
    def forward(ctx, x):
        ctx.kept = [x.cos()]
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.kept[0]


class GivenAway(KeptByHand):
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.kept.pop()


class UsedUp(KeptByHand):
    @staticmethod
    def backward(ctx, grad):
        result = grad * ctx.kept[0]
        ctx.kept[0] = ctx.kept[0] / 2
        return result


class GoesOnOnceFreed(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        try:
            return grad * ctx.saved_tensors[0].cos()
        except RuntimeError:
            return grad


def test_a_backward_that_works_once():
    (finding,) = findings("freed", GivenAway.apply, normal(3))
    assert finding.code == "backward-only-once"
    assert "IndexError: pop from empty list" in finding.cause


def test_a_second_backward_that_gives_another_gradient():
    assert alarms("freed", UsedUp.apply, normal(3)) == {"second-backward"}


def test_a_graph_that_was_freed_gives_no_other_gradient():
    (finding,) = findings("freed", GoesOnOnceFreed.apply, normal(3))
    assert finding.code == "second-backward"
    assert "retain_graph=False" in finding.where


def test_second_backwards_that_are_right():
    assert not alarms("freed", SIN, normal(3))  # it raises once its graph was freed
    assert not alarms("freed", lambda x: 2 * x, normal(3))  # there is nothing to free
    assert not alarms("freed", KeptByHand.apply, normal(3))
