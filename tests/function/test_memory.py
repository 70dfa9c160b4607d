"""What a context keeps alive, what it lets go, and what it notices when memory that it kept is written to."""

import weakref

import numpy as np
import pytest
import torch

import torchgraft as tg

from .table import X
from .test_context import BASES, define, leaf

pytestmark = pytest.mark.filterwarnings("ignore::torchgraft.TorchgraftWarning")


@BASES
def test_backward_frees_an_attribute(base):
    """As checkpointing does, which lowers its peak so."""
    freed = []

    def forward(ctx, x):
        ctx.buffer = x * 2
        ctx.watched = weakref.ref(ctx.buffer)
        return x * 2

    def backward(ctx, grad):
        ctx.buffer = None
        freed.append(ctx.watched() is None)
        return grad * 2

    define(base, forward=forward, backward=backward).apply(leaf()).sum().backward()
    assert freed == [True]


CLOTHES = {
    "array": (lambda ctx, x: vars(ctx).update(a=x.detach().numpy()), lambda ctx: torch.from_numpy(ctx.a)),
    "a part of it": (lambda ctx, x: vars(ctx).update(a=x.detach().numpy()[1:]), lambda ctx: torch.tensor([*ctx.a, 0])),
    "data": (lambda ctx, x: ctx.save_for_backward(x.data), lambda ctx: ctx.saved_tensors[0]),
    "data as an attribute": (lambda ctx, x: vars(ctx).update(a=x.data), lambda ctx: ctx.a),
}


@pytest.mark.parametrize("name", CLOTHES)
def test_memory_of_an_argument_that_changes(name):
    """It is the argument's version that counts the change: that of what was kept stays as it was."""
    put, get = CLOTHES[name]

    def forward(ctx, x):
        put(ctx, x)
        return x**2

    f = define(tg.Function, forward=forward, backward=lambda ctx, grad: 2 * grad * get(ctx)).apply
    x = leaf() * 1
    out = f(x)
    torch.autograd.grad(out.sum(), x, retain_graph=True)
    x.mul_(10)
    with pytest.raises(tg.DerivativeError, match="x has been changed in place since forward") as caught:
        out.sum().backward()
    assert (caught.value.operator, caught.value.argument) == ("Defined", "x")


@pytest.mark.parametrize("name", CLOTHES)
def test_memory_of_an_argument_that_stays(name):
    put, _ = CLOTHES[name]

    def forward(ctx, x):
        put(ctx, x)
        return x * 2

    x = leaf()
    out = define(tg.Function, forward=forward, backward=lambda ctx, grad: 2 * grad).apply(x)
    assert torch.autograd.grad(out.sum(), x)[0].tolist() == [2, 2, 2]


def test_what_was_there_before_forward_is_no_intermediate_result():
    """Attributes of an instance, arguments (in lists too) and what is marked can be differentiated twice."""

    class Scaled(tg.Function):
        def __init__(self, scale):
            self.scale = scale

        def forward(self, x, tables):
            self.save_for_backward(x)
            self.tables, self.mark = tables, torch.ones(3, dtype=torch.float64)
            self.mark_constant(self.mark)
            return x**3 * self.scale

        def backward(self, grad):
            (x,) = self.saved_tensors
            return 3 * grad * x**2 * self.scale * self.tables[0] * self.mark, None

    x = leaf()
    out = Scaled(2 * torch.ones(3, dtype=torch.float64))(x, [torch.ones(3, dtype=torch.float64)])
    (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], 12 * X)


@pytest.mark.parametrize(
    ("gradient", "hint"),
    [
        (2, "full_like(x, number)"),
        (np.ones(3), "torch.from_numpy(array)"),
        ("one", "return a tensor, or None"),
    ],
)
def test_what_is_no_gradient_gets_a_hint_of_its_kind(gradient, hint):
    f = define(tg.Function, forward=lambda ctx, x: x * 2, backward=lambda ctx, grad: gradient).apply
    with pytest.raises(tg.RuleError, match="backward returned something that is no gradient") as caught:
        f(leaf()).sum().backward()
    assert hint in caught.value.hint
