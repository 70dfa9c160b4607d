"""A forward that asks which of its arguments require grad is told, adopted, what the bare Function is told."""

import itertools

import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import torchgraft as tg

from ..default import by_default

X = torch.tensor([1.0, 2.0], dtype=torch.float64)
B = torch.tensor([10.0, 20.0], dtype=torch.float64)
LEARNED = B.clone().requires_grad_()


@pytest.fixture(autouse=True)
def _forget_compiled():
    torch.compiler.reset()


def biased(base, way):
    """A square, and a bias, where somebody learns it; what `way` asks shows in the value, or in the gradient alone."""

    def add(ctx, x, b, asked):
        ctx.asked = asked
        return x * x + b if asked or way == "gradient alone" else x * x * 1

    class Biased(base):
        if way == "setup":

            @staticmethod
            def forward(x, b):
                return x * x + b if b.requires_grad else x * x * 1

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(inputs[0])
                ctx.asked = ctx.needs_input_grad[1]

        else:

            @staticmethod
            def forward(ctx, x, b):
                ctx.save_for_backward(x)
                return add(ctx, x, b, ctx.needs_input_grad[1] if way == "needs_input_grad" else b.requires_grad)

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad, grad if ctx.asked else None

    return Biased


def vector(x: Float[Tensor, "n"], b: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...
def elementwise(x: Float[Tensor, "..."], b: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...


STUBS = {
    "vector": lambda function: tg.adopt(function)(vector),
    "elementwise": lambda function: tg.adopt(function)(elementwise),
    "loop": lambda function: tg.adopt(function, batch="loop")(vector),
}


def gradients(f, x, b, *, create_graph=False):
    learned = [tensor for tensor in (x, b) if tensor.requires_grad]
    options = {"allow_unused": True, "materialize_grads": True}
    if not learned:
        return ()
    made = torch.autograd.grad(f(x, b).sum(), learned, create_graph=create_graph, **options)
    if not create_graph or not x.requires_grad:
        return made
    return torch.autograd.grad(made[0].sum() + 0 * x.sum(), learned, **options)


def profiled(f, x, b):
    with torch.profiler.profile():
        return f(x, b)


def batched(f, x, b):
    return f(torch.stack([x, 2 * x]), torch.stack([b, b]))


EAGER = {
    "call": lambda f, x, b: f(x, b),
    "no_grad": torch.no_grad()(lambda f, x, b: f(x, b)),
    "inference": torch.inference_mode()(lambda f, x, b: f(x, b).clone()),
    "autocast": torch.autocast("cpu", torch.bfloat16)(lambda f, x, b: f(x, b)),
    "profiler": profiled,
    "gradient": gradients,
    "gradient, autocast": torch.autocast("cpu", torch.bfloat16)(gradients),
    "second": lambda f, x, b: gradients(f, x, b, create_graph=True),
    "checkpoint": lambda f, x, b: gradients(lambda x, b: checkpoint(f, x, b, use_reentrant=False), x, b),
    "no leaf": lambda f, x, b: gradients(lambda x, b: f(x * 1, b * 1), x, b),
    "batch": batched,
    "gradient of a batch": lambda f, x, b: gradients(lambda x, b: batched(f, x, b), x, b),
    "compiled": lambda f, x, b: torch.compile(f, backend="aot_eager")(x, b),
    "gradient, compiled": lambda f, x, b: gradients(torch.compile(f, backend="aot_eager"), x, b),
}
each_way = pytest.mark.parametrize("way", ["value", "needs_input_grad", "gradient alone", "setup"])


def is_quick(stub, how):
    return "compiled" not in how or stub == "elementwise"


def product(hows):
    """Each way with each stub; what is compiled for one stub by default."""
    return pytest.mark.parametrize(("stub", "how"), by_default(itertools.product(STUBS, hows), is_quick))


@product(EAGER)
@each_way
def test_in_eager_code(how, way, stub):
    if stub == "vector" and "batch" in how:
        pytest.skip("its annotation has no batch")
    f, bare = STUBS[stub](biased(torch.autograd.Function, way)), biased(torch.autograd.Function, way).apply
    for _, of_x, of_b in itertools.product(range(2), (False, True), (False, True)):
        x, b = (X.clone().requires_grad_(of_x), B.clone().requires_grad_(of_b))
        torch.testing.assert_close(EAGER[how](f, x, b), EAGER[how](bare, x, b), rtol=0, atol=0)


def of(*learned):
    """The gradient with respect to some of the arguments, and the value."""
    return lambda f: torch.func.grad_and_value(lambda x, b: f(x, b).sum(), learned)(X, B)


UNDER_FUNC = {
    "x": of(0),
    "b": of(1),
    "both": of(0, 1),
    "b outside of x": lambda f: torch.func.grad_and_value(
        lambda b: torch.func.grad_and_value(lambda x: f(x, b).sum())(X)[1]
    )(B),
    "x outside of b": lambda f: torch.func.grad_and_value(
        lambda x: torch.func.grad_and_value(lambda b: f(x, b).sum())(B)[1]
    )(X),
    "b in autograd": lambda f: torch.func.grad_and_value(lambda x: f(x, LEARNED).sum())(X),
    "samples of x": lambda f: torch.vmap(lambda x: of(0)(lambda _, b: f(x, b)))(torch.stack([X, X])),
    "samples of b": lambda f: torch.vmap(torch.func.grad_and_value(lambda b: f(X, b).sum()))(torch.stack([B, B])),
    "b compiled": lambda f: torch.compile(torch.func.grad(lambda b: f(X, b).sum()), backend="aot_eager")(B),
}


@product(UNDER_FUNC)
@each_way
def test_under_transforms(how, way, stub):
    """There a bare Function is told that nothing requires grad, or goes nowhere; here it is told as in eager code."""
    f, function = STUBS[stub](biased(torch.autograd.Function, way)), biased(tg.Function, way).apply
    for _ in range(2):
        torch.testing.assert_close(UNDER_FUNC[how](f), UNDER_FUNC[how](function), rtol=0, atol=0)


def test_forward_mode_and_what_is_above_it():
    f = STUBS["vector"](biased(torch.autograd.Function, "value"))
    value, tangent = torch.func.jvp(f, (X, B), (X, B))
    torch.testing.assert_close((value, tangent), (X * X + B, 2 * X * X + B))
    torch.testing.assert_close(torch.func.hessian(lambda x: f(x, B).sum())(X), 2 * torch.eye(2, dtype=X.dtype))


def test_forward_that_calls_its_own_operator():
    class Halving(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.asked = x.requires_grad
            return (x if depth == 0 else halving(x.detach() / 2, depth - 1)) * (2.0 if x.requires_grad else 1.0)

        @staticmethod
        def backward(ctx, grad):
            return grad * (2.0 if ctx.asked else 1.0), None

    @tg.adopt(Halving)
    def halving(x: Float[Tensor, "n"], depth: int) -> Float[Tensor, "n"]: ...

    x = X.clone().requires_grad_()
    for call in (lambda: halving(x, 2), lambda: torch.func.grad_and_value(lambda x: halving(x, 2).sum())(X)[1]):
        torch.testing.assert_close(call().sum(), X.sum() / 2)  # the outer one alone is differentiated


def test_an_operator_in_a_graph_that_asks():
    f = STUBS["vector"](biased(torch.autograd.Function, "value"))
    b = B.clone().requires_grad_()
    torch.testing.assert_close(f.torch_op(X, b), X * X + B)  # autograd itself tells
    with torch.no_grad(), pytest.raises(tg.UnsupportedError, match="asks whether 'b' requires grad") as caught:
        f.torch_op(X, b)
    assert caught.value.operator == "Biased"


def test_a_captured_tensor():
    weight = torch.ones(2, dtype=torch.float64, requires_grad=True)

    class Captures(torch.autograd.Function):
        forward = staticmethod(lambda ctx, x: x * weight)
        backward = staticmethod(lambda ctx, grad: grad)

    @tg.adopt(Captures)
    def captures(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    with pytest.raises(tg.KernelError, match="is not one of its arguments"):
        captures(X)
