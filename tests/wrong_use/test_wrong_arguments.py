"""Calls with arguments that do not fit: every error names operator, argument, expected and got, on every path."""

import warnings

import numpy as np
import pytest
import torch
from jaxtyping import Bool, Float, Int64, Real, UInt8
from torch import Tensor

import torchgraft as tg
from examples.linear import linear


@tg.op
def window(
    x: Float[Tensor, "h"], k: Float[Tensor, "kh"], scale: float = 1.0, times: int = 1
) -> Float[Tensor, "h-kh+1"]:
    return x.unfold(0, k.numel(), 1) @ k * scale * times


window.vjp("x")(lambda grad, k, x: torch.zeros_like(x))


@tg.op
def numpy_double(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return 2 * x


def _plain(call, *tensors):
    return call(*tensors)


def _recording(call, *tensors):
    return call(*[t.requires_grad_() if t.is_floating_point() else t for t in tensors])


def _transform(call, *tensors):
    return torch.func.vjp(lambda x: call(x, *tensors[1:]), tensors[0])[0]


PATHS = pytest.mark.parametrize("path", [_plain, _recording, _transform])
ones = torch.ones


# -- shapes --------------------------------------------------------------------------------------------------
@PATHS
@pytest.mark.parametrize(
    ("shapes", "argument", "problem", "expected", "got"),
    [
        (((), (3, 4), (3,)), "input", "has 0 axes", "at least 1 axes, '*batch n'", "shape ()"),
        (((2, 4), (4,), (3,)), "weight", "has 1 axes", "2 axes, 'm n'", "shape (4,)"),
        (((2, 4), (3, 4), (1, 3)), "bias", "has 2 axes", "1 axes, 'm'", "shape (1, 3)"),
        (
            ((2, 4), (3, 5), (3,)), "weight", "axis n = 4 from input (2, 4), but weight has 5",
            "n = 4", "5 in weight (3, 5), annotated 'm n'",
        ),
        (
            ((2, 4), (3, 4), (5,)), "bias", "axis m = 3 from weight (3, 4), but bias has 5",
            "m = 3", "5 in bias (5,), annotated 'm'",
        ),
    ],
)  # fmt: skip
def test_shapes(path, shapes, argument, problem, expected, got):
    with pytest.raises(tg.ShapeError) as caught:
        path(linear, *map(ones, shapes))
    error = caught.value
    assert (error.operator, error.argument, error.problem) == ("linear", argument, problem)
    assert (error.expected, error.got) == (expected, got)
    assert isinstance(error, ValueError)
    assert str(error).startswith(f"operator 'linear' argument '{argument}': {problem}\n")


@PATHS
def test_a_shape_that_fitted_before_does_not_hide_one_that_does_not(path):
    path(linear, ones(2, 4), ones(3, 4), ones(3))
    with pytest.raises(tg.ShapeError, match="but bias has 5"):
        path(linear, ones(2, 4), ones(3, 4), ones(5))
    assert path(linear, ones(2, 4), ones(3, 4), ones(3)).shape == (2, 3)


@PATHS
def test_a_computed_axis_below_zero(path):
    with pytest.raises(tg.ShapeError, match=r"axis h-kh\+1 = -1 is negative") as caught:
        path(window, ones(3), ones(5))
    error = caught.value
    assert (error.operator, error.argument, error.expected) == ("window", "out", "h-kh+1 >= 0")
    assert error.got == "h = 3 from x (3,), kh = 5 from k (5,)"


# -- dtypes, devices -----------------------------------------------------------------------------------------
@PATHS
@pytest.mark.parametrize("position", [1, 2])
def test_mixed_dtypes(path, position):
    tensors = [ones(2, 4), ones(3, 4), ones(3)]
    tensors[position] = tensors[position].double()
    name = ["input", "weight", "bias"][position]
    with pytest.raises(tg.DtypeError, match=f"mixed dtypes: input is float32, but {name} is float64") as caught:
        path(linear, *tensors)
    error = caught.value
    assert (error.operator, error.argument, error.expected, error.got) == ("linear", name, "float32", "float64")


@PATHS
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("position", [1, 2])
def test_dtypes_that_are_not_admitted(path, dtype, position):
    tensors = [ones(2, 4), ones(3, 4), ones(3)]
    tensors[position] = tensors[position].to(dtype)
    name = ["input", "weight", "bias"][position]
    with pytest.raises(tg.DtypeError, match=f"argument '{name}': has dtype {str(dtype)[6:]}") as caught:
        path(linear, *tensors)
    assert caught.value.expected == "Float (bfloat16, float16, float32, float64)"
    assert "annotate with" in caught.value.hint


def test_devices_that_differ():
    with pytest.raises(tg.DeviceError, match="is on meta, but input is on cpu") as caught:
        linear(ones(2, 4), ones(3, 4, device="meta"), ones(3))
    assert (caught.value.argument, caught.value.expected, caught.value.got) == ("weight", "cpu", "meta")


def test_meta_tensors_tell_shapes():
    out = numpy_double(ones(3, device="meta"))
    assert (out.shape, out.device.type, out.dtype) == ((3,), "meta", torch.float32)
    assert linear(ones(2, 4, device="meta"), ones(3, 4, device="meta")).shape == (2, 3)
    with pytest.raises(tg.ShapeError, match="axis n = 4"):
        linear(ones(2, 4, device="meta"), ones(3, 5, device="meta"))


# -- types ---------------------------------------------------------------------------------------------------
@PATHS
@pytest.mark.parametrize(("position", "name", "kind"), [(2, "scale", "float"), (3, "times", "int")])
def test_a_tensor_for_a_number(path, position, name, kind):
    rest = [1.0, 1][: position - 2]
    with pytest.raises(tg.ArgumentError, match="has the wrong type") as caught:
        path(lambda x, k: window(x, k, *rest, torch.tensor(2.0)), ones(4), ones(2))
    error = caught.value
    assert (error.operator, error.argument, error.expected) == ("window", name, kind)
    assert error.got == "a Tensor of shape ()"
    assert "pass a Python number" in error.hint


def test_a_tensor_for_a_number_after_a_good_call():
    window(ones(4), ones(2), 2.0)
    with pytest.raises(tg.ArgumentError, match="argument 'scale'"):
        window(ones(4), ones(2), torch.tensor(2.0))
    assert window(ones(4), ones(2), np.float32(2)).tolist() == [4, 4, 4]


def test_a_tensor_for_a_number_where_it_is_traced():
    def under_transform(scale):
        return window(ones(4), ones(2), scale).sum()

    with pytest.raises(tg.ArgumentError, match="argument 'scale': has the wrong type"):
        torch.func.grad(under_transform)(torch.tensor(2.0))
    with pytest.raises(tg.ArgumentError, match="argument 'scale': has the wrong type"):
        torch.vmap(under_transform)(ones(3))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_tensor_for_a_number_under_compile():
    compiled = torch.compile(lambda x, k, s: window(x, k, s), backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match="scale") as caught:
        compiled(ones(4), ones(2), torch.tensor(2.0))
    assert not isinstance(caught.value, AssertionError)
    assert "has the wrong type" in str(caught.value)


@PATHS
@pytest.mark.parametrize("tree", [{"weight": ones(3, 4)}, (ones(3, 4),), [ones(3, 4)], np.ones((3, 4)), 2.0, None])
def test_something_else_for_a_tensor(path, tree):
    with pytest.raises(tg.ArgumentError, match="argument 'weight': is not a tensor") as caught:
        path(lambda x: linear(x, tree), ones(2, 4))
    assert caught.value.expected == 'Float[Tensor, "m n"]'
    assert caught.value.got.startswith(type(tree).__name__)


@pytest.mark.parametrize(
    ("annotation", "number"),
    [
        (Int64, 0.5), (Int64, 1j), (Int64, float("nan")), (Int64, 2**63), (UInt8, -1), (UInt8, 256), (Bool, 2),
        (Float, 1e300), (Float, 2**2000),
    ],
)  # fmt: skip
def test_a_number_that_a_dtype_does_not_hold(annotation, number):
    """Torch would cut it off, or raise without the operator's name."""

    @tg.op
    def product(x: Float[Tensor, "..."], y: annotation[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x * y

    with pytest.raises(tg.ArgumentError, match="product' argument 'y'"):
        product(torch.ones(2), number)


def test_numbers_that_a_dtype_holds():
    @tg.op
    def power(x: Float[Tensor, "..."], n: Int64[Tensor, "..."], y: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x**n * y

    x = torch.tensor([2.0, 3.0])
    assert power(x, 2, 2**70).equal(x**2 * 2.0**70)
    assert power(x, -1, float("inf")).isinf().all()


def test_python_checks_the_number_of_arguments():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'weight'"):
        linear(ones(4))
    with pytest.raises(TypeError, match="unexpected keyword argument 'wieght'"):
        linear(ones(4), wieght=ones(3, 4))


@PATHS
def test_sparse(path):
    with pytest.raises(tg.UnsupportedError, match="is a tensor of layout sparse_coo") as caught:
        path(lambda x: linear(x, ones(3, 4).to_sparse()), ones(2, 4))
    assert (caught.value.operator, caught.value.argument, caught.value.hint) == (
        "linear",
        "weight",
        "pass x.to_dense()",
    )


def test_a_sparse_tensor_that_needs_a_gradient():
    with pytest.raises(tg.UnsupportedError, match="layout sparse_coo"):
        linear(ones(2, 4), ones(3, 4).to_sparse().requires_grad_())


# -- Real promotes -------------------------------------------------------------------------------------------
@tg.op
def ratio(x: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    return x / y


ratio.partial("x")(lambda y: 1 / y)
ratio.partial("y")(lambda x, y: -x / y**2)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (torch.int64, torch.int64, torch.float64),
        (torch.int64, torch.float32, torch.float64),
        (torch.float32, torch.int16, torch.float32),
        (torch.float32, torch.float64, torch.float64),
    ],
)
def test_real_promotes_as_numpy_does(left, right, result):
    x, y = torch.tensor([1, 2], dtype=left), torch.tensor([4], dtype=right)
    for call in (ratio, torch.vmap(ratio, in_dims=(0, None))):
        out = call(x, y)
        assert out.dtype is result
        assert out.flatten().tolist() == [0.25, 0.5]


def test_gradients_come_back_in_the_inputs_dtype():
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([4], dtype=torch.int64)
    ratio(x, y).sum().backward()
    assert x.grad.dtype is torch.float32
    assert x.grad.tolist() == [0.25, 0.25]


# -- what PyTorch would do in silence ------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("called_before", [False, True])
def test_jit_trace(shape, called_before):
    @tg.op
    def traced(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x + 1

    if called_before:
        traced(ones(shape))
    warnings.simplefilter("ignore", (DeprecationWarning, FutureWarning))  # torch's own, about torch.jit
    with pytest.raises(tg.UnsupportedError, match=r"torch\.jit\.trace would record") as caught:
        torch.jit.trace(lambda x: traced(x), (ones(shape),))
    assert (caught.value.operator, caught.value.expected) == ("traced", "torch.export.export or torch.compile")


def test_integers_are_no_place_for_a_gradient():
    @tg.op
    def take(x: Float[Tensor, "n"], index: Int64[Tensor, "k"]) -> Float[Tensor, "k"]:
        return x[index]

    with pytest.raises(tg.DeclarationError, match="is not differentiable") as caught:
        take.vjp("index")(lambda grad: grad)
    assert (caught.value.operator, caught.value.argument) == ("take.vjp[index]", "index")
