"""The backward pass against differences: what is found, what is not an error, and what cannot be told."""

import itertools
import random

import pytest
import torch

from torchgraft._check.case import Case
from torchgraft._check.finding import Inconclusive, Verdict
from torchgraft._check.numeric.gradient import gradient
from torchgraft._check.numeric.probe import Probe
from torchgraft._check.numeric.vectors import flatten
from torchgraft._check.target import make_target

from .jacobians import analytic_jacobian, numeric_jacobian

CALLS = itertools.count()
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def look(function, *args, seed=0):
    return list(gradient(Case(make_target(function), args, seed=seed)))


def only(found):
    assert len(found) == 1
    return found[0]


def altered(function, change):
    """A function whose gradients are changed: `change` takes them all and gives others."""

    class Altered(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            with torch.enable_grad():
                ctx.inputs = [x.detach().requires_grad_() for x in inputs]
                ctx.outputs = function(*ctx.inputs)
            return ctx.outputs.detach()

        @staticmethod
        def backward(ctx, grad):
            return change(*torch.autograd.grad(ctx.outputs, ctx.inputs, grad, retain_graph=True))

    return Altered.apply


def first(change):
    """Changes the first element of a single gradient."""

    def changed(g):
        g = g.clone()
        g.view(-1)[0] = change(g.view(-1)[0])
        return g

    return changed


# -- what is wrong ------------------------------------------------------------------------------------------------

WRONG = {
    "sign": torch.neg,
    "twice": lambda g: 2 * g,
    "zero": torch.zeros_like,
    "none": lambda g: None,
    "transposed": lambda g: g.mT.reshape(g.shape),
    "a millionth": lambda g: g * (1 + 2e-6),
    "one element zeroed": first(lambda e: 0 * e),
    "one element a little off": first(lambda e: e * 1.0001),
    "two elements swapped": lambda g: g.reshape(-1)[[1, 0, *range(2, g.numel())]].view(g.shape),
    "not a number": first(lambda e: e * torch.nan),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("reduced", [False, True], ids=["each", "sum"])
def test_wrong_gradients(reduced, name):
    function = (lambda x: x.exp().sum()) if reduced else torch.sin
    found = only(look(altered(function, WRONG[name]), normal(3, 4)))
    assert found.code in ("wrong-gradient", "loses-digits")
    assert found.severity is Verdict.FAIL or name in ("a millionth", "one element a little off")
    assert not found.error <= found.estimate
    assert "`input 0`" in found.where


@pytest.mark.slow
def test_one_element_of_a_hundred_thousand():
    assert only(look(altered(torch.sin, first(lambda e: 0 * e)), normal(100_000))).code == "wrong-gradient"


@pytest.mark.parametrize("seed", range(5))
def test_every_seed_finds_a_single_swapped_pair(seed):
    assert look(altered(torch.exp, WRONG["two elements swapped"]), normal(30), seed=seed)


def test_small_elements_are_not_drowned_by_large_ones():
    weight = torch.tensor([1e8, 1.0, 1e-8], dtype=torch.float64)

    def last(g):
        return torch.cat([g[:2], 1.001 * g[2:]])

    assert look(altered(lambda x: x.sin() * weight, last), normal(3))
    assert not look(lambda x: x.sin() * weight, normal(3))


def test_a_factor_of_a_few_ulp_more_than_rounding_loses_digits():
    found = only(look(altered(torch.sin, lambda g: g * (1 + 6e-8)), normal(8)))
    assert (found.code, found.severity) == ("loses-digits", Verdict.LOSES_DIGITS)
    assert 1e-9 < found.error < 1e-6


@pytest.mark.parametrize("dtype", FLOATS)
def test_few_digits(dtype):
    x = normal(5, 4, dtype=dtype)
    assert not look(torch.sin, x)
    assert only(look(altered(torch.sin, torch.neg), x)).severity is Verdict.FAIL
    assert look(altered(torch.sin, first(lambda e: 0 * e)), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtypes_without_a_reference(dtype):
    def native(x):
        assert x.dtype == dtype
        return torch.tanh(x)

    x = normal(5, 4, dtype=dtype)
    assert Probe(Case(make_target(native), [x])).reference is None
    assert Probe(Case(make_target(torch.tanh), [x])).reference is not None
    assert not look(native, x)
    assert only(look(altered(native, torch.neg), x)).code == "wrong-gradient"


def test_a_reference_that_is_another_function_is_none():
    def other(x):
        return x.sin() if x.dtype == torch.float32 else x.cos()

    x = normal(8, dtype=torch.float32)
    assert Probe(Case(make_target(other), [x])).reference is None
    assert not look(other, x)


def test_inputs_of_different_scales_in_few_digits():
    def scaled(a, b):
        return a.sum() + b.sin().sum()

    a, b = normal(6, dtype=torch.float32) * 1e4, normal(6, dtype=torch.float32) * 1e-3
    assert not look(scaled, a, b)
    found = only(look(altered(scaled, lambda ga, gb: (ga, -gb)), a, b))
    assert found.where.startswith("the output by `input 1`;")

    def native(a, b):
        assert a.dtype == torch.float32
        return scaled(a, b)

    with pytest.raises(Inconclusive, match=r"too few digits .* `b`"):
        look(native, a, b)


@pytest.mark.parametrize("dtype", [torch.complex128, torch.complex64])
def test_complex(dtype):
    z = normal(4, dtype=torch.complex128) + 1j * normal(4, seed=1)
    z = z.to(dtype)
    for function in (lambda z: z * z, torch.abs, torch.conj, lambda z: z.real * z, torch.view_as_real, torch.angle):
        assert not look(function, z)
    assert only(look(altered(lambda z: z * z, torch.conj), z)).code == "wrong-gradient"
    assert look(altered(lambda z: z * z, lambda g: g.real + 0j), z)


def test_where_says_which_output_and_input():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x * weight, x + weight

        @staticmethod
        def backward(ctx, one, two):
            x, weight = ctx.saved_tensors
            return one * weight + two, one * x - two

    found = only(look(Two.apply, normal(3), normal(3, seed=1)))
    assert found.where.startswith("output 1 by `weight`;")


def test_backward_that_is_not_linear():
    found = only(look(altered(torch.sin, lambda g: g.clamp(-0.5, 0.5)), normal(9)))
    assert found.code == "nonlinear-backward"


def test_backward_in_fewer_digits_than_its_dtype():
    found = only(look(altered(torch.sin, lambda g: g.float().mul(1 / 3).mul(3).double()), normal(9)))
    assert (found.code, found.severity) == ("loses-digits", Verdict.LOSES_DIGITS)

    class Rounded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0].float().cos()

    found = only(look(Rounded.apply, normal(9)))
    assert (found.code, found.severity) == ("loses-digits", Verdict.LOSES_DIGITS)


def test_some_more_rounding_in_the_backward_is_no_error():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 6 * grad * ((x / 3 + 300) - 300)

    for seed in range(3):
        assert not look(Square.apply, normal(9), seed=seed)


def test_a_gradient_that_is_not_a_number_at_a_kink():
    x = torch.tensor([[1.0, -2.0], [0.0, 0.0], [0.5, 1.0]], dtype=torch.float64)
    found = only(look(lambda x: x.square().sum(1).sqrt(), x))
    assert found.code == "nan-gradient"
    assert found.where.startswith("2 of 6 elements of `x`;")
    assert not look(lambda x: torch.linalg.vector_norm(x, dim=1), x)


def test_backward_that_raises():
    def refuse(g):
        raise ValueError("no such thing")

    found = only(look(altered(torch.sin, refuse), normal(3)))
    assert found.code == "backward-raises"
    assert found.cause == "no such thing"


def test_a_graph_that_serves_once_only():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x.detach().clone()
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            x = ctx.x
            del ctx.x
            return grad * x.cos()

    assert not look(Once.apply, normal(4))


def test_an_output_wrongly_marked_as_non_differentiable():
    def detached(x):
        return x.sin(), x.cos().detach()

    found = only(look(detached, normal(4)))
    assert found.code == "nondifferentiable-output-moves"
    assert found.severity is Verdict.INCONCLUSIVE
    assert not look(lambda x: (x.sin(), x.detach().sign()), normal(4))
    assert not look(lambda x: (x.float().sin(), x.float()[:0]), normal(4))


def test_ties():
    class Largest(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            largest = x.max()
            ctx.save_for_backward(x, largest)
            return largest

        @staticmethod
        def backward(ctx, grad):
            x, largest = ctx.saved_tensors
            return grad * (x == largest)

    assert not look(Largest.apply, torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64))
    found = only(look(Largest.apply, torch.tensor([1.0, 3.0, 3.0], dtype=torch.float64)))
    assert found.code == "wrong-at-ties"
    for right in (torch.amax, torch.amin, lambda x: x.max(0).values, lambda x: x.sort().values.sum()):
        assert not look(right, torch.tensor([3.0, 3.0, 3.0], dtype=torch.float64))


# -- what is no error ---------------------------------------------------------------------------------------------

RIGHT = {
    "relu": (torch.relu, normal(20)),
    "some zeros": (torch.relu, torch.cat([normal(20), torch.zeros(5, dtype=torch.float64)])),
    "root of zero": (torch.sqrt, torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)),
    "near the edge": (torch.acos, torch.tensor([0.9999999, -0.5, 0.1], dtype=torch.float64)),
    "small": (torch.square, 1e-20 * normal(4)),
    "large": (torch.square, 1e20 * normal(4)),
    "large angles": (torch.sin, 1e5 * normal(4)),
    "tiny and noisy": (lambda x: 1e-200 * (1e5 + x.sin()), normal(4)),
    "inverse": (torch.linalg.inv, normal(5, 5)),
    "constant": (lambda x: 0 * x + 3, normal(3)),
    "floor": (torch.floor, normal(10)),
    "masked": (lambda x: x.masked_fill(x > 0, -torch.inf), normal(10)),
    "no output elements": (lambda x: x[:0], normal(3)),
    "eigenvalues": (lambda x: torch.linalg.eigvalsh(x + x.mT), normal(4, 4)),
    "dropout": (lambda x: torch.nn.functional.dropout(x, 0.4), normal(30)),
    "view": (lambda x: x.mT[1:], normal(3, 4)),
    "in place": (lambda x: x.mul_(2).sin_(), normal(4)),
    "integer argument": (lambda x, i: x[i] * 2, normal(5)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_gradients(name):
    function, x = RIGHT[name]
    more = [torch.tensor([0, 3, 3])] if name == "integer argument" else []
    assert look(function, x, *more) == []


def test_a_list_of_inputs_and_a_module():
    assert not look(lambda tensors: torch.stack(tensors).prod(0), [normal(3), normal(3, seed=1), normal(3, seed=2)])
    layer = torch.nn.Linear(3, 2, dtype=torch.float64)
    assert not look(layer, dict(layer.named_parameters()), normal(4, 3))


def test_sparse():
    x = normal(3, 4)
    x[x < 0] = 0
    assert not look(lambda s: torch.sparse.mm(s, torch.ones(4, 2, dtype=torch.float64)), x.to_sparse())


def test_it_serves_a_backward_pass_too():
    def backward_of(function):
        def backward(x, v):
            with torch.enable_grad():
                x = x if x.requires_grad else x.detach().requires_grad_()
                return torch.autograd.grad(function(x), x, v, create_graph=True)

        return backward

    class Dropped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x.detach().cos()

    assert not look(backward_of(torch.sin), normal(4), normal(4, seed=1))
    found = only(look(backward_of(Dropped.apply), normal(4), normal(4, seed=1)))
    assert found.where.startswith("the output by `x`")


def test_an_input_with_jumps_does_not_hide_another():
    def chosen(x, flag):
        return torch.where(flag == 1, x.exp(), x.sin())

    x, flag = normal(4), torch.tensor([1.0, 0, 1, 1], dtype=torch.float64)
    with pytest.raises(Inconclusive, match="the outputs jump or have kinks where `flag` changes"):
        look(chosen, x, flag)

    def differentiable(x, flag):
        return chosen(x, flag) + 0 * flag

    found = only(look(altered(differentiable, lambda gx, gf: (-gx, gf)), x, flag))
    assert found.where.startswith("the output by `input 0`;")

    def labelled(x, label):
        """Beside the labels there is nothing, so that nothing is wrong."""
        return torch.where(label == 1, x.exp(), 0) + torch.where(label == -1, x.sin(), 0) + 0 * label

    label = 2 * flag - 1
    found = only(look(altered(labelled, lambda gx, gf: (-gx, gf)), x, label))
    assert found.where.startswith("the output by `input 0`;")


def test_a_branch_that_the_point_alone_is_on():
    """The factor of the identity has other signs than those of all matrices around it."""

    def factor(x):
        return torch.linalg.qr(x).Q

    identity = torch.eye(3).double()
    with pytest.raises(Inconclusive, match="at jumps"):
        look(factor, identity)
    assert only(look(altered(factor, lambda grad: (2 * grad,)), identity)).severity is Verdict.FAIL


# -- what cannot be told ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        (lambda x: x.detach(), normal(3), "no output requires grad"),
        (lambda x: (x > 0).long(), normal(3), "no output is a floating-point"),
        (lambda x: x, torch.tensor([1, 2]), "no argument is a floating-point"),
        (lambda x: x * torch.nan, normal(3), "no element of the outputs is finite"),
        (torch.relu, torch.zeros(5, dtype=torch.float64), "5 of 5 elements .* 5 at kinks"),
        (lambda x: x * random.random(), normal(3), "differ from call to call"),
        (lambda x: x * next(CALLS), normal(3), "differ from call to call"),
    ],
    ids=["detached", "integers out", "integers in", "nan", "kinks", "random", "state"],
)
def test_inconclusive(function, given, words):
    with pytest.raises(Inconclusive, match=words):
        look(function, given)


def test_nothing_to_check():
    with pytest.raises(Inconclusive, match="no elements"):
        look(torch.sin, normal(0))


def test_a_target_that_fails_next_to_its_arguments():
    x = torch.tensor([0.3125, 0.5], dtype=torch.float64)

    def exact(y):
        if not torch.equal(y.detach(), x):
            raise ValueError("not that")
        return y * 2

    with pytest.raises(Inconclusive, match="fails"):
        look(exact, x)


def test_it_is_deterministic():
    function = altered(torch.sin, lambda g: 1.1 * g)
    assert look(function, normal(5)) == look(function, normal(5))
    assert look(function, normal(5), seed=1)[0].error != look(function, normal(5))[0].error


def test_some_thirty_calls_whatever_the_size():
    for size in (3, 3000):
        calls = []
        look(lambda x: calls.append(1) or x.exp(), normal(size))  # noqa: B023
        assert len(calls) <= 40


# -- derivatives along a direction, and whole Jacobians -----------------------------------------------------------


def test_directional():
    x, u = normal(4), torch.tensor([1.0, 0.0, -2.0, 0.5], dtype=torch.float64)
    case = Case(make_target(torch.sin), [x])
    found = Probe(case).climb(flatten([u]))
    assert ((found.derivative - Probe(case).point.cos() * u).abs() <= 4 * found.error).all()
    assert found.error.max() < 1e-9


def test_jacobians_of_a_complex_function_of_two_inputs():
    z, w = torch.complex(normal(3), normal(3, seed=1)), normal(2, seed=2)
    case = Case(make_target(lambda z, w: (z.conj() * z.exp(), w.prod() * z.real)), [z, w])
    numeric, estimate = numeric_jacobian(case)
    analytic = analytic_jacobian(case)
    assert numeric.shape == analytic.shape == estimate.shape == (3 * 2 + 3, 3 * 2 + 2)
    assert ((numeric - analytic).abs() <= 4 * estimate + 1e-13).all()
    assert estimate.max() < 1e-8


def test_jacobian_of_a_wrong_backward():
    case = Case(make_target(altered(lambda x: x.cumsum(0), lambda g: g.flip(0))), [normal(4)])
    numeric, _ = numeric_jacobian(case)
    torch.testing.assert_close(numeric, torch.ones(4, 4, dtype=torch.float64).tril(), atol=1e-12, rtol=0)
    torch.testing.assert_close(analytic_jacobian(case), numeric.flip(1), atol=1e-12, rtol=0)


def test_entries_without_a_derivative_have_no_estimate():
    _, estimate = numeric_jacobian(Case(make_target(torch.relu), [torch.tensor([0.0, 1.0], dtype=torch.float64)]))
    assert estimate[0, 0] == torch.inf
    assert estimate[1].max() < 1e-9


def test_ties_alone_prove_nothing_wrong():
    """The middle one of three equal elements is smooth along every line, and any of the three may be taken."""
    tied = torch.full((3,), 1.125, dtype=torch.float64)
    assert not found_or_unsure(Case(make_target(lambda x: x.sort().values[1]), (tied,)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_ties_of_few_digits_prove_nothing_wrong(dtype, seed):
    """So few that equal elements which are to differ have to go some way."""
    tied = (-1.125 * torch.ones(2, 3, 5)).to(dtype)
    tied[seed % 2, :, seed % 5] = -1.375
    assert not found_or_unsure(Case(make_target(lambda x: x.topk(2, largest=False).values), (tied,), seed=seed))


@pytest.mark.parametrize("size", [3, 15, 27])
def test_equal_eigenvalues_have_no_derivative(size):
    """They stay nearly equal where elements differ by little, and have one where these differ by more."""
    column = torch.arange(1.0, 1 + size, dtype=torch.float64)
    for tied in (torch.full((size, size), -0.75, dtype=torch.float64), column.expand(size, size)):
        case = Case(make_target(lambda a: torch.linalg.eigvalsh((a + a.mT) / 2)), (tied,))
        assert not found_or_unsure(case)
        wrong = altered(lambda a: torch.linalg.eigvalsh((a + a.mT) / 2), lambda g: 1.5 * g)
        assert found_or_unsure(Case(make_target(wrong), (tied,)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("seed", range(8))
def test_few_digits_hide_no_wrong_gradient(dtype, seed):
    """In sixteen bits half of a sum of many terms may be rounding; in double precision it is not."""

    def from_the_end(g):
        return g.cumsum(-1).flip(-1).cumsum(-1)

    right, case = torch.cumsum, (normal(5, 4, dtype=dtype, seed=seed),)
    wrong = altered(lambda x: right(x, -1), from_the_end)
    assert list(gradient(Case(make_target(wrong), case, seed=seed, traits=frozenset({str(dtype)}))))
    assert not list(gradient(Case(make_target(lambda x: right(x, -1)), case, seed=seed)))


def test_what_is_wrong_without_ties_too_is_wrong_with_them():
    double = type("Double", (torch.autograd.Function,), {
        "forward": staticmethod(lambda ctx, x: 2 * x), "backward": staticmethod(lambda ctx, grad: grad),
    })  # fmt: skip
    assert found_or_unsure(Case(make_target(double), (torch.ones(3, dtype=torch.float64),)))


def test_equal_labels_do_not_hide_what_is_wrong():
    """Between the labels the loss is another one, and right."""
    loss = torch.nn.functional.hinge_embedding_loss
    wrong = altered(lambda x, y: loss(x, y, margin=9.0, reduction="none"), lambda g, none: (-g, none))
    labels = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0], dtype=torch.float64)
    assert found_or_unsure(Case(make_target(wrong), (normal(5), labels)))


@pytest.mark.parametrize("both", [False, True])
def test_ties_of_two_tensors(both):
    """Where both are the largest, their gradients must add up to the upstream gradient."""

    class Maximum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return torch.maximum(x, y)

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * (x >= y), grad * (y >= x if both else y > x)

    x = normal(5)
    found = found_or_unsure(Case(make_target(Maximum.apply), (x, x.clone())))
    assert [finding.code for finding in found] == (["wrong-at-ties"] if both else [])


def test_a_masked_element_that_is_not_a_number():
    x = torch.tensor([1.0, torch.nan, 2.0], dtype=torch.float64)
    assert look(torch.nansum, x) == []
    assert look(altered(torch.nansum, lambda g: g * torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)), x)


@pytest.mark.parametrize("seed", range(12))
def test_outputs_that_are_zero_whatever_the_input(seed):
    """The imaginary part of the constant frequency has the roundings of the other outputs, and no size of its own."""
    window = torch.hann_window(4, dtype=torch.float64)
    assert look(lambda x: torch.stft(x, 4, return_complex=True, window=window), normal(12), seed=seed) == []


def found_or_unsure(case):
    """What is found; nothing, where it cannot be told."""
    try:
        return list(gradient(case))
    except Inconclusive:
        return []
