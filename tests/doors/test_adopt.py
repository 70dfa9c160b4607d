"""Functions that others wrote, adopted: operators like any other, and what cannot be one is refused."""

import contextlib
import random
from typing import NamedTuple

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

import torchgraft as tg

from ..functions import linear_function


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        square = x * x
        ctx.save_for_backward(square)
        ctx.factor = factor
        return square * x * factor

    @staticmethod
    def backward(ctx, grad):
        (square,) = ctx.saved_tensors
        return 3 * grad * square * ctx.factor, None


@tg.adopt(Cube)
def cube(x: Float[Tensor, "..."], factor: float = 1.0) -> Float[Tensor, "..."]:
    """x^3 factor."""


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


@tg.adopt(Exp)
def exp(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]: ...


class Scale(tg.Function):
    """As before PyTorch 0.2."""

    def __init__(self, factor=2.0):
        self.factor = factor

    def forward(self, x):
        assert "seen" not in vars(self), "a call sees what another one has kept"
        self.seen = True
        self.save_for_backward(x)
        return x * x * self.factor

    def backward(self, grad):
        (x,) = self.saved_variables
        assert self.needs_input_grad == (True,)
        return 2 * x * grad * self.factor


@tg.adopt(Scale)
def doubled_square(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...


@tg.adopt(linear_function(tg.Function))
def linear(
    input: Float[Tensor, "b n"], weight: Float[Tensor, "m n"], bias: Float[Tensor, "m"] | None = None
) -> Float[Tensor, "b m"]: ...


class Top(NamedTuple):
    value: Float[Tensor, "b"]
    index: Int[Tensor, "b"]


class Max(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        value, index = x.max(1)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        ctx.shape = x.shape
        return value, index

    @staticmethod
    def backward(ctx, grad, _):
        (index,) = ctx.saved_tensors
        return torch.zeros(ctx.shape, dtype=grad.dtype).scatter(1, index[:, None], grad[:, None])


@tg.adopt(Max)
def maximum(x: Float[Tensor, "b n"]) -> Top: ...


class NumpyProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.from_numpy(x.detach().numpy() * w.detach().numpy())

    @staticmethod
    def backward(ctx, grad):
        x, w = (t.detach().numpy() for t in ctx.saved_tensors)
        return torch.from_numpy(grad.numpy() * w), torch.from_numpy(grad.numpy() * x)


@tg.adopt(NumpyProduct)
def numpy_product(x: Float[Tensor, "n"], w: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...


@pytest.fixture(autouse=True)
def _forget_compiled():
    torch.compiler.reset()


X = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
CASES = {
    "cube": (lambda x: cube(x, 2.0), lambda x: 2 * x**3),
    "exp": (exp, torch.exp),
    "instance": (doubled_square, lambda x: 2 * x**2),
    "linear": (
        lambda x: linear(x[None], torch.stack([x, 2 * x]), x[:2]),
        lambda x: torch.nn.functional.linear(x[None], torch.stack([x, 2 * x]), x[:2]),
    ),
    "max": (lambda x: maximum(torch.stack([x, -x])).value ** 2, lambda x: torch.stack([x, -x]).max(1).values ** 2),
}
TRANSFORMS = {
    "call": lambda f, x: f(x),
    "grad": lambda f, x: torch.func.grad(lambda x: f(x).sum())(x),
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
    "hessian": lambda f, x: torch.func.hessian(f)(x),
    "jacfwd of jacfwd": lambda f, x: torch.func.jacfwd(torch.func.jacfwd(f))(x),
    "jacrev of jacfwd": lambda f, x: torch.func.jacrev(torch.func.jacfwd(f))(x),
    "third": lambda f, x: torch.func.jacrev(torch.func.hessian(f))(x),
    "vmap": lambda f, x: torch.vmap(f)(torch.stack([x, 3 * x])),
    "vmap of grad": lambda f, x: torch.vmap(torch.func.grad(lambda x: f(x).sum()))(torch.stack([x, 3 * x])),
    "compiled": lambda f, x: torch.compile(f, fullgraph=True, backend="aot_eager")(x),
    "compiled grad": lambda f, x: torch.compile(
        torch.func.grad(lambda x: f(x).sum()), fullgraph=True, backend="aot_eager"
    )(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize(("f", "plain"), CASES.values(), ids=CASES)
def test_a_full_citizen(f, plain, transform):
    torch.testing.assert_close(transform(f, X), transform(plain, X))


@pytest.mark.parametrize(("f", "plain"), CASES.values(), ids=CASES)
def test_eager_derivatives(f, plain):
    for _ in range(2):  # the second call takes the fast path
        x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
        made, expected = f(x), plain(y)
        for _order in range(3):
            torch.testing.assert_close(made, expected)
            (made,) = torch.autograd.grad(made.sum(), x, create_graph=True, materialize_grads=True)
            (expected,) = torch.autograd.grad(expected.sum(), y, create_graph=True, materialize_grads=True)
            made, expected = made + 0 * x, expected + 0 * y
    assert torch.autograd.gradcheck(f, x)
    assert torch.autograd.gradgradcheck(f, x)


def test_bare_its_second_derivative_is_wrong():
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(Cube.apply(x, 1.0).sum(), x, create_graph=True)
    assert not gradient.requires_grad  # and a term that is added to it hides that
    (second,) = torch.autograd.grad((gradient + 0 * x).sum(), x)
    assert second.tolist() == [0, 0, 0]


def test_the_context_is_made_once():
    calls = []

    class Counting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            calls.append(ctx.needs_input_grad)
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            assert ctx.needs_input_grad == (False, True)
            return grad * w, grad * x

    @tg.adopt(Counting)
    def product(x: Float[Tensor, "n"], w: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    w = X.clone().requires_grad_()
    for _ in range(3):
        torch.testing.assert_close(torch.autograd.grad(product(X, w).sum(), w)[0], X)
    assert calls == [(False, True)] * 3


def test_optional_inputs_and_defaults():
    x, w = torch.randn(2, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    for gradient, expected in zip(torch.autograd.grad(linear(x, w).sum(), [x, w]), [w.sum(0), x.sum(0)], strict=True):
        torch.testing.assert_close(gradient, expected.expand_as(gradient))
    assert cube(torch.tensor(2.0)).item() == 8


def test_broadcasting_and_batches():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return grad * b, grad * a

    @tg.adopt(Product)
    def product(a: Float[Tensor, "..."], b: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    a, b = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    made = torch.autograd.grad(product(a, b).sum(), [a, b])  # summed back, as the annotation says
    torch.testing.assert_close(made, torch.autograd.grad((a * b).sum(), [a, b]))
    assert exp(torch.zeros(2, 5, 3)).shape == (2, 5, 3)


def test_registration_and_export():
    torch.library.opcheck(cube.torch_op, (X.clone().requires_grad_(), 2.0))

    class Module(torch.nn.Module):
        def forward(self, x):
            return cube(x, 2.0) + 1

    exported = torch.export.export(Module(), (X,))
    torch.testing.assert_close(exported.module()(X), 2 * X**3 + 1)


def test_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = torch.ones(3, requires_grad=True)
        out = cube(x)
    assert out.dtype == torch.float32
    out.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_what_it_can_do():
    text = str(cube)
    assert "cube.vjp[x]" in text
    assert cube.__doc__ == "x^3 factor."
    for f in (cube, numpy_product):  # nobody has read their methods: of the second one all of this raises
        answers = {name: capability.answer for name, capability in f.capabilities().items()}
        unknown = {name for name, answer in answers.items() if answer == "unknown"}
        assert unknown == {"forward", "second order", "vmap", "compile", "export"}
        assert not f.capabilities()["forward"]
        assert answers["reverse"] == "yes"


def test_a_check_takes_no_refusal_of_an_adopted_function_for_a_false_claim():
    report = tg.check(numpy_product, X, X + 1)
    assert not [finding for finding in report.findings if finding.code == "false-claim"]


# -- refused ----------------------------------------------------------------------------------------------------------


def test_numpy_has_no_second_derivative():
    x, w = X.clone().requires_grad_(), (X + 1).requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(numpy_product(x, w).sum(), x)[0], w)
    (gradient,) = torch.autograd.grad(numpy_product(x, w).sum(), x, create_graph=True)
    with pytest.raises(tg.DerivativeError, match=r"numpy_product.vjp\[x,w\]': cannot be differentiated again"):
        torch.autograd.grad(gradient.sum(), w, allow_unused=True)
    torch.testing.assert_close(
        torch.vmap(numpy_product)(torch.stack([x, x]).detach(), torch.stack([w, w]).detach())[1], (x * w).detach()
    )


@pytest.mark.parametrize(
    "thing",
    [torch.nn.Linear, torch.exp, Cube.apply, tg.Function(), 3],
    ids=["module", "function", "apply", "instance", "number"],
)
def test_not_a_function(thing):
    with pytest.raises(tg.DeclarationError, match="only a Function can be adopted"):
        tg.adopt(thing)


def test_no_backward():
    with pytest.raises(tg.DeclarationError, match="has no backward"):
        tg.adopt(type("Forward", (torch.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x * 2)}))


def stubs():
    def name(y: Float[Tensor, "..."], factor: float = 1.0) -> Float[Tensor, "..."]: ...
    def order(factor: float, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...
    def number(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    return name, order, number


@pytest.mark.parametrize("stub", stubs(), ids=lambda stub: stub.__name__)
def test_a_stub_with_other_parameters(stub):
    with pytest.raises(tg.DeclarationError, match=r"other parameters than Cube\.forward") as caught:
        tg.adopt(Cube)(stub)
    assert caught.value.expected == "x, factor"


DRAWS = {
    "torch": lambda x: torch.rand_like(x),
    "explicit": lambda x: torch.rand(x.shape, generator=GENERATOR, dtype=x.dtype),
    "numpy": lambda x: torch.from_numpy(np.random.rand(*x.shape)),
    "python": lambda x: torch.tensor([random.random() for _ in range(x.numel())], dtype=x.dtype).reshape(x.shape),
}
GENERATOR = torch.Generator()
draws = pytest.mark.parametrize("draw", DRAWS)


def noisy(base, draw, outputs=1):
    class Noisy(base):
        @staticmethod
        def forward(ctx, x):
            mask = DRAWS[draw](x)
            ctx.save_for_backward(mask)
            return x * mask if outputs == 1 else (x * mask, 2 * x * mask)

        @staticmethod
        def backward(ctx, *grads):
            return sum(grad * (i + 1) for i, grad in enumerate(grads)) * ctx.saved_tensors[0]

    return Noisy


def adopted_noise(draw, outputs=1):
    def one(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...
    def two(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]: ...

    return tg.adopt(noisy(torch.autograd.Function, draw, outputs))(one if outputs == 1 else two)


def seeded(call):
    torch.manual_seed(3)
    GENERATOR.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    return call()


def noise_and_gradient(f, x):
    x = x.clone().requires_grad_()
    made = f(x)
    made = made if isinstance(made, tuple) else (made,)
    (gradient,) = torch.autograd.grad([m.sum() for m in made], x)
    return *(m.detach() for m in made), gradient


@draws
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("surrounding", ["nothing", "autocast", "profiler", "checkpoint", "hooks"])
@pytest.mark.filterwarnings("ignore::torchgraft.TorchgraftWarning")
def test_random_numbers_are_drawn_once_in_eager_code(draw, outputs, surrounding):
    if surrounding == "checkpoint" and draw != "torch":
        pytest.skip("checkpointing keeps the state of torch's generators alone")
    around = {
        "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
        "profiler": torch.profiler.profile,
        "hooks": torch.autograd.graph.save_on_cpu,
    }.get(surrounding, contextlib.nullcontext)

    def call(f):
        def inside(x):
            return checkpoint(f, x, use_reentrant=False) if surrounding == "checkpoint" else f(x)

        with around():
            return [noise_and_gradient(inside, X) for _ in range(3)]

    bare = seeded(lambda: call(noisy(torch.autograd.Function, draw, outputs).apply))
    assert (bare[0][0] != bare[1][0]).any()
    for f in (adopted_noise(draw, outputs), noisy(tg.Function, draw, outputs).apply):
        torch.testing.assert_close(seeded(lambda f=f: call(f)), bare, rtol=0, atol=0)


@draws
@pytest.mark.filterwarnings("ignore::torchgraft.TorchgraftWarning")
def test_random_numbers_without_a_gradient(draw):
    bare = seeded(lambda: [noisy(torch.autograd.Function, draw).apply(X) for _ in range(3)])
    for f in (adopted_noise(draw), noisy(tg.Function, draw).apply):
        torch.testing.assert_close(seeded(lambda f=f: [f(X) for _ in range(3)]), bare, rtol=0, atol=0)


@draws
def test_random_numbers_have_no_second_derivative(draw):
    f, x = adopted_noise(draw), X.clone().requires_grad_()
    out = f(x)
    (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    torch.testing.assert_close(gradient * x, out)  # with the mask of the first forward
    with pytest.raises(tg.DerivativeError, match="cannot be differentiated again"):
        torch.autograd.grad((gradient + 0 * x).sum(), x)


AGAIN = {
    "grad": TRANSFORMS["compiled grad"],
    "func.grad": lambda f, x: torch.func.grad(lambda x: f(x).sum())(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)),
    "vmap": lambda f, x: torch.vmap(f)(torch.stack([x, x])),
    "vmap, different": lambda f, x: torch.vmap(f, randomness="different")(torch.stack([x, x])),
    "vmap, same": lambda f, x: torch.vmap(f, randomness="same")(torch.stack([x, x])),
    "compiled": TRANSFORMS["compiled"],
    "compiled, to be differentiated": lambda f, x: TRANSFORMS["compiled"](f, x.clone().requires_grad_()),
    "exported": lambda f, x: torch.export.export(Calls(f), (x,)).module()(x),
}


class Calls(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


@draws
@pytest.mark.parametrize("again", AGAIN)
def test_random_numbers_that_would_be_drawn_again(draw, again):
    f = adopted_noise(draw)
    for _ in range(2):
        with pytest.raises(Exception, match=r"draws random numbers|type: <class 'torch._C.Generator'>"):  # torch 2.11
            AGAIN[again](f, X)
        f(X)  # and in eager code it still works


def test_hidden_state():
    class Counting(torch.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            Counting.calls += 1
            ctx.save_for_backward(x * Counting.calls)
            return x * Counting.calls

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    @tg.adopt(Counting)
    def counting(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    x = X.clone().requires_grad_()
    out = counting(x)
    with pytest.raises(tg.KernelError, match="gave another result the second time"):
        torch.autograd.grad(out.sum(), x, create_graph=True)


def test_lists_of_tensors():
    def total(xs: list[Float[Tensor, "n"]]) -> Float[Tensor, "n"]: ...

    class Sum(torch.autograd.Function):
        forward = staticmethod(lambda ctx, xs: sum(xs))
        backward = staticmethod(lambda ctx, grad: grad)

    with pytest.raises(tg.DeclarationError, match="no gradients to the tensors of a list"):
        tg.adopt(Sum)(total)


def adopt(forward, backward):
    function = type(
        "Odd", (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    )

    @tg.adopt(function)
    def odd(x: Float[Tensor, "n"], w: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    return odd


def dirty(ctx, x, w):
    ctx.mark_dirty(x)
    return x.mul_(w)


def inert(ctx, x, w):
    out = x * w
    ctx.mark_non_differentiable(out)
    return out


@pytest.mark.parametrize(("forward", "match"), [(dirty, "changes its inputs in place"), (inert, "marked as non-diff")])
def test_what_an_operator_does_not_do(forward, match):
    with pytest.raises(tg.KernelError, match=match):
        adopt(forward, lambda ctx, grad: (grad, grad))(X.clone(), X)


def product(ctx, x, w):
    ctx.save_for_backward(x, w)
    return x * w


@pytest.mark.parametrize(
    ("backward", "match", "named"),
    [
        (lambda ctx, g: (g.sum(), g), "another shape", "odd.vjp[x,w]"),
        (lambda ctx, g: (g.float(), g), "another dtype", "odd.vjp[x,w]"),
        (lambda ctx, g: (None, g), "returned", "odd.vjp[x,w]"),
        (lambda ctx, g: g, "the wrong number of gradients", "Odd.backward"),
        (lambda ctx, g: (g, g, g), "the wrong number of gradients", "Odd.backward"),
        (lambda ctx, g: (g.mul_(2), g), "changed the gradient that it was given in place", "odd.vjp[x,w]"),
    ],
    ids=["shape", "dtype", "none", "too few", "too many", "in place"],
)
@pytest.mark.parametrize("calls", [1, 2])
def test_wrong_gradients(backward, match, named, calls):
    x, w = X.clone().requires_grad_(), X.clone().requires_grad_()
    f = adopt(product, backward)
    for _ in range(calls):  # the second one takes the fast path
        out = (1 * f(x, w)).sum()
    with pytest.raises(tg.RuleError, match=match) as caught:
        torch.autograd.grad(out, [x, w])
    assert caught.value.operator == named


def test_inputs_without_a_gradient_are_named():
    class Masked(torch.autograd.Function):
        forward = staticmethod(product)
        backward = staticmethod(lambda ctx, grad: (grad * ctx.saved_tensors[1], None))

    @tg.adopt(Masked, nondifferentiable=("w",))
    def masked(x: Float[Tensor, "n"], w: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    x, w = X.clone().requires_grad_(), X.clone().requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(masked(x, X).sum(), x)[0], X)
    with pytest.raises(tg.DerivativeError, match="input 'w' is declared nondifferentiable"):
        torch.autograd.grad(masked(x, w).sum(), w)


def test_an_array_in_the_context():
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.slope = 3 * x.detach().numpy() ** 2
            return x**3 + 0 * w

        @staticmethod
        def backward(ctx, grad):
            return grad * torch.from_numpy(np.array(ctx.slope)), 0 * grad

    @tg.adopt(Keeps)
    def keeps(x: Float[Tensor, "n"], w: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(keeps(x, X).sum(), x, create_graph=True)
    torch.testing.assert_close(gradient, 3 * x**2)
    with pytest.raises(tg.DerivativeError, match="cannot be differentiated again"):
        (gradient + 0 * x).sum().backward()


def test_an_attribute_that_changes():
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x**2

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.x

    @tg.adopt(Keeps)
    def square(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    for _ in range(2):
        x = X.clone().requires_grad_() * 1
        out = square(x)
        x.mul_(10)
        with pytest.raises(tg.DerivativeError, match=r"ctx\.x has been changed in place"):
            out.sum().backward()


def test_what_is_saved_by_need():
    class ByNeed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, w if ctx.needs_input_grad[0] else None)
            return x * w

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return None if w is None else grad * w, None if x is None else grad * x

    @tg.adopt(ByNeed)
    def times(x: Float[Tensor, "n"], w: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    torch.testing.assert_close(times(X, X), X * X)
    torch.testing.assert_close(torch.func.grad(lambda x: times(x, X).sum())(X), X)
    w = X.clone().requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(times(X, w).sum(), w)[0], X)


@pytest.mark.parametrize("kind", ["state", "numpy"])
def test_hidden_state_in_the_first_call_under_a_transform(kind):
    class Hidden(torch.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            Hidden.calls += 1
            factor = Hidden.calls if kind == "state" else np.random.rand()
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor

    @tg.adopt(Hidden)
    def hidden(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    match = "gave another result the second time" if kind == "state" else "draws random numbers"
    with pytest.raises(tg.KernelError, match=match):
        torch.func.grad(lambda x: hidden(x).sum())(X)


def test_numpy_under_a_transform_is_refused_with_a_way_on():
    w = torch.ones(3)
    with pytest.raises(tg.UnsupportedError, match="leaves torch under a transform") as caught:
        torch.func.grad(lambda x: numpy_product(x, w).sum())(torch.ones(3))
    assert "@tg.op on np.ndarray" in caught.value.hint


# -- what forward keeps and calls -------------------------------------------------------------------------------------


def cubed(forward, backward=None):
    """x^3, adopted."""

    def keep(ctx, x):
        ctx.save_for_backward(x)
        return forward(ctx, x)

    def pull(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad if backward is None else backward(ctx, x, grad)

    body = {"forward": staticmethod(keep), "backward": staticmethod(pull)}

    @tg.adopt(type("Cubed", (torch.autograd.Function,), body))
    def cubed(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    return cubed


CONSTANTS = {
    "tensor": lambda x: torch.tensor(3.0, dtype=x.dtype),
    "full_like": lambda x: torch.full_like(x, 3),
    "in a list": lambda x: [torch.tensor([1.0, 1.0, 1.0], dtype=x.dtype) * 3],
    "computed": lambda x: torch.arange(3, dtype=x.dtype).softmax(0).sum() * 3,
}


def second_by_autograd(f, x):
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    return torch.autograd.grad(first.sum() + 0 * x.sum(), x)[0]


SECOND = {
    "autograd": second_by_autograd,
    "hessian": lambda f, x: torch.func.hessian(lambda x: f(x).sum())(x).diagonal(),
    "reverse twice": lambda f, x: torch.func.jacrev(torch.func.jacrev(lambda x: f(x).sum()))(x).diagonal(),
    "forward twice": lambda f, x: torch.func.jacfwd(torch.func.jacfwd(lambda x: f(x).sum()))(x).diagonal(),
}


@pytest.mark.parametrize("how", SECOND)
@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_constant_on_the_context(constant, how):
    def forward(ctx, x):
        ctx.factor = CONSTANTS[constant](x)
        return x**3

    def backward(ctx, x, grad):
        return (ctx.factor[0] if constant == "in a list" else ctx.factor) * x * x * grad

    f = cubed(forward, backward)
    torch.testing.assert_close(SECOND[how](f, X), 6 * X)
    torch.testing.assert_close(torch.func.jvp(f, (X,), (X,))[1], 3 * X**3)


@pytest.mark.parametrize("how", SECOND)
@pytest.mark.parametrize(
    "lose", [lambda x: x.detach() * 3, lambda x: 3 * torch.nn.Parameter(x)], ids=["detach", "Parameter"]
)
def test_what_is_no_constant_on_the_context(lose, how):
    def forward(ctx, x):
        ctx.kept = lose(x)
        return x**3

    with pytest.raises(tg.DerivativeError, match="cannot be differentiated again"):
        SECOND[how](cubed(forward, lambda ctx, x, grad: ctx.kept * x * grad), X)


@pytest.mark.parametrize("how", SECOND)
@pytest.mark.parametrize(
    "take",
    [lambda x: x.tolist(), lambda x: [float(v) for v in x], lambda x: {"all": [v.item() for v in x]}],
    ids=["tolist", "float", "item"],
)
def test_numbers_taken_out_of_tensors_have_no_derivative(take, how):
    def forward(ctx, x):
        ctx.numbers = take(x)
        return x**3

    def backward(ctx, x, grad):
        numbers = ctx.numbers["all"] if isinstance(ctx.numbers, dict) else ctx.numbers
        return 3 * torch.tensor(numbers, dtype=x.dtype) ** 2 * grad

    f = cubed(forward, backward)
    torch.testing.assert_close(torch.func.grad(lambda x: f(x).sum())(X), 3 * X**2)
    with pytest.raises(tg.DerivativeError, match="cannot be differentiated again"):
        SECOND[how](f, X)


@pytest.mark.parametrize("how", SECOND)
@pytest.mark.parametrize("kind", [float, np.float64, np.float32, complex])
def test_a_number_that_equals_an_argument_may_come_out_of_a_tensor(kind, how):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            ctx.largest = kind(x.max().item())
            return scale * x * x.max()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            largest = float(ctx.largest.real)
            return 2 * (grad * largest + (x == x.max()) * (grad * x).sum()), None

    @tg.adopt(Scaled)
    def scaled(x: Float[Tensor, "n"], scale: float) -> Float[Tensor, "n"]: ...

    x = X / X.max() * 2  # The largest number is the other argument.
    with pytest.raises(tg.DerivativeError, match="cannot be differentiated again"):
        SECOND[how](lambda x: scaled(x, 2.0), x)


@pytest.mark.parametrize("how", SECOND)
def test_numbers_that_were_there_before_are_constants(how):
    def forward(ctx, x):
        ctx.factor, ctx.table = 3.0, [1.5, 2.0]
        return x**3

    f = cubed(forward, lambda ctx, x, grad: ctx.table[0] * ctx.table[1] * ctx.factor / 3 * x * x * grad)
    torch.testing.assert_close(SECOND[how](f, X), 6 * X)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


FORWARDS = {
    "calls a Function": lambda ctx, x: Square.apply(x) * x,
    "decides by numbers": lambda ctx, x: x**3 if float(x.detach().sum()) < 100 else x,
    "numpy": lambda ctx, x: torch.from_numpy(x.detach().numpy() ** 3),
}
FIRST = {
    "call": (lambda f, x: f(x), lambda x: x**3),
    "grad": (lambda f, x: torch.func.grad(lambda x: f(x).sum())(x), lambda x: 3 * x**2),
    "second": (second_by_autograd, lambda x: 6 * x),
    "reverse twice": (SECOND["reverse twice"], lambda x: 6 * x),
    "jvp": (lambda f, x: torch.func.jvp(f, (x,), (x,))[1], lambda x: 3 * x**3),
    "vmap": (lambda f, x: torch.vmap(f)(x[None])[0], lambda x: x**3),
    "vmap of grad": (lambda f, x: torch.vmap(torch.func.grad(lambda x: f(x).sum()))(x[None])[0], lambda x: 3 * x**2),
    "compiled": (lambda f, x: torch.compile(f, backend="aot_eager", fullgraph=True)(x), lambda x: x**3),
    "gradient, compiled": (
        lambda f, x: noise_and_gradient(torch.compile(f, backend="aot_eager"), x)[1], lambda x: 3 * x**2,
    ),
    "compiled grad": (TRANSFORMS["compiled grad"], lambda x: 3 * x**2),
}  # fmt: skip
REFUSED = {
    "calls a Function": {"jvp", "vmap of grad"},
    "decides by numbers": {"vmap of grad", "gradient, compiled", "compiled grad"},
    "numpy": {"jvp", "vmap of grad", "gradient, compiled", "compiled grad"},
}


@pytest.mark.parametrize("how", FIRST)
@pytest.mark.parametrize("forward", FORWARDS)
def test_a_forward_that_tracers_do_not_understand(forward, how):
    f, (call, plain) = cubed(FORWARDS[forward]), FIRST[how]
    if how in REFUSED[forward]:
        with pytest.raises(Exception, match=r"operator \\*'(Cubed|cubed)"):
            call(f, X)
    else:
        torch.testing.assert_close(call(f, X), plain(X))


def test_a_backward_that_says_it_cannot_be_differentiated():
    f = cubed(lambda ctx, x: x**3)
    function = type("Once", (torch.autograd.Function,), {
        "forward": staticmethod(lambda ctx, x: (ctx.save_for_backward(x), x**3)[1]),
        "backward": staticmethod(once_differentiable(lambda ctx, grad: 3 * ctx.saved_tensors[0] ** 2 * grad)),
    })  # fmt: skip
    once = tg.adopt(function)(vector)
    torch.testing.assert_close(noise_and_gradient(once, X), noise_and_gradient(f, X))
    with pytest.raises(tg.DerivativeError, match="it is marked with once_differentiable"):
        second_by_autograd(once, X)
    with pytest.raises(tg.DerivativeError, match="no_grad, which once_differentiable is"):
        torch.func.jacrev(torch.func.jacrev(once))(X)


def vector(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...
