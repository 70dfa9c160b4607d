"""`gradcheck` and `gradgradcheck`: torch's signatures and answers, and what torch's own pass and these do not."""

import inspect
import math

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.autograd.gradcheck import GradcheckError

import torchgraft as tg


def normal(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=dtype, generator=generator, requires_grad=True)


def function(backward, forward=torch.sin, **more):
    """The apply of a Function that saves its input; its backward gets the upstream gradient and the input."""

    class Made(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

    Made.backward = staticmethod(lambda ctx, grad: backward(grad, *ctx.saved_tensors))
    for name, value in more.items():
        setattr(Made, name, staticmethod(value))
    return Made.apply


right = function(lambda grad, x: grad * x.cos())


# -- the signature ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gradcheck", "gradgradcheck"])
def test_the_signature_is_that_of_torch(name):
    ours, theirs = (inspect.signature(getattr(place, name)).parameters for place in (tg, torch.autograd))
    for parameter in theirs.values():
        assert ours[parameter.name].default == parameter.default
        assert ours[parameter.name].kind == parameter.kind
    assert list(ours)[: len(theirs)] == list(theirs)


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        ("gradcheck", {"check_backward_ad": False}),
        ("gradcheck", {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True}),
        ("gradcheck", {"check_batched_forward_grad": True}),
        ("gradgradcheck", {"check_rev_over_rev": False}),
        ("gradgradcheck", {"check_rev_over_rev": False, "check_fwd_over_rev": True}),
        ("gradgradcheck", {
            "check_rev_over_rev": False, "check_fwd_over_rev": True, "check_undefined_grad": False,
            "check_batched_grad": True,
        }),
    ],
)  # fmt: skip
def test_options_that_contradict_each_other(check, wrong):
    messages = []
    for place in (torch.autograd, tg):
        with pytest.raises(AssertionError) as error:
            getattr(place, check)(torch.sin, normal(3), **wrong)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


# -- what is right ----------------------------------------------------------------------------------------------------

CASES = {
    "one tensor": (torch.exp, lambda: normal(3)),
    "a list": (torch.matmul, lambda: [normal(2, 3), normal(3, 2, seed=1)]),
    "a number among the arguments": (torch.softmax, lambda: (normal(2, 3), 1)),
    "an integer tensor": (torch.index_select, lambda: (normal(4, 3), 0, torch.tensor([2, 0, 2]))),
    "one of two": (torch.mul, lambda: (normal(3), torch.ones(3, dtype=torch.float64))),
    "several outputs": (torch.std_mean, lambda: (normal(5),)),
    "an output without a derivative": (lambda x: torch.max(x, 0), lambda: (normal(3, 4),)),
    "complex": (torch.matmul, lambda: (normal(2, 3, dtype=torch.complex128), normal(3, dtype=torch.complex128))),
    "complex to real": (torch.abs, lambda: (normal(4, dtype=torch.complex128),)),
    "float32": (torch.tanh, lambda: (normal(4, dtype=torch.float32),)),
    "bfloat16": (torch.tanh, lambda: (normal(4, dtype=torch.bfloat16),)),
    "a view": (torch.sin, lambda: (normal(4, 3).t(),)),
    "expanded": (torch.sin, lambda: (normal(1, 3).expand(4, 3),)),
    "empty": (torch.sin, lambda: (normal(0, 3),)),
    "a scalar": (torch.sin, lambda: (normal(),)),
    "a Function": (right, lambda: (normal(3),)),
    "a step": (torch.round, lambda: (normal(3),)),
    "random": (torch.nn.functional.dropout, lambda: (normal(20),)),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", CASES)
def test_what_is_right_passes(case):
    func, inputs = CASES[case]
    assert tg.gradcheck(func, inputs(), check_grad_dtypes=True) is True


SMOOTH = ["one tensor", "a list", "a number among the arguments", "several outputs", "complex"]


@pytest.mark.parametrize("case", SMOOTH)
def test_all_that_can_be_asked_for(case):
    func, inputs = CASES[case]
    asked = {"check_batched_grad": True, "check_forward_ad": True, "check_batched_forward_grad": True}
    assert tg.gradcheck(func, inputs(), **asked) is True
    assert tg.gradcheck(func, inputs(), check_backward_ad=False, check_forward_ad=True) is True
    assert tg.gradgradcheck(func, inputs(), check_batched_grad=True, check_fwd_over_rev=True) is True
    assert torch.autograd.gradgradcheck(func, inputs(), check_fwd_over_rev=True) is True


@pytest.mark.slow
def test_the_parameters_of_a_module_are_checked():
    class Detached(torch.nn.Linear):
        def forward(self, x):
            wrong = function(lambda grad, weight: 2 * grad, torch.clone)
            return x @ wrong(self.weight).t()

    x = normal(2, 3)
    assert tg.gradcheck(torch.nn.Linear(3, 2, dtype=torch.float64), x)
    with pytest.raises(GradcheckError, match="weight"):
        tg.gradcheck(Detached(3, 2, bias=False, dtype=torch.float64), x)


def test_the_specified_elements_of_sparse_inputs_are_checked():
    sparse = torch.eye(3, dtype=torch.float64).to_sparse().requires_grad_()
    for masked in (None, True):
        assert tg.gradcheck(lambda s: s.to_dense().square(), sparse, masked=masked)
    with pytest.raises(tg.UnsupportedError, match="the unspecified elements"):
        tg.gradcheck(lambda s: s.to_dense(), sparse, masked=False)


@pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC) tensor support:UserWarning")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_of_sparse_inputs_without_gaps_no_element_is_left_out(layout):
    sparse = torch.randn(3, 2, dtype=torch.float64).to_sparse(layout=layout).requires_grad_()
    assert tg.gradcheck(lambda s: s.to_dense().square(), sparse, masked=False)


# -- what is wrong ----------------------------------------------------------------------------------------------------


def zeroed(grad, x):
    result = grad * x.cos()
    result.view(-1)[-1] = 0
    return result


def overwriting(grad, x):
    return grad.mul_(x.cos())


def flattened(grad, x):
    """Reads memory in order, as a kernel does that knows no strides."""
    return grad.as_strided(x.shape, x.contiguous().stride()) * x.cos()


WRONG = {
    "off by 1e-4": (function(lambda grad, x: grad * x.cos() * (1 + 1e-4)), {}),
    "one entry of many is zero": (function(zeroed), {"fast_mode": True}),
    "small": (function(lambda grad, x: 0 * grad, lambda x: 1e-6 * x.sin()), {}),
    "clamps the upstream gradient": (function(lambda grad, x: grad.clamp(-1, 1) * x.cos()), {}),
    "knows no strides": (function(flattened), {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", WRONG)
def test_what_torch_passes_is_found(bug):
    func, options = WRONG[bug]
    x = normal(40, 50) if options else normal(3, 4)
    assert torch.autograd.gradcheck(func, x, **options)
    with pytest.raises(GradcheckError) as error:
        tg.gradcheck(func, x, **options)
    assert isinstance(error.value, tg.CheckError)
    assert error.value.report.verdict is tg.Verdict.FAIL
    assert not tg.gradcheck(func, x, raise_exception=False, **options)


@pytest.mark.parametrize(
    ("backward", "code"),
    [
        (lambda grad, x: -grad * x.cos(), "wrong-gradient"),
        (lambda grad, x: torch.full_like(x, math.nan), "wrong-gradient"),
        (overwriting, "gradient-changed"),
        (lambda grad, x: grad * x.cos() + torch.rand_like(x), "nondeterministic-gradient"),
    ],
    ids=["sign", "NaN", "overwriting", "random"],
)
def test_what_torch_finds_is_found(backward, code):
    with pytest.raises(GradcheckError) as error:
        tg.gradcheck(function(backward), normal(3))
    assert code in {finding.code for finding in error.value.report.findings}


def test_a_tolerance_excuses_no_wrong_gradient():
    wrong = function(lambda grad, x: grad * x.cos() * (1 + 1e-4))
    with pytest.raises(GradcheckError, match="is wrong"):
        tg.gradcheck(wrong, normal(3), eps=1e-2, atol=1.0, rtol=1.0)


@pytest.mark.slow
def test_a_tolerance_excuses_lost_digits():
    imprecise = function(lambda grad, x: grad * x.cos() * (1 + 1e-9))
    assert tg.gradcheck(imprecise, normal(3))
    assert tg.gradcheck(imprecise, normal(3), atol=0, rtol=1e-8)
    for tight in ({"atol": 0, "rtol": 0}, {"atol": 0, "rtol": 1e-11}, {"atol": 1e-12, "rtol": 0}):
        with pytest.raises(GradcheckError, match="fewer digits"):
            tg.gradcheck(imprecise, normal(3), **tight)


def drifting():
    """A gradient that is another each time, by a little."""
    calls = []

    def backward(grad, x):
        calls.append(None)
        return grad * x.cos() * (1 + 1e-14 * len(calls))

    return function(backward)


def test_how_much_calls_may_differ():
    with pytest.raises(GradcheckError, match="another gradient"):
        tg.gradcheck(drifting(), normal(3), atol=1e-5)
    assert not torch.autograd.gradcheck(drifting(), normal(3), raise_exception=False)
    for place in (torch.autograd, tg):
        assert place.gradcheck(drifting(), normal(3), nondet_tol=1e-10)


class TwoOutputs(Function):
    """Takes an upstream gradient of zeros for granted."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, first, second):
        (x,) = ctx.saved_tensors
        if first is None:
            return None
        return first * x.cos() - (0 if second is None else second * x.sin())


def test_undefined_gradients_are_checked_unless_they_are_not():
    with pytest.raises(GradcheckError, match="one output alone"):
        tg.gradcheck(TwoOutputs.apply, normal(3))
    assert tg.gradcheck(TwoOutputs.apply, normal(3), check_undefined_grad=False)


@pytest.mark.slow
def test_dtypes_are_checked_where_it_is_asked_for():
    """The engine converts a gradient; that of a product with 2 has lost nothing."""
    narrow = function(lambda grad, x: (2 * grad).float(), lambda x: 2 * x)
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(GradcheckError) as error:
        tg.gradcheck(narrow, x, check_grad_dtypes=True)
    assert "gradient-dtype" in {finding.code for finding in error.value.report.findings}
    assert tg.gradcheck(narrow, x)  # A tolerance excuses digits that are lost.


def test_forward_mode_is_checked_where_it_is_asked_for():
    def jvp(ctx, tangent):
        return 2 * tangent

    wrong = function(lambda grad, x: grad * x.cos(), jvp=jvp)
    assert tg.gradcheck(wrong, normal(3))
    with pytest.raises(GradcheckError, match="tangent of the output is wrong"):
        tg.gradcheck(wrong, normal(3), check_forward_ad=True)
    with pytest.raises(GradcheckError, match="tangent of the output is wrong"):
        tg.gradcheck(wrong, normal(3), check_forward_ad=True, check_backward_ad=False)


def test_what_was_asked_for_must_not_be_refused():
    with pytest.raises(GradcheckError, match=r"(?s)was asked for.*jvp"):
        tg.gradcheck(right, normal(3), check_forward_ad=True)


def test_batched_gradients_are_checked_where_it_is_asked_for():
    def by_numbers(grad, x):
        return torch.tensor(grad.tolist(), dtype=x.dtype) * x.cos()

    func = function(by_numbers)
    assert tg.gradcheck(func, normal(3))
    with pytest.raises(GradcheckError, match="The target does not do what was asked for"):
        tg.gradcheck(func, normal(3), check_batched_grad=True)


# -- the second order -------------------------------------------------------------------------------------------------


def saving_an_intermediate():
    class Swish(Function):
        @staticmethod
        def forward(ctx, x):
            gate = torch.sigmoid(x)
            ctx.save_for_backward(x, gate)
            return x * gate

        @staticmethod
        def backward(ctx, grad):
            x, gate = ctx.saved_tensors
            return grad * gate * (1 + x * (1 - gate))

    return Swish.apply


@pytest.mark.slow
def test_a_lost_second_derivative_is_found():
    swish = saving_an_intermediate()
    assert tg.gradcheck(swish, normal(3))
    with pytest.raises(GradcheckError, match="second derivative"):
        tg.gradgradcheck(swish, normal(3))
    assert not tg.gradgradcheck(swish, normal(3), raise_exception=False)


def test_a_second_derivative_lost_for_one_input_is_found():
    """gradgradcheck of torch drops gradients that need none."""

    class Product(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * x * y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * 2 * x * y, (grad * x * x).detach()

    inputs = normal(3), normal(3, seed=1)
    assert torch.autograd.gradgradcheck(Product.apply, inputs)
    with pytest.raises(GradcheckError):
        tg.gradgradcheck(Product.apply, inputs)


def test_a_refused_second_derivative_does_not_pass():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0].cos()

    assert tg.gradcheck(Once.apply, normal(3))
    with pytest.raises(GradcheckError, match="once_differentiable"):
        tg.gradgradcheck(Once.apply, normal(3))


# -- wrong use --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inputs", [torch.ones(3), (2.0,), ()], ids=["a tensor", "a number", "nothing"])
def test_something_must_require_grad(inputs):
    def func(*given):
        return torch.ones(3)

    messages = []
    for check in (torch.autograd.gradcheck, tg.gradcheck, tg.gradgradcheck):
        with pytest.raises(ValueError, match="them have requires_grad=True") as error:
            check(func, inputs)
        messages.append(str(error.value).replace("none of the them", "none of them"))  # as before torch 2.13
    assert len(set(messages)) == 1


@pytest.mark.parametrize("options", [{}, {"raise_exception": False}])
def test_what_the_function_raises_is_its_own(options):
    def broken(x):
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        tg.gradcheck(broken, normal(3), **options)


@pytest.mark.parametrize(
    ("func", "said"),
    [
        (lambda x: 2 * x.detach(), "no output requires grad"),
        (lambda x: x.argmax(), "no output is a floating-point or complex tensor"),
        (lambda x: x * math.nan, "no element of the outputs is finite"),
        (lambda x: (x.sin(), x.detach().cos()), "does not require grad, but changes"),
    ],
)
def test_what_cannot_be_told_does_not_pass(func, said):
    with pytest.raises(GradcheckError, match=said):
        tg.gradcheck(func, normal(3))
    assert tg.gradcheck(func, normal(3), raise_exception=False) is False


def test_inputs_are_left_as_they_were():
    x, y = normal(3), normal(3, seed=1)
    before = x.detach().clone(), y.detach().clone()
    tg.gradcheck(torch.mul, (x, y))
    assert (x.grad, y.grad) == (None, None)
    assert torch.equal(x, before[0])
    assert torch.equal(y, before[1])
