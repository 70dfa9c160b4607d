"""Kernels that break their promise: found on the first call and on later ones, with and without a gradient."""

import types

import numpy as np
import pytest
import torch
from jaxtyping import Complex, Float, Int64
from torch import Tensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import torchgraft as tg

F = Float[Tensor, "n"]
A = Float[np.ndarray, "n"]


def _torch(body, *, loop=False):
    def kernel(x: F, y: F) -> F:
        return body(x, y)

    return _made(kernel, loop)


def _numpy(body, *, loop=False):
    def kernel(x: A, y: A) -> A:
        return body(x, y)

    return _made(kernel, loop)


def _made(kernel, loop):
    operator = tg.op(kernel) if not loop else tg.op(batch="loop")(kernel)
    operator.vjp("x", "y")(lambda grad: (grad, grad))
    return operator


def _tensors(path, shape=(3,)):
    return [torch.arange(1.0, 4.0).expand(shape).clone().requires_grad_(path == "grad") for _ in "xy"]


def _through(path, operator, *tensors):
    if path == "vmap":
        return torch.vmap(operator)(*[torch.stack([t, t]) for t in tensors])
    if path == "dispatcher":
        return operator.torch_op(*tensors)
    return operator(*tensors)


PATHS = pytest.mark.parametrize("path", ["plain", "grad", "vmap", "dispatcher"])
WRONG = {
    "shape": (lambda x, y: x[:2] + 1, "another shape", "(3,)", "(2,)"),
    "rank": (lambda x, y: (x + y)[None], "another shape", "(3,)", "(1, 3)"),
    "None": (lambda x, y: None, "returned NoneType", "", "NoneType"),
    "tuple": (lambda x, y: (x, y), "returned tuple", "", "tuple"),
    "str": (lambda x, y: "text", "returned str", "", "str"),
}


@PATHS
@pytest.mark.parametrize("make", [_torch, _numpy])
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_returns(path, make, wrong):
    body, problem, expected, got = WRONG[wrong]
    operator = make(body)
    for _ in range(2):
        with pytest.raises(tg.KernelError, match=problem if path != "vmap" else "returned") as caught:
            _through(path, operator, *_tensors(path))
        error = caught.value
        assert (error.operator, error.argument) == ("kernel", "out")
        if path != "vmap":
            assert expected in str(error.expected)
            assert got in str(error.got)


@PATHS
@pytest.mark.parametrize("make", [_torch, _numpy])
def test_a_wrong_dtype(path, make):
    operator = make(lambda x, y: x.double() if isinstance(x, Tensor) else x.astype(np.float64))
    with pytest.raises(tg.KernelError, match=r"another (shape or )?dtype") as caught:
        _through(path, operator, *_tensors(path))
    error = caught.value
    assert error.argument == "out"
    assert "float64" in error.got
    assert "float32" in error.expected


@PATHS
@pytest.mark.parametrize("make", [_torch, _numpy])
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_returns_on_a_later_call(path, make, wrong):
    body, problem, *_ = WRONG[wrong]
    calls = []

    def sometimes(x, y):
        calls.append(1)
        return x + y if len(calls) < 3 else body(x, y)

    operator = make(sometimes)
    tensors = _tensors(path)

    def call_again_and_again():
        for _ in range(5):
            out = _through(path, operator, *tensors)
            assert out.flatten()[:3].tolist() == [2, 4, 6]

    with pytest.raises(tg.KernelError, match=problem if path != "vmap" else "returned"):
        call_again_and_again()


@pytest.mark.parametrize("path", ["plain", "grad"])
@pytest.mark.parametrize("make", [_torch, _numpy])
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_returns_for_one_sample(path, make, wrong):
    body, *_ = WRONG[wrong]
    operator = make(lambda x, y: body(x, y), loop=True)
    with pytest.raises(tg.KernelError) as caught:
        operator(*_tensors(path, (2, 3)))
    assert (caught.value.operator, caught.value.argument) == ("kernel", "out")


@pytest.mark.parametrize("path", ["plain", "grad"])
@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize(
    ("result", "got"),
    [(lambda x: (x + 1,), 1), (lambda x: (x, x, x), 3), (lambda x: x, "one"), (lambda x: None, "one NoneType")],
    ids=["one", "three", "bare", "None"],
)  # fmt: skip
def test_the_wrong_number_of_outputs(path, array, result, got):
    kind = A if array else F

    def pair(x: kind) -> tuple[kind, kind]:
        return result(x)

    operator = tg.op(pair)
    operator.vjp("x")(lambda grad_out0, grad_out1: grad_out0 + grad_out1)
    for _ in range(2):
        with pytest.raises(tg.KernelError, match="wrong number of outputs") as caught:
            operator(_tensors(path)[0])
        assert caught.value.expected == "2: out0, out1"
        assert str(caught.value.got).startswith(str(got))


def test_a_float_for_an_integer_output():
    for kind, loop in [(np.ndarray, None), (np.ndarray, "loop")]:

        @tg.op(batch=loop)
        def count(x: Float[kind, "n"]) -> Int64[kind, ""]:
            return 2.7

        with pytest.raises(tg.KernelError) as caught:
            count(torch.ones(2, 3) if loop else torch.ones(3))
        assert caught.value.operator == "count"


def test_python_numbers_are_zero_dimensional_outputs():
    for loop in (None, "loop"):

        @tg.op(batch=loop)
        def total(x: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, ""], Int64[np.ndarray, ""]]:
            return float(x.sum()), len(x)

        value, length = total(torch.ones(3))
        assert (value.item(), value.dtype, length.item(), length.dtype) == (3.0, torch.float32, 3, torch.int64)


# -- side effects --------------------------------------------------------------------------------------------
@PATHS
@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("call", [1, 3])
def test_a_torch_kernel_that_writes_into_its_input(path, name, call):
    calls = []

    def body(x, y):
        calls.append(1)
        if len(calls) == call:
            {"x": x, "y": y}[name].add_(1)
        return x + y

    operator = _torch(body)
    tensors = _tensors(path)

    def call_again_and_again():
        for _ in range(4):
            _through(path, operator, *tensors)

    with pytest.raises(tg.KernelError, match="wrote into its input") as caught:
        call_again_and_again()
    error = caught.value
    assert (error.operator, error.argument) == ("kernel", name)
    assert "work on a copy" in error.hint


@PATHS
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("name", ["x", "y"])
def test_a_numpy_kernel_that_writes_into_its_input(path, loop, name):
    def body(x, y):
        {"x": x, "y": y}[name][0] = 7
        return x + y

    operator = _numpy(body, loop=loop)
    tensors = _tensors(path)
    with pytest.raises(tg.KernelError, match="wrote into its input") as caught:
        _through(path, operator, *tensors)
    assert caught.value.argument == "x or y"
    assert tensors[0].tolist() == tensors[1].tolist() == [1, 2, 3]


def test_other_value_errors_stay_the_kernels_own():
    def body(x, y):
        raise ValueError("my own words")

    for make in (_torch, _numpy):
        with pytest.raises(ValueError, match="my own words"):
            make(body)(*_tensors("plain"))


# -- aliasing ------------------------------------------------------------------------------------------------
VIEWS = {
    "input": lambda x, y: x,
    "second input": lambda x, y: y,
    "slice": lambda x, y: x[:],
    "flipped": lambda x, y: x.flip(0) if isinstance(x, Tensor) else x[::-1],
    "reshaped": lambda x, y: x.reshape(1, -1).reshape(-1),
}


@PATHS
@pytest.mark.parametrize("make", [_torch, _numpy])
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_a_kernel_that_returns_its_input_is_copied(path, make, loop, view):
    operator = make(VIEWS[view], loop=loop)
    tensors = _tensors(path, (2, 3) if loop else (3,))
    before = [t.tolist() for t in tensors]
    for _ in range(3):
        out = _through(path, operator, *tensors)
        assert out.is_contiguous()
        with torch.no_grad():
            out.fill_(7)
        assert [t.tolist() for t in tensors] == before


@pytest.mark.parametrize("path", ["plain", "grad", "dispatcher"])
@pytest.mark.parametrize("make", [_torch, _numpy])
def test_a_kernel_that_returns_its_input_on_a_later_call(path, make):
    calls = []

    def body(x, y):
        calls.append(1)
        return x + 0 if len(calls) < 4 else x

    operator = make(body)
    tensors = _tensors(path)
    for _ in range(6):
        out = _through(path, operator, *tensors)
        assert out.tolist() == [1, 2, 3]
        with torch.no_grad():
            out.fill_(7)
        assert tensors[0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", [F, A])
@pytest.mark.parametrize("later", [False, True])
def test_outputs_do_not_share_memory_with_each_other(kind, later):
    calls = []

    def twice(x: kind) -> tuple[kind, kind]:
        calls.append(1)
        out = x + 1
        return (out, out) if not later or len(calls) > 2 else (out, out + 0)

    operator = tg.op(twice)
    for _ in range(4):
        first, second = operator(torch.ones(3))
        first.fill_(7)
        assert second.tolist() == [2, 2, 2]


def test_a_view_passes_through_autograd():
    operator = _torch(lambda x, y: x.view(-1))
    x, y = _tensors("grad")
    out = operator(x, y)
    assert not out._is_view()
    out.sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


# -- captured tensors ----------------------------------------------------------------------------------------
WEIGHT = torch.ones(3, requires_grad=True)
LAYER = torch.nn.Linear(3, 3)
HIDDEN = {"weight": WEIGHT}
CONSTANTS = types.SimpleNamespace(WEIGHT=torch.full((3,), 2.0))


def _closure():
    weight = torch.ones(3, requires_grad=True)
    return lambda x, y: x * weight


def _helper(x):
    return x * WEIGHT


def _closure_over_module():
    layer = torch.nn.Linear(3, 3)
    return lambda x, y: layer(x)


CAPTURES = {
    "closure": (_closure, "weight"),
    "global": (lambda: lambda x, y: x * WEIGHT, "WEIGHT"),
    "module": (lambda: lambda x, y: LAYER(x), "LAYER.weight"),
    "closure over a module": (_closure_over_module, "layer.weight"),
    "helper": (lambda: lambda x, y: _helper(x), "WEIGHT"),
}


@PATHS
@pytest.mark.parametrize("capture", CAPTURES)
def test_captured_tensors(path, capture):
    make_body, name = CAPTURES[capture]
    operator = _torch(make_body())
    for _ in range(2):
        with pytest.raises(tg.KernelError, match="uses a tensor that requires grad") as caught:
            _through(path, operator, *_tensors(path))
        error = caught.value
        assert error.operator == "kernel"
        assert name in error.got
        assert "make it an argument" in error.hint


@pytest.mark.parametrize("path", ["plain", "grad"])
def test_a_tensor_captured_where_nobody_can_see_it(path):
    operator = _torch(lambda x, y: x * HIDDEN["weight"])
    with pytest.raises(tg.KernelError, match="uses a tensor that requires grad") as caught:
        operator(*_tensors(path))
    assert caught.value.argument == "out"


def _dual(function, at):
    with forward_ad.dual_level():
        return function(forward_ad.make_dual(at, at))


SURROUNDINGS = {
    "grad": lambda f, at: torch.func.grad(lambda w: f(w).sum())(at),
    "jvp": lambda f, at: torch.func.jvp(f, (at,), (at,)),
    "dual level": _dual,
    "vmap": lambda f, at: torch.vmap(f)(at[None]),
    "vmap of others": lambda f, at: (lambda w: torch.vmap(lambda x: f(w, x))(at[None]))(at.clone().requires_grad_()),
    "a traced graph": lambda f, at: (lambda w: make_fx(lambda x: f(w, x), tracing_mode="fake")(at)(at))(
        at.clone().requires_grad_()
    ),
}


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
@pytest.mark.parametrize("adopted", [False, True], ids=["op", "adopted"])
def test_a_tensor_captured_under_a_transform(surroundings, adopted):
    """The kernel runs below autograd and all transforms, where its result shows nothing of the captured tensor."""
    held = {}
    bare = type("Bare", (torch.autograd.Function,), {
        "forward": staticmethod(lambda ctx, x: x * held["w"]), "backward": staticmethod(lambda ctx, g: g * held["w"]),
    })  # fmt: skip

    def body(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * held["w"]

    if adopted:
        operator = tg.adopt(bare)(body)
    else:
        operator = tg.op(body)
        operator.vjp("x")(lambda grad: grad)

    def call(w, x=torch.arange(3.0)):  # noqa: B008 - one that requires no grad, and is not seen by transforms
        held["w"] = w
        return operator(x)

    with pytest.raises(tg.KernelError, match=r"operator 'body'.*uses a tensor that requires grad"):
        SURROUNDINGS[surroundings](call, torch.ones(3))


def test_a_kernel_may_use_derivatives_of_its_own():
    @tg.op
    def slope(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return torch.func.grad(lambda y: (y**3).sum())(x)

    slope.vjp("x")(lambda grad, x: 6 * x * grad)
    x = torch.arange(3.0)
    assert torch.vmap(torch.func.grad(lambda x: slope(x).sum()))(x[None]).equal(6 * x[None])


@PATHS
def test_captured_constants_are_fine(path):
    constant = torch.full((3,), 2.0)
    operator = _torch(lambda x, y: x * constant)
    assert _through(path, operator, *_tensors(path)).flatten()[:3].tolist() == [2, 4, 6]


@PATHS
def test_an_attribute_with_the_name_of_a_captured_tensor_is_fine(path):
    operator = _torch(lambda x, y: x * CONSTANTS.WEIGHT)
    assert _through(path, operator, *_tensors(path)).flatten()[:3].tolist() == [2, 4, 6]


@pytest.mark.parametrize("path", ["plain", "grad"])
def test_kernels_run_without_grad_mode(path):
    seen = []

    def body(x, y):
        seen.append(torch.is_grad_enabled())
        return x + y

    operator = _torch(body)
    for _ in range(3):
        operator(*_tensors(path))
    assert seen[1:] == [False, False]


def test_a_list_in_the_place_of_an_array():
    with pytest.raises(tg.KernelError, match="returned list") as raised:
        _numpy(lambda x, y: [1.0] * len(x))(*_tensors(None))
    assert raised.value.hint == "return np.asarray(...)"


@pytest.mark.parametrize(
    "given", [lambda x: (x,), lambda x: 3, lambda x: [tuple(x)]], ids=["in a tuple", "a number", "in a list"]
)
def test_a_shape_rule_that_gives_no_shape(given):
    @tg.op
    def double(x: Tensor) -> Tensor:
        return 2 * x

    double.shape(lambda x: given(x))
    with pytest.raises(tg.ShapeError, match="the shape rule gave no shape for 'out'") as raised:
        double(torch.ones(3))
    assert "tuple of sizes" in raised.value.expected


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_a_complex_dtype_that_is_not_admitted():
    @tg.op
    def conjugated(z: Complex[Tensor, "n"]) -> Complex[Tensor, "n"]:
        return z.conj()

    with pytest.raises(tg.DtypeError) as raised:
        conjugated(torch.zeros(2, dtype=torch.complex32))
    assert raised.value.hint == "pass z.to(torch.complex64)"
