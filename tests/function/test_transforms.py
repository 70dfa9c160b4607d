"""Functions under `torch.func`, in every order of its transforms, and under the dual levels of plain autograd."""

import itertools
import random

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

import torchgraft as tg

from .table import CASES, MATRIX, Case, X, Y, some
from .test_context import define
from .test_stock import smooth

each = pytest.mark.parametrize("case", CASES.values(), ids=repr)
FORWARD = pytest.mark.parametrize("case", some(forward_mode=True), ids=repr)
REVERSE = pytest.mark.parametrize("case", some(forward_mode=False), ids=repr)


def of_one(case, f):
    """A function of one tensor, of the shape of the first argument, that moves all arguments and uses all outputs."""

    def call(x):
        rest = [(0.5 * x).sum() + value for value in case.values[1:]]
        first, *others = smooth(f(x, *rest))
        for other in others:
            first = first * other
        return first

    return call


def weighted(out):
    weights = torch.arange(1, out.numel() + 1).reshape(out.shape)
    scalar = (out * weights).sum()
    return scalar.real if out.is_complex() else scalar


TRANSFORMS = {
    "R": lambda f: torch.func.grad(lambda x: weighted(f(x))),
    "F": lambda f: lambda x: torch.func.jvp(f, (x,), (x.cos(),))[1],
    "V": torch.vmap,
}
JACOBIANS = {"R": torch.func.jacrev, "F": torch.func.jacfwd, "V": torch.vmap}


def nest(word, f, transforms=TRANSFORMS):
    for letter in reversed(word):
        f = transforms[letter](f)
    return f


def point(word, case):
    """Where to evaluate: an axis for each `vmap`."""
    x = case.values[0]
    for i in range(word.count("V")):
        x = torch.stack([x, 0.5 * x + 0.1 * i])
    return x


def words(letters, lengths):
    return ["".join(word) for length in lengths for word in itertools.product(letters, repeat=length)]


def agree(case, word, transforms=TRANSFORMS):
    x = point(word, case)
    made = nest(word, of_one(case, case.make(tg.Function)), transforms)(x)
    torch.testing.assert_close(made, nest(word, of_one(case, case.plain), transforms)(x))


@FORWARD
@pytest.mark.parametrize("word", words("RFV", (1, 2, 3)))
def test_every_nesting(case, word):
    agree(case, word)


@pytest.mark.parametrize("word", words("RF", (4,)))
def test_four_levels(word):
    agree(CASES["setup"], word)


@FORWARD
@pytest.mark.parametrize("word", words("RFV", (1, 2)))
def test_jacobians(case, word):
    agree(case, word, JACOBIANS)


@pytest.mark.parametrize("word", ["RRR", "FFF", "FRF", "VRF", "RVF", "FVR"])
def test_third_derivatives_as_arrays(word):
    agree(CASES["jvp_of_several"], word, JACOBIANS)


def beyond(case, word):
    """What torch.func itself cannot do with the case, or the case does wrong on purpose."""
    return ("R" in word and not case.functional) or ("V" in word and not case.mapped)


@REVERSE
@pytest.mark.parametrize("word", words("RV", (1, 2, 3)))
def test_every_nesting_of_reverse_mode(case, word):
    try:
        agree(case, word)
    except (tg.TorchgraftError, RuntimeError):  # a wrong number is an AssertionError
        assert beyond(case, word)


@REVERSE
@pytest.mark.parametrize("word", words("RV", (1, 2)))
def test_jacobians_in_reverse_mode(case, word):
    if case.values[0].is_complex() or case.values[0].numel() == 0:
        pytest.skip("torch.func.jacrev takes neither")
    if not beyond(case, word + "V"):
        agree(case, word, JACOBIANS)


@REVERSE
@pytest.mark.parametrize("word", ["F", "FR", "RF", "FF", "FV", "VF", "FRV", "RVF"])
def test_forward_mode_without_a_jvp_is_refused(case, word):
    if "V" in word and not case.mapped:
        word = word.replace("V", "")
    with pytest.raises(tg.DerivativeError, match="has no jvp, which forward mode needs") as caught:
        nest(word, of_one(case, case.make(tg.Function)))(point(word, case))
    assert (caught.value.expected, caught.value.got) == ("def jvp(ctx, *tangents)", "forward mode")


# -- plain autograd around and inside of transforms -------------------------------------------------------------------


@each
def test_autograd_through_a_transform(case):
    if case.order < 2:
        pytest.skip("there torch is wrong")
    made, expected = [], []
    for f, answers in ((case.make(tg.Function), made), (case.plain, expected)):
        (x, *_) = case.leaves()
        gradient = torch.func.grad(lambda x, f=f: weighted(of_one(case, f)(x)))(x)
        answers += [gradient.detach(), torch.autograd.grad(weighted(gradient + 0 * x), x)[0]]
    torch.testing.assert_close(made, expected)


@each
def test_create_graph_inside_of_a_transform(case):
    if case.order < 2 or case.values[0].is_complex():
        pytest.skip("there torch is wrong, or complex")

    def inside(f):
        def call(x):
            (first,) = torch.autograd.grad(weighted(of_one(case, f)(x)), x, create_graph=True)
            return weighted(first + x * 0)

        return torch.func.grad(call)

    x = case.values[0]
    torch.testing.assert_close(inside(case.make(tg.Function))(x), inside(case.plain)(x))


def test_levels_that_have_ended():
    """A tensor that escapes from a transform is an ordinary one again."""
    f, kept = CASES["setup"].make(tg.Function), []

    def call(x):
        out = f(x)
        kept.append(out)
        return out.sum()

    torch.func.grad(call)(X)
    x = X.clone().requires_grad_()
    torch.testing.assert_close(torch.autograd.grad((f(kept[0]) + f(x)).sum(), x)[0], torch.func.grad(call)(X))


# -- dual levels ------------------------------------------------------------------------------------------------------


def dual(f, case, tangent):
    """The tangent of `f`, and what autograd makes of it."""
    (x, *_) = case.leaves()
    with forward_ad.dual_level():
        primal, moved = forward_ad.unpack_dual(of_one(case, f)(forward_ad.make_dual(x, tangent)))
        (again,) = torch.autograd.grad(weighted(moved), x, create_graph=True)
        (third,) = torch.autograd.grad(weighted(again), x, retain_graph=True)
        return primal.detach(), moved.detach(), again.detach(), third


@FORWARD
def test_reverse_over_forward_at_one_level(case):
    tangent = torch.cos(case.values[0])
    made, expected = (dual(f, case, tangent) for f in (case.make(tg.Function), case.plain))
    torch.testing.assert_close(made, expected)


@FORWARD
def test_forward_over_reverse_at_one_level(case):
    def ask(f):
        (x, *_) = case.leaves()
        with forward_ad.dual_level():
            out = of_one(case, f)(forward_ad.make_dual(x, torch.cos(case.values[0])))
            (gradient,) = torch.autograd.grad(weighted(out), x)
            return forward_ad.unpack_dual(gradient).tangent

    torch.testing.assert_close(ask(case.make(tg.Function)), ask(case.plain))


def test_forward_over_reverse_of_a_saved_output_is_refused():
    """The output is saved before it has its tangent; the gradient would miss a term."""

    class Exp(tg.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * ctx.saved_tensors[0]

    x = X.clone().requires_grad_()
    with forward_ad.dual_level():
        out = Exp.apply(forward_ad.make_dual(x, torch.ones_like(x)))
        torch.testing.assert_close(forward_ad.unpack_dual(out).tangent, X.exp())
        with pytest.raises(tg.DerivativeError, match="forward over reverse at one level") as caught:
            torch.autograd.grad(out.sum(), x)
    assert caught.value.operator == "Exp.backward"
    assert "torch.func.jvp over torch.func.grad" in caught.value.expected
    torch.testing.assert_close(
        torch.func.jvp(torch.func.grad(lambda x: Exp.apply(x).sum()), (X,), (X,))[1], X * X.exp()
    )


@each
def test_a_dual_level_without_a_tangent(case):
    made, expected = [], []
    for f, answers in ((case.make(tg.Function), made), (case.plain, expected)):
        leaves = case.leaves()
        with forward_ad.dual_level():
            out = weighted(of_one(case, f)(leaves[0]))
            answers += torch.autograd.grad(out, leaves[:1], materialize_grads=True)
    torch.testing.assert_close(made, expected)


@FORWARD
def test_transforms_inside_of_a_dual_level(case):
    def ask(f):
        x = case.values[0]
        with forward_ad.dual_level():
            moved = forward_ad.make_dual(x, torch.cos(x))
            gradient = torch.func.grad(lambda x: weighted(of_one(case, f)(x)))(moved)
            return forward_ad.unpack_dual(gradient).tangent

    torch.testing.assert_close(ask(case.make(tg.Function)), ask(case.plain))


@REVERSE
def test_a_dual_tensor_without_a_jvp_is_refused(case):
    with forward_ad.dual_level(), pytest.raises(tg.DerivativeError, match="has no jvp"):
        of_one(case, case.make(tg.Function))(forward_ad.make_dual(case.values[0], case.values[0]))


@FORWARD
def test_forward_mode_of_gradcheck(case):
    f = of_one(case, case.make(tg.Function))
    x = case.values[0].clone().requires_grad_()
    assert torch.autograd.gradcheck(
        f, x, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
    )
    assert torch.autograd.gradgradcheck(f, x, check_fwd_over_rev=True)


@REVERSE
def test_reverse_mode_of_gradcheck(case):
    """Where the gradient is another one on purpose, gradcheck says so of both."""
    if case.values[0].dtype == torch.float16:
        pytest.skip("too few digits")
    x = case.values[0].clone().requires_grad_()
    ours, plain = (of_one(case, f) for f in (case.make(tg.Function), case.plain))
    right = torch.autograd.gradcheck(plain, x, raise_exception=False)
    assert torch.autograd.gradcheck(ours, x, raise_exception=False) == right
    if right and case.order > 1:
        assert torch.autograd.gradgradcheck(ours, x)


def test_a_tangent_that_comes_after_forward():
    """A node made outside of a dual level, and run inside of one."""

    def detached(ctx, grad):
        return grad.detach() * 2

    f = define(tg.Function, forward=lambda ctx, x: 2 * x, backward=detached).apply
    x = X.clone().requires_grad_()
    out = f(x)
    with forward_ad.dual_level(), pytest.raises(tg.DerivativeError, match="it leaves torch through detach"):
        torch.autograd.grad(out, x, forward_ad.make_dual(torch.ones_like(x), torch.ones_like(x)))


# -- jvp, its context -------------------------------------------------------------------------------------------------


class Told(tg.Function):
    """x y, beside an output without a derivative, and one that the tangent knows nothing of."""

    materialize = True
    seen = ()

    @staticmethod
    def forward(ctx, x, y, scale):
        ctx.set_materialize_grads(Told.materialize)
        ctx.save_for_forward(x, y)
        ctx.scale = scale
        inert = x.round()
        ctx.mark_non_differentiable(inert)
        return x * y * scale, inert, x.argsort()

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError

    @staticmethod
    def jvp(ctx, to_x, to_y, to_scale):
        Told.seen = [to if to is None else to.tolist() for to in (to_x, to_y, to_scale)]
        x, y = ctx.saved_tensors
        return ctx.scale * (sum(t * o for t, o in ((to_x, y), (to_y, x)) if t is not None)), None, None


@pytest.mark.parametrize("materialize", [True, False])
def test_tangents_that_are_not_there(materialize, monkeypatch):
    monkeypatch.setattr(Told, "materialize", materialize)
    with forward_ad.dual_level():
        moved = forward_ad.make_dual(X, torch.ones_like(X))
        out, inert, order = Told.apply(moved, Y, 2.0)
        torch.testing.assert_close(forward_ad.unpack_dual(out).tangent, 2 * Y)
        assert forward_ad.unpack_dual(inert).tangent is None
        assert (inert.tolist(), order.tolist()) == (X.round().tolist(), X.argsort().tolist())
    assert Told.seen == [[1, 1, 1], [0, 0, 0] if materialize else None, None]


def test_a_jvp_of_the_wrong_kind_is_refused():
    class Wrong(tg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def jvp(ctx, tangent):
            return tangent[:1]

    with pytest.raises((tg.RuleError, RuntimeError), match=r"shape|size"):
        torch.func.jvp(Wrong.apply, (X,), (X,))


def test_forward_mode_of_a_change_in_place_is_refused():
    class InPlace(tg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, tangent):
            return 2 * tangent

    with pytest.raises(tg.UnsupportedError, match="changes its inputs in place, which forward mode cannot") as caught:
        torch.func.jvp(lambda x: InPlace.apply(x * 1), (X,), (X,))
    assert caught.value.operator == "InPlace.jvp"


# -- vmap -------------------------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_any_axis_can_be_mapped(case, dim):
    if not case.mapped or not case.values[0].dim():
        pytest.skip("it cannot be mapped, or has one axis only")
    values = [torch.stack([value, 0.5 * value], dim) for value in case.values]

    def mapped(f):
        return torch.vmap(lambda *args: tuple(smooth(f(*args))), in_dims=dim, out_dims=-1)(*values)

    torch.testing.assert_close(mapped(case.make(tg.Function)), mapped(case.plain))


@pytest.mark.parametrize("mapped", [(0, None), (None, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("name", ["needs_input_grad", "several_outputs", "jvp_of_several", "backward_of_itself"])
def test_some_arguments_are_mapped(name, mapped):
    case = CASES[name]
    values = [v if dim is None else torch.stack([v, 0.5 * v]) for v, dim in zip(case.values, mapped, strict=True)]

    def both(f):
        g = lambda *args: tuple(smooth(f(*args)))  # noqa: E731
        loss = lambda *args: sum(o.square().sum() for o in g(*args))  # noqa: E731
        per_sample = torch.vmap(torch.func.grad(loss, (0, 1)), in_dims=mapped)(*values)
        together = torch.func.grad(lambda *args: sum(o.square().sum() for o in torch.vmap(g, mapped)(*args)), (0, 1))(
            *values
        )
        return torch.vmap(g, mapped)(*values), per_sample, together

    torch.testing.assert_close(both(case.make(tg.Function)), both(case.plain))


def test_other_outputs_under_vmap():
    f = CASES["other_outputs"].make(tg.Function)
    rows = torch.stack([X, -X])
    values, order, positive = torch.vmap(lambda x: tuple(o for o in f(x) if o is not None))(rows)
    torch.testing.assert_close((values, order), tuple(rows.sort()))
    assert torch.equal(positive, rows > 0)


def test_chunks():
    f, rows = CASES["coupled"].make(tg.Function), torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(torch.vmap(f, chunk_size=2)(rows), torch.vmap(f)(rows))


def test_numpy_in_forward_is_looped():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(np.sin(x.detach().numpy()))

    f = define(tg.Function, forward=forward, backward=lambda ctx, grad: grad * ctx.saved_tensors[0].cos())
    rows = torch.stack([X, Y])
    torch.testing.assert_close(torch.vmap(f.apply)(rows), rows.sin())
    gradient = torch.vmap(torch.func.grad(lambda x: f.apply(x).sum()))(rows)
    torch.testing.assert_close(gradient, rows.cos())


def numpy_sort(base):
    """That of functorch's documentation."""

    class NumpySort(base):
        @staticmethod
        def forward(x, dim):
            array = x.detach().numpy()
            order = np.argsort(array, axis=dim)
            return torch.from_numpy(np.take_along_axis(array, order, dim)), torch.from_numpy(order)

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, order = output
            ctx.mark_non_differentiable(order)
            ctx.save_for_backward(order)
            ctx.dim = inputs[1]

        @staticmethod
        def backward(ctx, grad, _):
            (order,) = ctx.saved_tensors
            return torch.zeros_like(grad).scatter(ctx.dim, order, grad), None

        @staticmethod
        def vmap(info, in_dims, x, dim):
            x = x.movedim(in_dims[0], 0)
            return NumpySort.apply(x, dim if dim < 0 else dim + 1), (0, 0)

    return lambda x: NumpySort.apply(x, -1)[0].square()


@pytest.mark.parametrize("word", words("RV", (1, 2)))
def test_numpy_in_forward_beside_a_vmap(word):
    agree(Case("numpy_sort", numpy_sort, lambda x: x.sort().values.square(), (X,)), word)


def test_attributes_that_differ_from_sample_to_sample_are_refused():
    def forward(ctx, x):
        ctx.largest = int(x.argmax())
        return x * 2

    f = define(tg.Function, forward=forward, backward=lambda ctx, grad: 2 * grad).apply
    torch.testing.assert_close(torch.vmap(f)(torch.stack([X, 2 * X])), torch.stack([X, 2 * X]) * 2)
    with pytest.raises(tg.UnsupportedError, match="keeps or returns something else for each sample") as caught:
        torch.vmap(f)(torch.stack([X, -X]))
    assert caught.value.expected.startswith("a static method vmap(info, in_dims, *args)")


def test_no_samples():
    """As with torch's own functions: what can be computed for many at once can be for none."""
    f = define(tg.Function, forward=lambda ctx, x: x.exp(), backward=lambda ctx, grad: grad).apply
    assert torch.vmap(f)(torch.zeros(0, 3)).shape == (0, 3)
    with pytest.raises(tg.UnsupportedError, match="under vmap: forward has no samples"):
        torch.vmap(CASES["coupled"].make(tg.Function))(torch.zeros(0, 3))


def test_a_vmap_beside_a_context():
    """It can be mapped; but what it keeps for a derivative inside of its mapping is out of reach."""

    class Double(tg.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

        @staticmethod
        def vmap(info, in_dims, x):
            assert info.randomness == "error"
            return Double.apply(x), in_dims[0]

    rows = torch.stack([X, Y])
    torch.testing.assert_close(torch.vmap(Double.apply, in_dims=1)(rows.mT), 2 * rows)
    torch.testing.assert_close(
        torch.func.grad(lambda x: torch.vmap(Double.apply)(x).sum())(rows), torch.full_like(rows, 2)
    )
    with pytest.raises(tg.UnsupportedError, match="differentiated outside of its own vmap") as caught:
        torch.vmap(torch.func.grad(lambda x: Double.apply(x).sum()))(rows)
    assert "setup_context" in caught.value.expected


def test_functionalize_is_refused():
    with pytest.raises(tg.UnsupportedError, match="a Function under this transform") as caught:
        torch.func.functionalize(CASES["coupled"].make(tg.Function))(X)
    assert (caught.value.operator, caught.value.got) == ("Coupled", "Functionalize")


# -- as people use them -----------------------------------------------------------------------------------------------


class Layer(torch.nn.Module):
    """A linear layer made of a Function."""

    def __init__(self, base):
        super().__init__()
        self.weight = torch.nn.Parameter(MATRIX.clone())
        self.product = CASES["needs_input_grad"].make(base) if base else CASES["needs_input_grad"].plain

    def forward(self, x):
        return self.product(self.weight, x)


def test_per_sample_gradients_of_a_module():
    made = []
    for base in (tg.Function, None):
        layer = Layer(base)
        parameters = {name: p.detach() for name, p in layer.named_parameters()}

        def loss(parameters, x, layer=layer):
            return torch.func.functional_call(layer, parameters, (x,)).square().sum()

        made.append(torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, torch.stack([X, Y])))
    torch.testing.assert_close(made[0], made[1])


def test_an_ensemble():
    layers = [Layer(tg.Function) for _ in range(3)]
    for i, layer in enumerate(layers):
        layer.weight.data += i
    stacked, _ = torch.func.stack_module_state(layers)
    out = torch.vmap(lambda p: torch.func.functional_call(layers[0], p, (Y,)))(stacked)
    torch.testing.assert_close(out, torch.stack([layer.weight @ Y for layer in layers]))
    out.square().sum().backward()
    torch.testing.assert_close(stacked["weight"].grad[1], torch.outer(2 * (MATRIX + 1) @ Y, Y))


def test_linearize():
    f, plain = (of_one(CASES["setup"], g) for g in (CASES["setup"].make(tg.Function), CASES["setup"].plain))
    out, linear = torch.func.linearize(f, X)
    torch.testing.assert_close((out, linear(Y)), torch.func.jvp(plain, (X,), (Y,)))


def test_hessian_of_a_loss():
    made = [torch.func.hessian(lambda x, f=f: weighted(of_one(CASES["setup"], f)(x)))(X) for f in (
        CASES["setup"].make(tg.Function), CASES["setup"].plain,
    )]  # fmt: skip
    torch.testing.assert_close(made[0], made[1])


# -- random numbers under vmap ----------------------------------------------------------------------------------------

DRAWS = {
    "torch": torch.rand_like,
    "explicit": lambda x: torch.rand(x.shape, generator=GENERATOR),
    "numpy": lambda x: torch.from_numpy(np.random.rand(x.numel())).to(x).reshape(x.shape),
    "python": lambda x: x * 0 + random.random(),
}
GENERATOR = torch.Generator()


@pytest.mark.filterwarnings("ignore::torchgraft.TorchgraftWarning")
@pytest.mark.parametrize("randomness", ["error", "same", "different"])
@pytest.mark.parametrize("generated", [False, True])
@pytest.mark.parametrize("draw", DRAWS)
def test_random_numbers_are_what_vmap_says(draw, generated, randomness):
    class Noisy(tg.Function):
        generate_vmap_rule = generated

        @staticmethod
        def forward(ctx, x):
            mask = DRAWS[draw](x)
            ctx.save_for_backward(mask)
            return x * mask

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    cannot = {"error": True, "same": draw == "explicit" and not generated}
    cannot["different"] = generated and draw in ("numpy", "python")
    call = torch.vmap(torch.func.grad_and_value(lambda x: Noisy.apply(x).sum()), randomness=randomness)
    if cannot[randomness]:
        with pytest.raises(RuntimeError, match=r"forward draws random numbers|called random operation"):
            call(torch.ones(3, 2))
    else:
        gradient, value = call(torch.ones(3, 2))
        torch.testing.assert_close(gradient.sum(1), value)
        assert (gradient[0] == gradient[1]).all() == (randomness == "same")
