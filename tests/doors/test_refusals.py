"""What a Function refuses, and what it advises against: each with the words that say what to do."""

import contextlib
import functools
import gc
import warnings
import weakref
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.autograd.function import once_differentiable

import torchgraft as tg

W = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def cube(backward, forward=None):
    """x^3, with the given backward."""

    def save_input(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    body = {"forward": staticmethod(forward or save_input), "backward": staticmethod(backward)}
    return type("Cube", (tg.Function,), body)


def first(f, x=None):
    x = W.detach().clone().requires_grad_() if x is None else x
    return torch.autograd.grad(f(x).sum(), x)[0]


# -- the gradients themselves -------------------------------------------------------------------------------------


class Affine(tg.Function):
    """Its backward is replaced by each test."""

    @staticmethod
    def forward(ctx, x, weight, scale):
        ctx.save_for_backward(x, weight)
        return x * weight * scale

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError


def run_affine(backward, x_shape=(4, 3), weight_dtype=torch.float32):
    Affine.backward = staticmethod(backward)
    x = torch.ones(x_shape, requires_grad=True)
    weight = torch.ones(3, dtype=weight_dtype, requires_grad=True)
    return torch.autograd.grad(Affine.apply(x, weight, 2.0).sum(), [x, weight])


@pytest.mark.parametrize(
    ("backward", "match", "argument", "expected", "got"),
    [
        (lambda ctx, g: g, "wrong number of gradients", None, "3, for x, weight, scale", "1: (4, 3) torch.float32"),
        (lambda ctx, g: (g, g.sum(0)), "wrong number", None, "3, for x, weight, scale", "2: "),
        (lambda ctx, g: (g, g.sum(0), None, g), "wrong number", None, "3, for", "4: "),
        (lambda ctx, g: (g, g[:2], None), "wrong shape", "weight", "(3,) torch.float32", "(2, 3) torch.float32"),
        (lambda ctx, g: (g[:1], g.sum(0), None), "wrong shape", "x", "(4, 3) torch.float32", "(1, 3) torch.float32"),
        (
            lambda ctx, g: (g.half(), g.sum(0), None),
            "wrong dtype",
            "x",
            "(4, 3) torch.float32",
            "(4, 3) torch.float16",
        ),
        (
            lambda ctx, g: (g, g.sum(0), g.sum()),
            "for an argument that is no tensor",
            "scale",
            "None",
            "() torch.float32",
        ),
        (lambda ctx, g: (g.numpy(), g.sum(0), None), "no gradient", "x", "a tensor or None", "ndarray"),
    ],
    ids=["one", "two", "surplus", "not summed", "too small", "dtype", "for a number", "array"],
)
def test_wrong_gradients(backward, match, argument, expected, got):
    with pytest.raises(tg.RuleError, match=match) as caught:
        run_affine(backward)
    error = caught.value
    assert (error.operator, error.argument) == ("Affine.backward", argument)
    assert error.expected.startswith(expected)
    assert error.got.startswith(got)
    assert error.hint


def test_torch_sums_the_same_without_a_word():
    class Stock(torch.autograd.Function):
        forward, backward = Affine.forward, staticmethod(lambda ctx, g: (g, g[:2], None))

    weight = torch.ones(3, requires_grad=True)
    assert torch.autograd.grad(Stock.apply(torch.ones(4, 3), weight, 2.0).sum(), weight)[0].tolist() == [2, 2, 2]


def test_what_forward_broadcast_is_summed_with_a_word():
    class Gelu(tg.Function):
        @staticmethod
        def forward(ctx, x, bias):
            ctx.save_for_backward(x, bias)
            return torch.sigmoid(x + bias)

        @staticmethod
        def backward(ctx, grad):
            x, bias = ctx.saved_tensors
            s = torch.sigmoid(x + bias)
            return grad * s * (1 - s), grad * s * (1 - s)

    x, bias = torch.randn(3, 4).double().requires_grad_(), torch.randn(4).double().requires_grad_()
    with pytest.warns(tg.TorchgraftWarning, match=r"summed over the axes that\nforward broadcast") as caught:
        Gelu.apply(x, bias).sum().backward()
    assert "right:  return grad_bias.sum_to_size((4,))" in str(caught[0].message)
    assert torch.autograd.gradcheck(Gelu.apply, (x, bias))
    assert torch.autograd.gradgradcheck(Gelu.apply, (x, bias))


def test_a_gradient_as_narrow_as_its_cotangent():
    """Nothing wider was ever there: spikes are float32 where membranes are float64."""

    class Spike(tg.Function):
        @staticmethod
        def forward(ctx, x):
            return (x > 0).float()

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    Spike.apply(x).sum().backward()
    assert (x.grad.dtype, x.grad.tolist()) == (torch.float64, [2, 2])


@pytest.mark.parametrize("transform", [lambda f: f, torch.vmap])
def test_forward_may_ask_what_requires_grad(transform):
    class Asks(tg.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.asked = (x.requires_grad, y.requires_grad)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            assert ctx.asked == (True, False)
            return 7 * grad, None

    x = torch.ones(2, 3)
    gradient = transform(torch.func.grad(lambda x: Asks.apply(x, torch.ones(())).sum()))(x)
    assert gradient.tolist() == [[7.0] * 3] * 2


def test_a_float32_gradient_for_a_float64_filter():
    with pytest.raises(tg.RuleError, match="wrong dtype") as caught:
        run_affine(lambda ctx, g: (g.float(), g.float().sum(0), None), weight_dtype=torch.float64)
    assert caught.value.argument == "weight"
    assert "would keep the error" in caught.value.hint


def test_what_autograd_rounds_or_reshapes_without_loss():
    made = run_affine(lambda ctx, g: (2 * g.double()[None], 2 * g.sum(0, keepdim=True), None))
    assert [(m.shape, m.dtype) for m in made] == [((4, 3), torch.float32), ((3,), torch.float32)]
    assert made[1].tolist() == [8, 8, 8]


def test_right_and_surplus_gradients():
    made = run_affine(lambda ctx, g: (2 * g, 2 * g.sum(0), None, None))
    assert made[1].tolist() == [8, 8, 8]
    assert run_affine(lambda ctx, g: [2 * g, 2 * g.sum(0), None])[1].tolist() == [8, 8, 8]


# -- what is saved ----------------------------------------------------------------------------------------------------


def test_saving_a_number():
    def forward(ctx, x):
        ctx.save_for_backward(x, 2.0)
        return x

    with pytest.raises(tg.ArgumentError, match="save_for_backward takes tensors") as caught:
        first(cube(lambda ctx, g: g, forward).apply)
    assert caught.value.argument == "save_for_backward[1]"
    assert "right:  ctx.save_for_backward(x); ctx.scale = scale" in str(caught.value)


def test_a_saved_tensor_that_changes():
    x = torch.ones(3, requires_grad=True) * 1
    out = cube(lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2).apply(x)
    x += 1
    with pytest.raises(tg.DerivativeError, match="has been changed in place since") as caught:
        out.sum().backward()
    assert caught.value.operator == "Cube.backward"
    assert "version" in caught.value.got


@pytest.mark.filterwarnings("ignore::torchgraft.TorchgraftWarning")
def test_an_attribute_that_changes():
    def forward(ctx, x):
        ctx.x = x
        return x**3

    x = torch.ones(3, requires_grad=True) * 1
    out = cube(lambda ctx, g: 3 * g * ctx.x**2, forward).apply(x)
    x += 1  # torch's own class takes the changed values, without a word
    with pytest.raises(tg.DerivativeError, match=r"ctx\.x has been changed in place since forward"):
        out.sum().backward()


def grad_in_place(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad.mul_(3 * x**2)


def saved_in_place(ctx, grad):
    (x,) = ctx.saved_tensors
    return 3 * grad * x.pow_(2)


@pytest.mark.parametrize("backward", [grad_in_place, saved_in_place])
def test_a_backward_that_overwrites_what_it_reads(backward):
    what = "the gradient that it was given" if backward is grad_in_place else "a saved tensor"
    with pytest.raises(tg.RuleError, match=f"backward changed {what} in place") as caught:
        first(lambda x: 1 * cube(backward).apply(x))
    assert "clone()" in caught.value.hint


def test_an_input_that_is_changed_without_a_word():
    def forward(ctx, x):
        return x.mul_(2)

    with pytest.raises(tg.KernelError, match="changed in place by forward") as caught:
        first(cube(lambda ctx, g: 2 * g, forward).apply, torch.ones(3, requires_grad=True) * 1)
    assert caught.value.argument == "x"
    assert "ctx.mark_dirty(x)" in caught.value.hint


def test_a_buffer_may_be_changed():
    mean = torch.zeros(())

    def forward(ctx, x, mean):
        mean.mul_(0.5).add_(x.mean())
        return x * 1

    assert first(lambda x: cube(lambda ctx, g: (g, None), forward).apply(x, mean)).tolist() == [1, 1, 1]
    assert mean.item() == 2


def test_an_output_that_is_the_input():
    f = cube(lambda ctx, g: 5 * g, lambda ctx, x: x).apply
    assert first(f).tolist() == [5, 5, 5]
    x = W.detach().clone().requires_grad_()
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        f(x).mul_(2)


# -- advice, once -----------------------------------------------------------------------------------------------------


def advised(f, times=2):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(times):
            first(f)
    return [w for w in caught if w.category is tg.TorchgraftWarning]


def keep_attribute(ctx, x):
    ctx.x = x
    return x**3


def keep_in_list(ctx, x):
    ctx.things = {"all": [x]}
    return x**3


def keep_square(ctx, x):
    square = x**2
    ctx.save_for_backward(square)
    return square * x


def keep_mask(ctx, x):
    mask = torch.full_like(x, 2)
    ctx.mark_constant(mask)
    ctx.save_for_backward(mask)
    return mask * x


def test_tensors_as_attributes():
    (warning,) = advised(cube(lambda ctx, g: 3 * g * ctx.x**2, keep_attribute).apply)
    assert "Cube keeps a tensor as ctx.x" in str(warning.message)
    assert "right:  ctx.save_for_backward(x)" in str(warning.message)
    assert warning.filename == __file__
    (warning,) = advised(cube(lambda ctx, g: 3 * g * ctx.things["all"][0] ** 2, keep_in_list).apply)
    assert "ctx.things" in str(warning.message)


def test_saved_intermediates():
    (warning,) = advised(cube(lambda ctx, g: 3 * g * ctx.saved_tensors[0], keep_square).apply)
    assert "keeps an intermediate result" in str(warning.message)
    assert "@once_differentiable" in str(warning.message)
    assert advised(cube(once_differentiable(lambda ctx, g: 3 * g * ctx.saved_tensors[0]), keep_square).apply) == []
    assert advised(cube(lambda ctx, g: g * ctx.saved_tensors[0], keep_mask).apply) == []


def test_nothing_to_advise():
    assert advised(cube(lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2).apply) == []


# -- second derivatives -----------------------------------------------------------------------------------------------


def saved(ctx):
    return ctx.saved_tensors[0]


def under_no_grad(ctx, grad):
    with torch.no_grad():
        square = saved(ctx) ** 2
    return 3 * grad * square


def rows_under_no_grad(ctx, grad):
    square = torch.empty_like(grad)
    with torch.no_grad():
        for i in range(len(grad)):
            square[i : i + 1].copy_(saved(ctx)[i : i + 1] ** 2)
    return 3 * grad * square


def into_data(ctx, grad):
    square = torch.empty_like(grad)
    square.data.copy_(saved(ctx) ** 2)
    return 3 * grad * square


def data_replaced(ctx, grad):
    square = torch.empty_like(grad)
    square.data = saved(ctx) ** 2
    return 3 * grad * square


LOSING = {
    "rows under no_grad": rows_under_no_grad,
    "into data": into_data,
    "data replaced": data_replaced,
    "data": lambda ctx, g: 3 * g * saved(ctx).data ** 2,
    "detach, one factor": lambda ctx, g: 3 * g * saved(ctx) * saved(ctx).detach(),
    "item": lambda ctx, g: 3 * g * saved(ctx) ** 2 / saved(ctx).sum() * saved(ctx).sum().item(),
    "no_grad": under_no_grad,
    "once_differentiable": once_differentiable(lambda ctx, g: 3 * g * saved(ctx) ** 2),
}
TWICE = {
    "create_graph": lambda f, x: torch.autograd.grad(
        (torch.autograd.grad(f(x).sum(), x, create_graph=True)[0] + 0 * x).sum(), x
    )[0],
    "grad of grad": lambda f, x: torch.func.grad(lambda x: torch.func.grad(lambda x: f(x).sum())(x).sum())(x.detach()),
    "jacrev of jacrev": lambda f, x: torch.func.jacrev(torch.func.jacrev(lambda x: f(x).sum()))(x.detach()).diagonal(),
}


@pytest.mark.parametrize("twice", TWICE.values(), ids=TWICE)
@pytest.mark.parametrize("backward", LOSING.values(), ids=LOSING)
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_what_is_detached_is_not_differentiated_again(backward, twice):
    x = W.detach().clone().requires_grad_()
    f = cube(backward).apply
    torch.testing.assert_close(first(f, x), 3 * W.detach() ** 2)
    if backward in (LOSING["data"], into_data, data_replaced) and twice is not TWICE["create_graph"]:
        with contextlib.suppress(
            RuntimeError
        ):  # `.data` of a transform's tensor may take away nothing, or not be there
            assert twice(f, x).tolist() == [6, 12, 18]
        return
    with pytest.raises(
        (tg.DerivativeError, RuntimeError), match=r"Cube.backward': cannot be differentiated again|vmap"
    ):
        twice(f, x)


def test_numpy_in_a_backward():
    def backward(ctx, grad):
        return torch.from_numpy(3 * grad.numpy() * saved(ctx).detach().numpy() ** 2)

    x = W.detach().clone().requires_grad_()
    f = cube(backward).apply
    torch.testing.assert_close(first(f, x), 3 * W.detach() ** 2)
    with pytest.raises(tg.DerivativeError, match="cannot be differentiated again: it leaves torch through"):
        TWICE["create_graph"](f, x)
    with pytest.raises(tg.UnsupportedError, match="leaves torch under a transform") as caught:
        torch.func.grad(lambda x: f(x).sum())(x.detach())
    assert "make an operator of the array code" in caught.value.hint


def test_torch_takes_it_for_constant():
    class Stock(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        backward = staticmethod(LOSING["detach, one factor"])

    x = W.detach().clone().requires_grad_()
    assert TWICE["create_graph"](Stock.apply, x).tolist() == [3, 6, 9]  # half of it


def constant_on_purpose(ctx, grad):
    slope = saved(ctx).detach() ** 2
    ctx.mark_constant(slope)
    return 3 * grad * slope


def constant_gradient(ctx, grad):
    gradient = 3 * grad * saved(ctx).detach() ** 2
    ctx.mark_constant(gradient)
    return gradient


@pytest.mark.parametrize("backward", [constant_on_purpose, constant_gradient])
def test_what_is_constant_on_purpose_is_not_refused(backward):
    x = W.detach().clone().requires_grad_()
    assert TWICE["create_graph"](cube(backward).apply, x).tolist() == [0, 0, 0]


HARMLESS = {
    "mask": (lambda ctx, g: 3 * g * saved(ctx) ** 2 * (saved(ctx).detach() > 0), 6),
    "sign": (lambda ctx, g: 3 * g * saved(ctx).abs() * saved(ctx), 6),
    "where": (lambda ctx, g: torch.where(saved(ctx) > 0, 3 * g * saved(ctx) ** 2, torch.zeros_like(g)), 6),
    "in place on fresh tensors": (lambda ctx, g: g.clone().mul_(3).mul_(saved(ctx)).mul_(saved(ctx)), 6),
    "zeros": (lambda ctx, g: 3 * g * saved(ctx) ** 2 + torch.zeros_like(saved(ctx)), 6),
    "branch": (lambda ctx, g: 3 * g * saved(ctx) ** 2 if saved(ctx).detach().norm() > 0 else g, 6),
    "another dtype and back": (lambda ctx, g: (3 * g.double() * saved(ctx).double() ** 2).to(g.dtype), 6),
}


@pytest.mark.parametrize("twice", [TWICE["create_graph"], TWICE["grad of grad"]], ids=["create_graph", "grad of grad"])
@pytest.mark.parametrize(("backward", "factor"), HARMLESS.values(), ids=HARMLESS)
def test_no_false_alarm(backward, factor, twice):
    x = W.detach().clone().requires_grad_()
    torch.testing.assert_close(twice(cube(backward).apply, x), factor * W.detach())


@pytest.mark.filterwarnings("ignore::torchgraft.TorchgraftWarning")
class TestIntermediates:
    backward = staticmethod(lambda ctx, g: 3 * g * saved(ctx))

    def test_second_derivatives_are_refused(self):
        x = W.detach().clone().requires_grad_()
        f = cube(self.backward, keep_square).apply
        for twice in TWICE.values():
            with pytest.raises(tg.DerivativeError, match="it reads what forward computed and saved"):
                twice(f, x)

    def test_also_where_the_input_is_gone(self):
        x = W.detach().clone().requires_grad_()
        out = cube(self.backward, keep_square).apply(x * 1)
        with pytest.raises(tg.DerivativeError, match="and not its inputs") as caught:
            torch.autograd.grad(out.sum(), x, create_graph=True)
        assert "@once_differentiable" in caught.value.hint
        torch.testing.assert_close(torch.autograd.grad(out.sum(), x)[0], 3 * W.detach() ** 2)

    @pytest.mark.slow
    def test_the_input_is_not_kept_alive(self):
        y = W.detach().clone().requires_grad_() * 1
        out, seen = cube(self.backward, keep_square).apply(y), weakref.ref(y)
        del y
        gc.collect()
        assert seen() is None
        out.sum().backward()

    def test_arrays_count_too(self):
        def forward(ctx, x):
            ctx.array = 3 * x.detach().numpy() ** 2
            return x**3

        x = W.detach().clone().requires_grad_()
        f = cube(lambda ctx, g: g * torch.from_numpy(ctx.array), forward).apply
        torch.testing.assert_close(first(f, x), 3 * W.detach() ** 2)
        with pytest.raises(tg.DerivativeError, match="it reads what forward computed"):
            TWICE["create_graph"](f, x)

    def test_an_array_of_integers_does_not(self):
        def forward(ctx, x):
            ctx.order = np.argsort(x.detach().numpy())
            return x[torch.from_numpy(ctx.order)] ** 3

        x = W.detach().clone().requires_grad_()

        def backward(ctx, g):
            return torch.zeros_like(g).scatter(0, torch.from_numpy(ctx.order), 3 * g)

        assert TWICE["create_graph"](cube(backward, forward).apply, x).tolist() == [0, 0, 0]


@dataclass
class Holder:
    value: object


HIDING = {
    "dataclass": Holder,
    "closure": lambda square: lambda: square,
    "set": lambda square: {square},
    "partial": lambda square: functools.partial(torch.mul, square),
    "nested": lambda square: Holder([Holder(square)]),
}


@pytest.mark.parametrize("hide", HIDING.values(), ids=HIDING)
def test_intermediates_that_are_hidden(hide):
    def forward(ctx, x):
        square = x * x
        ctx.kept, ctx.square = hide(square), weakref.ref(square)
        return square * x

    x = W.detach().clone().requires_grad_()
    f = cube(lambda ctx, g: 3 * g * ctx.square(), forward).apply
    torch.testing.assert_close(first(f, x), 3 * W.detach() ** 2)
    for twice in (TWICE["create_graph"], TWICE["grad of grad"]):
        with pytest.raises(tg.DerivativeError, match="it reads what forward computed"):
            twice(f, x)


@pytest.mark.parametrize(
    "things",
    [torch.nn.Linear(2, 2), lambda x: x, Holder(3.0), np.float32(2), {1, 2}, torch.Size([2])],
    ids=lambda t: type(t).__name__,
)
def test_what_holds_no_tensors(things):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.things = things
        return x**3

    x = W.detach().clone().requires_grad_()
    assert TWICE["create_graph"](cube(lambda ctx, g: 3 * g * saved(ctx) ** 2, forward).apply, x).tolist() == [6, 12, 18]


# -- outputs ----------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    exp: torch.Tensor
    double: torch.Tensor


def test_a_named_tuple_is_a_tuple():
    def forward(ctx, x):
        out = Pair(x.exp(), 2 * x)
        ctx.save_for_backward(out.exp)
        return out

    f = cube(lambda ctx, g, h: g * saved(ctx) + 2 * h, forward).apply
    x = W.detach().clone().requires_grad_()
    torch.testing.assert_close(first(lambda x: f(x)[0], x), W.detach().exp())
    torch.testing.assert_close(torch.func.grad(lambda x: f(x)[0].sum())(x.detach()), W.detach().exp())
    torch.testing.assert_close(TWICE["create_graph"](lambda x: f(x)[0], x), W.detach().exp())


@pytest.mark.parametrize(
    "pack", [lambda x: [x], lambda x: {"x": x}, lambda x: (x, [x])], ids=["list", "dict", "in a tuple"]
)
def test_tensors_in_other_things_are_refused(pack):
    f = cube(lambda ctx, *g: g[0], lambda ctx, x: pack(x * 2)).apply
    for call in (lambda: f(W), lambda: torch.func.vjp(f, W.detach())):
        with pytest.raises(tg.KernelError, match="autograd does not look into"):
            call()


# -- vmap by a loop ---------------------------------------------------------------------------------------------------


class Noise(tg.Function):
    @staticmethod
    def forward(ctx, x):
        mask = (torch.rand_like(x) > 0.5).to(x.dtype)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        return grad * saved(ctx)


@pytest.mark.filterwarnings("ignore::torchgraft.TorchgraftWarning")
def test_random_numbers_are_those_of_vmap():
    x = torch.ones(4, 64)
    with pytest.raises(tg.UnsupportedError, match="draws random numbers"):
        torch.vmap(Noise.apply)(x)
    same = torch.vmap(Noise.apply, randomness="same")(x)
    assert torch.equal(same[0], same[3])
    different = torch.vmap(Noise.apply, randomness="different")(x)
    assert not torch.equal(different[0], different[3])


def test_samples_that_differ():
    f = cube(lambda ctx, g, _: 2 * g, lambda ctx, x: (2 * x, int((x > 0).sum()))).apply
    with pytest.raises(tg.UnsupportedError, match="keeps or returns something else for each sample"):
        torch.vmap(lambda x: f(x)[0] * f(x)[1])(torch.tensor([[1.0, 1.0], [1.0, -1.0]]))


def test_a_shared_argument_that_changes():
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        return x.add_(y)

    with pytest.raises(tg.UnsupportedError, match="changes an argument in place"):
        torch.vmap(cube(lambda ctx, g: (g, g), forward).apply, in_dims=(None, 0))(torch.zeros(2), torch.ones(3, 2))


# -- what is fine -----------------------------------------------------------------------------------------------------


def test_an_apply_of_its_own():
    class Shifted(tg.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

        @classmethod
        def apply(cls, x):
            return super().apply(x) + 100

    class Child(Shifted):
        @staticmethod
        def forward(ctx, x):
            return 3 * x

    assert Shifted.apply(torch.ones(2)).tolist() == [102, 102]
    assert Child.apply(torch.ones(2)).tolist() == [103, 103]


def test_in_place_without_grad_mode():
    f = cube(lambda ctx, g: 2 * g, lambda ctx, x: x.mul_(2)).apply
    parameter = torch.nn.Parameter(torch.ones(2))
    with torch.no_grad():
        assert f(parameter).tolist() == [2, 2]


def test_a_cotangent_from_inference_mode():
    x = W.detach().clone().requires_grad_()
    with torch.inference_mode():
        cotangent = torch.ones(3)
    cube(lambda ctx, g: 3 * g * saved(ctx) ** 2).apply(x).backward(cotangent)
    torch.testing.assert_close(x.grad, 3 * W.detach() ** 2)


def test_buffers_under_transforms():
    mean = torch.zeros(())

    def forward(ctx, x, mean):
        mean.mul_(0.5).add_(x.mean())
        return x * 1

    f = cube(lambda ctx, g: (g, None), forward).apply
    assert torch.func.grad(lambda x: f(x, mean).sum())(torch.ones(2)).tolist() == [1, 1]
    assert mean.item() == 1


# -- definitions ------------------------------------------------------------------------------------------------------


def test_no_backward():
    class Forward(tg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(tg.DeclarationError, match="has no backward"):
        first(Forward.apply)


def test_backward_and_vjp():
    with pytest.raises(tg.DeclarationError, match="both a backward and a vjp"):
        type("Two", (tg.Function,), {"backward": staticmethod(lambda: None), "vjp": staticmethod(lambda: None)})


def test_the_base_class():
    with pytest.raises(tg.DeclarationError, match="Function is a base class"):
        tg.Function.apply(torch.ones(2))


def test_no_jvp():
    x = W.detach()
    with pytest.raises(tg.DerivativeError, match="has no jvp") as caught:
        torch.func.jvp(cube(lambda ctx, g: 3 * g * saved(ctx) ** 2).apply, (x,), (x,))
    assert "tg.adopt" in caught.value.hint


def test_a_tensor_that_an_instance_hides():
    class Scaled(tg.Function):
        def __init__(self, weight):
            self.weight = weight

        def forward(self, x):
            return x * self.weight

        def backward(self, grad):
            return grad * self.weight

    with pytest.raises(tg.ArgumentError, match="would get no gradient") as caught:
        Scaled(W)(torch.ones(3))
    assert "Scaled()(x, weight)" in caught.value.hint


@pytest.mark.parametrize("fullgraph", [True, False])
def test_compiled_code_raises_too(fullgraph):
    Affine.backward = staticmethod(lambda ctx, g: (2 * g, 2 * g[:2], None))
    x, weight = torch.ones(4, 3), torch.ones(3, requires_grad=True)
    compiled = torch.compile(lambda x, w: Affine.apply(x, w, 2.0).sum(), backend="aot_eager", fullgraph=fullgraph)
    with pytest.raises((tg.RuleError, RuntimeError), match=r"wrong shape|graph_break"):
        compiled(x, weight).backward()


def test_saved_for_forward_alone():
    class Square(tg.Function):
        @staticmethod
        def forward(x):
            return x**2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            return grad

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return 2 * x * tangent

    x = torch.tensor([3.0])
    assert torch.func.jvp(Square.apply, (x,), (torch.ones(1),))[1].item() == 6


def test_long_tables_and_loops_in_attributes():
    def forward(ctx, x):
        ctx.table, ctx.loop = list(range(100_000)), {}
        ctx.loop["itself"] = ctx.loop
        return x * 2

    assert first(cube(lambda ctx, g: 2 * g, forward).apply).tolist() == [2, 2, 2]
