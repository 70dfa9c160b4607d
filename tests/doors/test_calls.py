"""Calls of a Function: their arguments, and what surrounds them."""

import gc
import pickle
import weakref

import pytest
import torch

import torchgraft as tg
from tests.function.table import CASES, Legacy

pytestmark = pytest.mark.filterwarnings("ignore::torchgraft.TorchgraftWarning")


def x_and_copy():
    x = torch.tensor([1.5, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    return x, x.detach().clone().requires_grad_()


# -- arguments --------------------------------------------------------------------------------------------------------


class Weighted(tg.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None, *, scale=1.0):
        ctx.save_for_backward(x, weight)
        ctx.scale, ctx.biased = scale, bias is not None
        return (x * weight + (0 if bias is None else bias)) * scale

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad = grad * ctx.scale
        return grad * weight, grad * x, grad if ctx.biased else None


def test_tensors_by_keyword_have_gradients():
    x, w = x_and_copy()
    b = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    out = Weighted.apply(x, bias=b, weight=w, scale=2.0)
    for gradient, expected in zip(
        torch.autograd.grad(out.sum(), [x, w, b]), [2 * w, 2 * x, 2 * torch.ones(3)], strict=True
    ):
        torch.testing.assert_close(gradient, expected.double())
    torch.testing.assert_close(torch.autograd.grad(Weighted.apply(x, w).sum(), x)[0], w)
    torch.testing.assert_close(
        torch.func.grad(lambda x: Weighted.apply(x, weight=w.detach(), scale=3.0).sum())(x.detach()), 3 * w
    )


def test_a_tensor_by_keyword_alone_is_refused():
    class Only(tg.Function):
        @staticmethod
        def forward(ctx, x, *, weight):
            return x * weight

        @staticmethod
        def backward(ctx, grad):
            return grad

    x, w = x_and_copy()
    with pytest.raises(tg.ArgumentError, match="by keyword alone would get no gradient") as caught:
        Only.apply(x, weight=w)
    assert (caught.value.operator, caught.value.argument) == ("Only", "weight")


@pytest.mark.parametrize(
    "call", [lambda x: Weighted.apply(x=x), lambda x: Weighted.apply(x, x, wait=x)], ids=["missing", "unknown"]
)
def test_other_arguments_are_refused(call):
    with pytest.raises(tg.ArgumentError, match="other arguments than its forward takes"):
        call(torch.ones(3))


def test_integers_have_no_gradient():
    x, index = torch.ones(3, requires_grad=True), torch.tensor([2, 0])

    class Take(tg.Function):
        @staticmethod
        def forward(ctx, x, index):
            ctx.save_for_backward(index)
            ctx.shape = x.shape
            return x[index]

        @staticmethod
        def backward(ctx, grad):
            (index,) = ctx.saved_tensors
            return grad.new_zeros(ctx.shape).index_add(0, index, grad), None

    assert torch.autograd.grad(Take.apply(x, index).sum(), x)[0].tolist() == [1, 0, 1]
    assert not Take.apply(torch.arange(3), index).requires_grad


def test_lists_pass_untouched():
    items = [torch.ones(2), {"a": 1}]

    class Keep(tg.Function):
        @staticmethod
        def forward(ctx, x, things, f):
            assert things is items
            return x * f(things[0].sum().item())

        @staticmethod
        def backward(ctx, grad):
            return grad * 4, None, None

    x = torch.ones(3, requires_grad=True)
    assert torch.autograd.grad(Keep.apply(x, items, lambda v: 2 * v).sum(), x)[0].tolist() == [4, 4, 4]


# -- PyTorch around it ------------------------------------------------------------------------------------------------


def test_names():
    x, _ = x_and_copy()
    f = CASES["saves_its_output"].make(tg.Function)
    assert f(x).grad_fn.name() == "ExpBackward"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        f(x).sum().backward()
    assert {"ExpBackward", "Exp"} <= {event.name for event in profile.events()}


@pytest.mark.slow
def test_nothing_lives_longer_than_the_graph():
    gc.collect()
    gc.disable()
    try:
        for call in (CASES["saves_its_output"].make(tg.Function), Legacy(2.0)):
            x = torch.ones(3, requires_grad=True)
            out = call(x)
            seen = weakref.ref(out), weakref.ref(x)
            out.sum().backward()
            del out, x
            assert [reference() for reference in seen] == [None, None]
    finally:
        gc.enable()


def test_errors_are_pickled():
    with pytest.raises(tg.ArgumentError) as caught:
        Weighted.apply(torch.ones(2))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.operator, str(again)) == ("Weighted", str(caught.value))


def test_what_is_found_on_the_base_class():
    """The Dice loss of many a U-Net calls forward of an instance; roma says of a Function that it has no jvp."""

    class Dice(tg.Function):
        def forward(self, x, target):
            self.save_for_backward(x, target)
            return torch.dot(x, target)

    x = torch.ones(3, requires_grad=True)
    Dice().forward(x, torch.full((3,), 2.0)).backward()
    assert x.grad.tolist() == [2, 2, 2]

    class NoForwardMode(tg.Function):
        jvp = tg.Function.jvp

        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    assert torch.func.grad(lambda x: NoForwardMode.apply(x).sum())(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(tg.DerivativeError, match="has no jvp"):
        torch.func.jvp(NoForwardMode.apply, (torch.ones(2),), (torch.ones(2),))


def test_tensors_saved_for_forward_have_a_name_of_their_own():
    class Square(tg.Function):
        @staticmethod
        def forward(x):
            return x**2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            raise NotImplementedError

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_for_forward
            return 2 * x * tangent

    assert torch.func.jvp(Square.apply, (torch.tensor(3.0),), (torch.tensor(1.0),))[1].item() == 6
