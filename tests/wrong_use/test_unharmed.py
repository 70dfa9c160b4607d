"""Unusual tensors that must pass through unharmed: NaN, views, empty and fake ones."""

import math

import numpy as np
import pytest
import torch
from jaxtyping import Complex, Float, Inexact, Int64
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import torchgraft as tg

KINDS = pytest.mark.parametrize("kind", [Tensor, np.ndarray])
LOOPS = pytest.mark.parametrize("loop", [False, True])


def make_scale(kind, loop=False):
    axes = "n" if loop else "*batch n"

    @tg.op(batch="loop" if loop else None)
    def scale(x: Inexact[kind, axes], y: Inexact[kind, axes]) -> Inexact[kind, axes]:
        return x * y

    if kind is Tensor:
        scale.vjp("x")(lambda grad, y: grad * y.conj())
        scale.vjp("y")(lambda grad, x: grad * x.conj())
        return scale

    def rule_x(grad: np.ndarray, y):
        return grad * y.conj()

    def rule_y(grad: np.ndarray, x):
        return grad * x.conj()

    scale.vjp("x")(rule_x)
    scale.vjp("y")(rule_y)
    return scale


def _gradients(function, *tensors):
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    out = function(*leaves)
    weights = torch.linspace(1, 2, out.numel(), dtype=torch.float64).reshape(out.shape).to(out.dtype)
    out.backward(weights)
    return out.detach(), [leaf.grad for leaf in leaves]


def same(operator, views, *tensors):
    """Values and gradients of the operator on views are those of plain multiplication."""
    mine = _gradients(lambda *t: operator(*views(*t)), *tensors)
    reference = _gradients(lambda *t: torch.mul(*views(*t)), *tensors)
    for left, right in zip([mine[0], *mine[1]], [reference[0], *reference[1]], strict=True):
        torch.testing.assert_close(left, right, equal_nan=True)


# -- NaN and infinity ----------------------------------------------------------------------------------------
@KINDS
@LOOPS
def test_nan_and_infinity(kind, loop):
    operator = make_scale(kind, loop)
    x = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    y = torch.tensor([1.0, 2.0, 3.0, math.nan])
    for _ in range(3):
        torch.testing.assert_close(operator(x, y), x * y, equal_nan=True)
    same(operator, lambda a, b: (a, b), x, y)


# -- views ---------------------------------------------------------------------------------------------------
VIEWS = {
    "conjugate": lambda x, y: (x.conj(), y.conj()),
    "conjugate second": lambda x, y: (x, y.conj()),
    "negative": lambda x, y: (x.conj().imag, y.imag),
    "real": lambda x, y: (x.real, y.imag),
    "transposed": lambda x, y: (x.mT, y.mT),
    "flipped": lambda x, y: (x.flip(0), y.flip(1)),
    "strided": lambda x, y: (x[:, ::2], y[:, 1::2]),
    "expanded": lambda x, y: (x[:1].expand(4, 4), y[:, :1].expand(4, 4)),
}


@KINDS
@LOOPS
@pytest.mark.parametrize("view", VIEWS)
def test_views(kind, loop, view):
    torch.manual_seed(0)
    x, y = torch.randn(2, 4, 4, dtype=torch.complex128)
    operator = make_scale(kind, loop)
    for _ in range(2):
        same(operator, VIEWS[view], x, y)
        torch.testing.assert_close(operator(*VIEWS[view](x, y)), torch.mul(*VIEWS[view](x, y)))


@pytest.mark.parametrize("view", ["conjugate", "negative"])
def test_a_view_after_a_plain_tensor_of_the_same_looks(view):
    operator = make_scale(np.ndarray)
    x, y = torch.randn(2, 4, 4, dtype=torch.complex128)
    plain = [t.resolve_conj().resolve_neg().clone() for t in VIEWS[view](x, y)]
    torch.testing.assert_close(operator(*plain), torch.mul(*plain))
    torch.testing.assert_close(operator(*VIEWS[view](x, y)), torch.mul(*VIEWS[view](x, y)))


def test_a_complex_output_of_a_real_input():
    @tg.op
    def rotate(x: Float[np.ndarray, "n"]) -> Complex[np.ndarray, "n"]:
        return x * np.array(1j, dtype=np.result_type(x.dtype, np.complex64))

    rotate.vjp("x")(lambda grad: (grad * -1j).real)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    out = rotate(x)
    assert out.dtype is torch.complex64
    out.imag.sum().backward()
    assert x.grad.tolist() == [1, 1]


# -- empty and zero-dimensional ------------------------------------------------------------------------------
@KINDS
@LOOPS
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 3), (0, 0)])
def test_empty_tensors(kind, loop, shape):
    operator = make_scale(kind, loop)
    for _ in range(2):
        assert operator(torch.ones(shape), torch.ones(shape)).shape == shape
        same(operator, lambda x, y: (x, y), torch.ones(shape), torch.ones(shape))
    assert torch.vmap(operator)(torch.ones(2, *shape), torch.ones(2, *shape)).shape == (2, *shape)


@KINDS
def test_an_empty_batch_sums_to_zero_gradients(kind):
    operator = make_scale(kind, loop=True)
    same(operator, lambda x, y: (x, y), torch.ones(0, 3), torch.ones(3))
    same(operator, lambda x, y: (x, y), torch.ones(0, 1, 3), torch.ones(4, 3))


@KINDS
@LOOPS
@pytest.mark.parametrize("batch", [(), (2,), (0,), (2, 3)])
def test_zero_dimensional_samples(kind, loop, batch):
    seen = []
    axes = "" if loop else "..."

    @tg.op(batch="loop" if loop else None)
    def negate(x: Float[kind, axes]) -> Float[kind, axes]:
        seen.append(isinstance(x, kind))
        return -x

    negate.vjp("x")(lambda grad: -grad)
    x = torch.full(batch, 2.0, requires_grad=True)
    out = negate(x)
    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    assert (out == -2).all()
    out.sum().backward()
    assert (x.grad == -1).all()
    assert all(seen)


# -- half precision, inference tensors -----------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@LOOPS
def test_numpy_computes_half_precision_in_float32(dtype, loop):
    x, y = torch.tensor([1.0, 2.0], dtype=dtype), torch.tensor([0.5, 3.0], dtype=dtype)
    operator = make_scale(np.ndarray, loop)
    assert operator(x, y).dtype is dtype
    same(operator, lambda a, b: (a, b), x, y)
    same(operator, lambda a, b: (a, b), torch.stack([x, x]), torch.stack([y, y]))


@KINDS
def test_inference_tensors(kind):
    operator = make_scale(kind)
    with torch.inference_mode():
        x = torch.ones(3)
        assert operator(x, 2 * x).tolist() == [2, 2, 2]
    assert operator(x, 2 * torch.ones(3)).tolist() == [2, 2, 2]
    assert operator(torch.ones(3), torch.ones(3)).tolist() == [1, 1, 1]


# -- fake tensors --------------------------------------------------------------------------------------------
@KINDS
@LOOPS
def test_fake_tensors_give_fake_tensors(kind, loop):
    operator = make_scale(kind, loop)
    operator(torch.ones(2, 3), torch.ones(2, 3))
    with FakeTensorMode() as mode:
        x = torch.ones(2, 3)
        out = operator(x, x)
    assert isinstance(out, FakeTensor)
    assert (out.shape, out.dtype, out.device.type) == ((2, 3), torch.float32, "cpu")
    assert isinstance(operator(x, x), FakeTensor)
    fake = mode.from_tensor(torch.ones(2, 3, requires_grad=True))
    with mode:
        (gradient,) = torch.autograd.grad(operator(fake, fake).sum(), fake)
    assert isinstance(gradient, FakeTensor)
    assert gradient.shape == (2, 3)


@KINDS
def test_real_tensors_in_a_fake_mode(kind):
    operator = make_scale(kind)
    x = torch.ones(3)
    with FakeTensorMode(), pytest.raises(AssertionError, match="convert all Tensors to FakeTensors first"):
        operator(x, x)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert isinstance(operator(x, x), FakeTensor)


@KINDS
@LOOPS
def test_meta_tensors(kind, loop):
    operator = make_scale(kind, loop)
    x = torch.ones(2, 3, device="meta", requires_grad=True)
    out = operator(x, x)
    assert (out.device.type, out.shape) == ("meta", (2, 3))
    out.sum().backward()
    assert (x.grad.device.type, x.grad.shape) == ("meta", (2, 3))


def test_default_device_does_not_matter():
    operator = make_scale(np.ndarray)
    with torch.device("meta"):
        assert operator(torch.ones(2, device="cpu"), torch.ones(2, device="cpu")).tolist() == [1, 1]


# -- batches of different rank -------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["*#batch n", "*batch n"])
def test_vmap_of_batches_that_broadcast(first):
    @tg.op
    def product(x: Float[Tensor, first], y: Float[Tensor, "*#batch n"]) -> Float[Tensor, first]:
        return x * y

    x, y = torch.randn(3, 2, 5), torch.randn(3, 5)
    lined_up = x * y[:, None]
    assert torch.equal(torch.vmap(product)(x, y), lined_up)
    assert torch.equal(torch.vmap(product, (0, None))(x, y[0]), x * y[0])
    assert torch.equal(torch.vmap(product, (None, 0))(x[0], y), x[0] * y[:, None])
    both = torch.vmap(torch.vmap(product, (None, 0)), (0, None))(x, y)
    assert torch.equal(both, x[:, None] * y[None, :, None])


# -- symbols, and outputs without a tangent ------------------------------------------------------------------


def test_a_size_stays_a_symbol_after_a_call_with_numbers():
    @tg.op
    def first(x: Float[Tensor, "*batch n"], count: int) -> Float[Tensor, "*batch {count}"]:
        return x[..., :count].clone()

    class Module(torch.nn.Module):
        def forward(self, x):
            return first(x, x.shape[-1])

    x = torch.randn(3, 12)
    first(x, 12)
    program = torch.export.export(Module(), (x,), dynamic_shapes={"x": {1: torch.export.Dim("n", min=4)}})
    assert program.module()(torch.randn(3, 7)).shape == (3, 7)


def test_integers_have_no_tangent():
    @tg.op
    def order(x: Float[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
        return np.argsort(x)

    x = torch.tensor([3.0, 1.0, 2.0])
    for jacobian in (torch.func.jacfwd, torch.func.jacrev):
        assert jacobian(lambda x: x[order(x)])(x).tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
