"""The gallery of `examples/` against plain torch: values, derivatives, transforms, refusals, and what comments claim.

Its operators also run through the matrix and the laws (`cases.py`); its files run as programs in `test_examples.py`.
"""

import gc
import pickle
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, jacfwd, jacrev, jvp, vmap

import torchgraft as tg
from examples.adopted import Swish, swish
from examples.adopted import second_derivative as second
from examples.cube import PlainCube, cube, cube_keeping_square, second_derivative
from examples.dct import dct
from examples.exp_saved import exp
from examples.fft_magnitude import fft_magnitude, rfft2, rfft2_adjoint
from examples.gelu_scalar import gelu
from examples.global_max_pool import global_max_pool
from examples.global_max_pool_c import global_max_pool as global_max_pool_c
from examples.lfilter_c import lfilter
from examples.mul_constant import MulConstant, mul_constant
from examples.scipy_layer import Filter2d, filter2d
from examples.top_two import top_two
from examples.whole_array import add

from .cases import dct_matrix, plain_lfilter
from .transforms import weights


@dataclass(frozen=True)
class Exhibit:
    """A function of one tensor made of the gallery's operators, the same in plain torch, and shapes to try."""

    name: str
    call: Callable[[Tensor], Any]
    reference: Callable[[Tensor], Any]
    shapes: tuple[tuple[int, ...], ...]
    once: bool = False  # has no second derivative

    @property
    def shape(self) -> tuple[int, ...]:
        """A shape without an axis of size 0 or 1."""
        return self.shapes[0]


def first_two(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`top_two` by sorting."""
    values, index = scores.sort(descending=True)
    return values[..., :2], index[..., :2], values[..., :2] @ scores.new_tensor([0.75, 0.25])


EXHIBITS = (
    Exhibit("mul_constant", lambda x: mul_constant(x, -1.5), lambda x: -1.5 * x, ((2, 3), (), (1, 1), (0, 4))),
    Exhibit(
        "global_max_pool",
        global_max_pool,
        lambda x: x.amax((-2, -1)),
        ((2, 3, 4), (1, 1, 1), (5, 1, 3, 1), (1, 2, 3, 4), (2, 1, 1, 4, 3), (0, 2, 3, 4), (2, 0, 3, 4)),
    ),
    Exhibit(
        "fft_magnitude",
        fft_magnitude,
        lambda x: torch.fft.rfft2(x).abs(),
        ((3, 4), (4, 3), (1, 1), (1, 2), (2, 1), (2, 2), (5, 8), (2, 3, 7), (1, 1, 2, 6)),
    ),
    Exhibit("dct", dct, lambda x: x @ dct_matrix(x.shape[-1]).to(x.dtype).mT, ((2, 5), (4,), (1,), (3, 1), (0, 3))),
    Exhibit("top_two", lambda x: top_two(x, [0.75, 0.25]), first_two, ((3, 4), (2,), (5,), (1, 2), (2, 1, 6), (0, 3))),
    Exhibit("exp", exp, torch.exp, ((2, 3), (), (1,), (0, 4))),
    Exhibit("cube", cube, lambda x: x**3, ((2, 3), (), (1,), (0, 4))),
    Exhibit("swish", swish, torch.nn.functional.silu, ((2, 3), (), (1,), (0, 4))),
    Exhibit("gelu_scalar", gelu, torch.nn.functional.gelu, ((2, 3), (), (1,), (0, 4)), once=True),
    Exhibit(
        "lfilter_c",
        lambda x: lfilter(x, x.new_tensor([0.5, -1.0]), x.new_tensor([2.0, 0.5])),
        lambda x: plain_lfilter(x, x.new_tensor([0.5, -1.0]), x.new_tensor([2.0, 0.5])),
        ((2, 5), (3,), (1,), (2, 3, 4)),
    ),
    Exhibit("whole_array", lambda x: add(x, 2 * x), lambda x: 3 * x, ((2, 3), (), (1, 4), (2, 3, 4))),
    Exhibit("cube_keeping_square", cube_keeping_square, lambda x: x**3, ((2, 3), (), (1,), (0, 4)), once=True),
)
DTYPES = (torch.float32, torch.float64)
HALF = (torch.float16, torch.bfloat16)

every = pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.name)
every_twice = pytest.mark.parametrize(
    "exhibit", [exhibit for exhibit in EXHIBITS if not exhibit.once], ids=lambda exhibit: exhibit.name
)
every_shape = pytest.mark.parametrize(
    ("exhibit", "shape"),
    [pytest.param(exhibit, shape, id=f"{exhibit.name}-{shape}") for exhibit in EXHIBITS for shape in exhibit.shapes],
)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def outputs(made: Any) -> tuple[Tensor, ...]:
    return (made,) if isinstance(made, Tensor) else tuple(made)


def vector(function: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    """All floating outputs of `function` as one vector, curved so that linear functions have derivatives too."""

    def call(x: Tensor) -> Tensor:
        return torch.cat([out.sin().reshape(-1) for out in outputs(function(x)) if out.is_floating_point()])

    return call


def loss(function: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    """`vector` weighted to one number."""

    def call(x: Tensor) -> Tensor:
        out = vector(function)(x)
        return (out * weights(out)).sum()

    return call


# -- against the reference ----------------------------------------------------------------------------------------


@every_shape
@dtypes
def test_values_and_gradients(exhibit: Exhibit, shape: tuple[int, ...], dtype: torch.dtype):
    x = torch.randn(shape, dtype=dtype).requires_grad_()
    y = x.detach().clone().requires_grad_()
    got, expected = outputs(exhibit.call(x)), outputs(exhibit.reference(y))
    torch.testing.assert_close(got, expected)
    assert all(out.is_contiguous() for out in got)
    assert [out.requires_grad for out in got] == [out.is_floating_point() for out in got]
    made = torch.autograd.grad(loss(exhibit.call)(x), x)
    torch.testing.assert_close(made, torch.autograd.grad(loss(exhibit.reference)(y), y))


@every_shape
def test_forward_mode(exhibit: Exhibit, shape: tuple[int, ...]):
    x, tangent = torch.randn(2, *shape, dtype=torch.float64)
    got = jvp(vector(exhibit.call), (x,), (tangent,))
    torch.testing.assert_close(got, jvp(vector(exhibit.reference), (x,), (tangent,)))


@every_twice
@pytest.mark.parametrize("outer", [jacfwd, jacrev], ids=["jacfwd", "jacrev"])
@pytest.mark.parametrize("inner", [jacfwd, jacrev], ids=["jacfwd", "jacrev"])
def test_second_derivatives(exhibit: Exhibit, outer: Callable[..., Any], inner: Callable[..., Any]):
    for shape in exhibit.shapes:
        x = torch.randn([max(size, 1) for size in shape], dtype=torch.float64)  # jacfwd needs at least one element
        got = outer(inner(loss(exhibit.call)))(x)
        torch.testing.assert_close(got, outer(inner(loss(exhibit.reference)))(x))


@every_twice
def test_derivatives_in_the_cotangent(exhibit: Exhibit):
    """The rules against finite differences, as functions of x and of the cotangent."""
    x = torch.randn(exhibit.shape, dtype=torch.float64, requires_grad=True)

    def floating(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(out for out in outputs(exhibit.call(x)) if out.is_floating_point())

    assert torch.autograd.gradcheck(floating, x, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(floating, x)


@every_shape
def test_vmap(exhibit: Exhibit, shape: tuple[int, ...]):
    x = torch.randn(3, *shape, dtype=torch.float64)
    for dim in (0, len(shape)):
        mapped = x.movedim(0, dim)
        torch.testing.assert_close(vmap(exhibit.call, dim)(mapped), vmap(exhibit.reference, dim)(mapped))
        got = vmap(grad(loss(exhibit.call)), dim)(mapped)
        torch.testing.assert_close(got, vmap(grad(loss(exhibit.reference)), dim)(mapped))


@every_twice
def test_vmap_of_second_derivatives(exhibit: Exhibit):
    x = torch.randn(3, *exhibit.shape, dtype=torch.float64)
    got = vmap(jacrev(grad(loss(exhibit.call))))(x)
    torch.testing.assert_close(got, vmap(jacrev(grad(loss(exhibit.reference))))(x))


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.mT.contiguous().mT,
    "strided": lambda x: torch.stack([x, torch.full_like(x, 9.0)], -1)[..., 0],
    "expanded": lambda x: x[:1].expand_as(x),
}


@every
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts(exhibit: Exhibit, layout: Callable[[Tensor], Tensor]):
    x = layout(torch.randn(exhibit.shape))
    contiguous = x.contiguous()
    torch.testing.assert_close(outputs(exhibit.call(x)), outputs(exhibit.call(contiguous)), rtol=0, atol=0)
    got = torch.autograd.functional.vjp(vector(exhibit.call), x, torch.ones_like(vector(exhibit.call)(x)))
    expected = torch.autograd.functional.vjp(
        vector(exhibit.call), contiguous, torch.ones_like(vector(exhibit.call)(contiguous))
    )
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize(
    ("exhibit", "dtype"),
    [
        pytest.param(exhibit, dtype, id=f"{exhibit.name}-{dtype}")
        for exhibit in EXHIBITS
        for dtype in HALF
        if (exhibit.name, dtype) != ("fft_magnitude", torch.float16)
    ],
)
def test_half_precision_is_the_rounded_result(exhibit: Exhibit, dtype: torch.dtype):
    x = torch.randn(exhibit.shape).to(dtype).requires_grad_()
    exact = x.detach().float().requires_grad_()
    got, expected = outputs(exhibit.call(x)), outputs(exhibit.call(exact))
    for a, b in zip(got, expected, strict=True):
        assert a.dtype in (dtype, torch.int64) or exhibit.name == "fft_magnitude"  # no bfloat16 among complex dtypes
        torch.testing.assert_close(a.to(b.dtype), b, rtol=2e-2, atol=2e-2)
    (made,) = torch.autograd.grad(loss(exhibit.call)(x), x)
    assert made.dtype == dtype
    (gradient,) = torch.autograd.grad(loss(exhibit.call)(exact), exact)
    torch.testing.assert_close(made.float(), gradient, rtol=5e-2, atol=1e-1)


@pytest.mark.slow
@every
def test_compiled(exhibit: Exhibit):
    torch._dynamo.reset()
    x = torch.randn(exhibit.shape, dtype=torch.float64)

    def step(function: Callable[[Tensor], Any], x: Tensor) -> Any:
        return outputs(function(x)), grad(loss(function))(x)

    compiled = torch.compile(lambda x: step(exhibit.call, x), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), step(exhibit.reference, x))
    y, z = x.clone().requires_grad_(), x.clone().requires_grad_()
    torch.compile(loss(exhibit.call), fullgraph=True, backend="aot_eager")(y).backward()
    loss(exhibit.reference)(z).backward()
    torch.testing.assert_close(y.grad, z.grad)


# -- mul_constant -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [torch.tensor(5.0), torch.ones(3, requires_grad=True)], ids=["tensor", "recorded"])
def test_a_constant_is_no_tensor(constant: Tensor):
    with pytest.raises(tg.ArgumentError, match=r"(?s)'mul_constant' argument 'constant'.*a Tensor of shape"):
        mul_constant(torch.ones(3), constant)


def test_plain_pytorch_loses_the_gradient_of_a_constant_without_a_word():
    x, constant = torch.ones(3, requires_grad=True), torch.tensor(5.0, requires_grad=True)
    MulConstant.apply(x, constant).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 5.0))
    assert constant.grad is None


def test_plain_pytorch_asks_for_a_none():
    class Without(MulConstant):
        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.constant

    with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 2, got 1\)"):
        Without.apply(torch.ones(3, requires_grad=True), 5.0).sum().backward()


# -- global_max_pool ----------------------------------------------------------------------------------------------


pools = pytest.mark.parametrize("global_max_pool", [global_max_pool, global_max_pool_c], ids=["torch", "C"])


@pools
def test_of_equal_maxima_the_first_gets_the_gradient(global_max_pool: tg.Op):
    images = torch.tensor([[[1.0, 7.0], [7.0, 7.0]], [[2.0, 2.0], [2.0, 2.0]]], requires_grad=True)
    (gradient,) = torch.autograd.grad(global_max_pool(images), images, torch.tensor([3.0, 5.0]))
    assert gradient.tolist() == [[[0, 3], [0, 0]], [[5, 0], [0, 0]]]
    (divided,) = torch.autograd.grad(images.amax((-2, -1)), images, torch.tensor([3.0, 5.0]))
    assert divided.tolist() == [[[0, 1], [1, 1]], [[1.25, 1.25], [1.25, 1.25]]]


def test_a_maximum_is_piecewise_linear():
    """No second derivative in x; but one in the cotangent, and that of a function of the maximum."""
    images = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    cotangent = torch.randn(2, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(global_max_pool(images), images, cotangent, create_graph=True)
    direction = torch.randn_like(first)
    in_images, in_cotangent = torch.autograd.grad(first, (images, cotangent), direction, materialize_grads=True)
    assert in_images.abs().max() == 0
    at = images.flatten(1).argmax(1)
    torch.testing.assert_close(in_cotangent, direction.flatten(1)[torch.arange(2), at])
    curvature = jacrev(grad(lambda x: global_max_pool(x).exp().sum()))(images.detach()).reshape(24, 24)
    expected = torch.zeros(24, dtype=torch.float64)
    expected[at + torch.tensor([0, 12])] = global_max_pool(images).detach().exp()
    torch.testing.assert_close(curvature, expected.diag())


@pools
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 1, 1), (5, 1, 3, 1), (0, 2, 3, 4), (2, 0, 3, 4)], ids=str)
def test_maxima(global_max_pool: tg.Op, shape: tuple[int, ...]):
    images = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(global_max_pool(images), images.amax((-2, -1)))
    assert torch.autograd.gradcheck(global_max_pool, images)


@pools
def test_the_index_stays_inside(global_max_pool: tg.Op):
    assert isinstance(global_max_pool(torch.randn(2, 3, 4)), Tensor)


@pytest.mark.parametrize(
    ("shape", "error", "match"),
    [((2, 3), tg.ShapeError, "at least 3 axes"), ((2, 0, 3), IndexError, "non-zero size")],
    ids=str,
)
def test_what_has_no_maximum(shape: tuple[int, ...], error: type[Exception], match: str):
    with pytest.raises(error, match=match):
        global_max_pool(torch.zeros(shape))


def test_what_has_no_maximum_in_c():
    with pytest.raises(tg.KernelError, match="the function returned 1"):
        global_max_pool_c(torch.zeros(2, 0, 3))


@pools
def test_a_nan_is_the_maximum(global_max_pool: tg.Op):
    images = torch.tensor([[[1.0, torch.nan], [3.0, 2.0]]], requires_grad=True)
    assert global_max_pool(images).isnan().all()


# -- fft_magnitude ------------------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (4, 4), (2, 5, 6)], ids=str)
def test_a_magnitude_of_zero_has_the_subgradient_zero(shape: tuple[int, ...], dtype: torch.dtype):
    x = torch.zeros(shape, dtype=dtype)
    f = loss(fft_magnitude)
    for derivative in (grad(f), jacrev(grad(f)), lambda x: jvp(f, (x,), (torch.ones_like(x),))[1]):
        assert not derivative(x).any()  # neither a number nor NaN, which is true


def test_one_magnitude_of_zero_leaves_the_others_alone():
    x = torch.tensor([[1.0, 2.0], [4.0, -7.0]])
    assert rfft2(x).tolist() == [[0, 10], [6, -12]]
    signs = [[[1, -1], [1, -1]], [[1, 1], [-1, -1]], [[-1, 1], [1, -1]]]  # of 10, 6 and -12, times their basis pictures
    assert grad(lambda x: fft_magnitude(x).sum())(x).tolist() == torch.tensor(signs).sum(0).tolist()


@pytest.mark.parametrize("width", range(1, 9))
def test_the_adjoint_is_the_transposed_matrix(width: int):
    """And irfft2, however scaled, is not, but for widths that have no inner columns."""
    x = torch.randn(3, width, dtype=torch.float64)
    y = torch.randn(3, width // 2 + 1, dtype=torch.complex128)
    torch.testing.assert_close((rfft2(x).conj() * y).sum().real, (x * rfft2_adjoint(y, width)).sum())
    columns = torch.fft.rfft2(torch.eye(3 * width, dtype=torch.float64).reshape(-1, 3, width))
    transposed = (columns.conj() * y).sum((-2, -1)).real.reshape(3, width)
    torch.testing.assert_close(rfft2_adjoint(y, width), transposed)
    inverse = torch.fft.irfft2(y, s=(3, width), norm="forward")
    assert torch.allclose(rfft2_adjoint(y, width), inverse) == (width <= 2)


def test_no_pictures():
    """Here torch has no answer to compare with: with MKL its own rfft2 of an empty batch raises."""
    x = torch.zeros(0, 3, 4, requires_grad=True)
    magnitudes = fft_magnitude(x)
    magnitudes.sum().backward()
    assert magnitudes.shape == (0, 3, 3)
    assert x.grad is not None
    assert x.grad.shape == x.shape


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_half_precision_of_a_spectrum():
    """Amplitudes rounded to float16; of the spectrum's complex32 no gradient, as PyTorch has nearly nothing for it."""
    x = torch.randn(3, 4).half().requires_grad_()
    magnitudes = fft_magnitude(x)
    assert magnitudes.dtype == torch.float16
    torch.testing.assert_close(magnitudes.float(), fft_magnitude(x.float()), rtol=2e-3, atol=2e-3)
    with pytest.raises(tg.DtypeError, match="'rfft2_adjoint' argument 'spectrum': has dtype complex32"):
        magnitudes.sum().backward()


@pytest.mark.parametrize("width", [-1, 0, 3, 6])
def test_a_spectrum_has_its_width(width: int):
    with pytest.raises(tg.ShapeError, match=r"'rfft2_adjoint' argument 'spectrum'.*\{width\}//2\+1"):
        rfft2_adjoint(torch.zeros(2, 3, dtype=torch.complex64), width)


@pytest.mark.parametrize(
    ("x", "error", "match"),
    [
        (torch.zeros(2, 3, dtype=torch.complex64), tg.DtypeError, r"x\.real"),
        (torch.zeros(3), tg.ShapeError, "at least 2 axes"),
        (torch.zeros(0, 3), ValueError, "data points"),
    ],
    ids=["complex", "one axis", "empty"],
)
def test_what_has_no_half_spectrum(x: Tensor, error: type[Exception], match: str):
    with pytest.raises(error, match=match):
        fft_magnitude(x)


# -- dct ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_the_matrix_of_the_dct_is_orthogonal(n: int):
    matrix = jacfwd(dct)(torch.randn(n, dtype=torch.float64))
    torch.testing.assert_close(matrix, dct_matrix(n))
    torch.testing.assert_close(matrix.mT @ matrix, torch.eye(n, dtype=torch.float64))


def test_a_third_derivative_through_the_dct():
    x = torch.randn(4, dtype=torch.float64)

    def third(f: Callable[[Tensor], Tensor]) -> Tensor:
        return jacrev(jacrev(grad(lambda x: (f(x) ** 3).sum())))(x)

    torch.testing.assert_close(third(dct), third(lambda x: dct_matrix(4) @ x))


@pytest.mark.parametrize(
    ("x", "error", "match"),
    [
        (torch.zeros(3, dtype=torch.int64), tg.DtypeError, r"x\.double\(\)"),
        (torch.zeros(()), tg.ShapeError, "at least 1 axes"),
        (torch.zeros(2, 0), ValueError, "data points"),
    ],
    ids=["integers", "no axis", "empty"],
)
def test_what_has_no_cosine_transform(x: Tensor, error: type[Exception], match: str):
    with pytest.raises(error, match=match):
        dct(x)


# -- top_two ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["largest", "smallest"])
@pytest.mark.parametrize("weights", [[0.75, 0.25], [1, -2], (0.0, 1.0)], ids=str)
def test_order_and_weights(order: str, weights: list[float]):
    scores = torch.tensor([[3.0, 1.0, 2.0, 0.0], [5.0, 6.0, 4.0, 7.0]], requires_grad=True)
    best = top_two(scores, weights, order=order)
    index = [[0, 2], [3, 1]] if order == "largest" else [[3, 1], [2, 0]]
    assert best.index.tolist() == index
    torch.testing.assert_close(best.values, scores.gather(1, torch.tensor(index)))
    (gradient,) = torch.autograd.grad(best.blend.sum(), scores)
    expected = torch.zeros(2, 4).scatter(1, torch.tensor(index), torch.tensor([weights, weights], dtype=torch.float32))
    torch.testing.assert_close(gradient, expected)


def test_either_output_alone_has_a_gradient():
    scores = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    assert torch.autograd.grad(top_two(scores, [0.5, 0.5]).values.sum(), scores)[0].tolist() == [1, 0, 1]
    assert torch.autograd.grad(top_two(scores, [0.5, 0.5]).blend, scores)[0].tolist() == [0.5, 0, 0.5]


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((torch.zeros(3), [0.5, 0.5], "best"), tg.ArgumentError, r"(?s)'order'.*'largest', 'smallest'"),
        ((torch.zeros(3), torch.ones(2)), tg.ArgumentError, r"(?s)'weights'.*a Tensor of shape \(2,\)"),
        ((torch.zeros(3), [0.5]), ValueError, "not enough values"),
        ((torch.zeros(3), [0.5, 0.2, 0.3]), ValueError, "too many values"),
        ((torch.zeros(1), [0.5, 0.5]), RuntimeError, "out of range"),
    ],
    ids=["order", "tensor of weights", "one weight", "three weights", "one score"],
)
def test_what_has_no_top_two(arguments: tuple[Any, ...], error: type[Exception], match: str):
    with pytest.raises(error, match=match):
        top_two(*arguments)


# -- exp_saved ----------------------------------------------------------------------------------------------------


def is_let_go(function: Callable[[Tensor], Tensor]) -> bool:
    """Whether nothing but the caller holds the input of a recorded call."""
    x = torch.randn(3, requires_grad=True) * 2
    reference = weakref.ref(x)
    out = function(x)
    del x
    gc.collect()
    return reference() is None and out.requires_grad


@pytest.mark.slow
def test_saving_the_result_lets_the_input_go():
    assert is_let_go(exp)
    assert not is_let_go(cube)


def test_a_saved_result_that_was_written_into_is_noticed():
    y = exp(torch.randn(3, requires_grad=True))
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_every_derivative_of_exp_is_exp():
    x, f = torch.randn(3, dtype=torch.float64), exp
    for _ in range(4):
        torch.testing.assert_close(vmap(f)(x), x.exp())
        f = grad(f)


# -- cube ---------------------------------------------------------------------------------------------------------


def test_plain_pytorch_differentiates_past_a_saved_intermediate():
    """30 x**4 is right; the 12 x**4 that come through the square are lost."""
    x = torch.tensor(2.0, requires_grad=True)
    assert second_derivative(cube, x) == 30 * 16
    assert second_derivative(PlainCube.apply, x) == 18 * 16
    torch.testing.assert_close(torch.autograd.grad(PlainCube.apply(x), x), torch.autograd.grad(cube(x), x))


def scalar_cube(x: Tensor) -> Tensor:
    return cube_keeping_square(x) ** 2


@pytest.mark.parametrize(
    "differentiate",
    [
        lambda x: second_derivative(cube_keeping_square, x.requires_grad_()),
        grad(grad(scalar_cube)),
        jacfwd(jacrev(scalar_cube)),
        jacfwd(jacfwd(scalar_cube)),
        lambda x: vmap(grad(grad(scalar_cube)))(x.expand(3)),
    ],
    ids=["autograd", "grad(grad)", "hessian", "jacfwd(jacfwd)", "vmap"],
)
def test_a_second_derivative_past_a_saved_intermediate_is_refused(differentiate: Callable[[Tensor], Any]):
    with pytest.raises(tg.DerivativeError, match=r"'cube_keeping_square.*floating Saved output"):
        differentiate(torch.tensor(2.0))


# -- adopted ------------------------------------------------------------------------------------------------------


def test_a_bare_function_has_a_wrong_second_derivative():
    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    silu = torch.nn.functional.silu
    torch.testing.assert_close(torch.autograd.grad(Swish.apply(x), x), torch.autograd.grad(silu(x), x))
    assert abs(second(Swish.apply, x) - second(silu, x)) > 0.1
    assert abs(second(swish, x) - second(silu, x)) < 1e-12


@pytest.mark.parametrize("transform", [grad, vmap, jacrev], ids=["grad", "vmap", "jacrev"])
def test_a_bare_function_goes_under_no_transform(transform: Callable[..., Any]):
    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        transform(Swish.apply)(torch.ones(3))


def test_a_stub_has_the_parameters_of_forward():
    with pytest.raises(tg.DeclarationError, match=r"(?s)other parameters than Swish.*expected: x\n.*got: +y"):

        @tg.adopt(Swish)
        def swish(y: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...


# -- scipy_layer --------------------------------------------------------------------------------------------------


def conv2d(x: Tensor, kernel: Tensor, bias: Tensor | None = None) -> Tensor:
    """torch's, with any batch axes."""
    out = torch.nn.functional.conv2d(x.reshape(-1, 1, *x.shape[-2:]), kernel[:, None], bias)
    return out.reshape(*x.shape[:-2], *out.shape[-3:])


FILTERED = pytest.mark.parametrize(
    ("image", "kernel"),
    [((5, 6), (2, 2, 3)), ((4, 4), (1, 4, 4)), ((3, 1), (3, 2, 1)), ((1, 1), (1, 1, 1)), ((2, 3, 5, 4), (2, 3, 1)),
     ((0, 4, 4), (2, 3, 3)), ((1, 4, 4), (2, 3, 3))],
    ids=str,
)  # fmt: skip


@FILTERED
@dtypes
@pytest.mark.parametrize("with_bias", [True, False], ids=["bias", "no bias"])
def test_filters(image: tuple[int, ...], kernel: tuple[int, ...], dtype: torch.dtype, with_bias: bool):
    shapes = [image, kernel, kernel[:1]][: 2 + with_bias]
    arguments = [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    got, expected = filter2d(*arguments), conv2d(*arguments)
    torch.testing.assert_close(got, expected)
    cotangent = torch.randn_like(got)
    made = torch.autograd.grad(got, arguments, cotangent)
    torch.testing.assert_close(made, torch.autograd.grad(expected, arguments, cotangent), rtol=1e-5, atol=1e-5)


def test_second_derivatives_of_filters():
    """Mixed ones above all: a filter is linear in the image, and in the kernel, but not in both."""
    arguments = [torch.randn(shape, dtype=torch.float64) for shape in [(4, 5), (2, 2, 3), (2,)]]

    def energy(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *arguments: (function(*arguments) ** 3).sum()

    for outer in (jacfwd, jacrev):
        got = outer(jacrev(energy(filter2d), argnums=(0, 1, 2)), argnums=(0, 1, 2))(*arguments)
        expected = outer(jacrev(energy(conv2d), argnums=(0, 1, 2)), argnums=(0, 1, 2))(*arguments)
        torch.testing.assert_close(got, expected)


def test_filters_of_their_own_for_each_image():
    x, kernel, bias = torch.randn(3, 5, 6), torch.randn(3, 2, 2, 3), torch.randn(3, 2)
    torch.testing.assert_close(
        filter2d(x, kernel, bias), torch.stack([conv2d(*each) for each in zip(x, kernel, bias, strict=True)])
    )


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_filters_in_half_precision(dtype: torch.dtype):
    arguments = [torch.randn(shape).to(dtype).requires_grad_() for shape in [(4, 5), (2, 2, 3), (2,)]]
    out = filter2d(*arguments)
    out.sum().backward()
    torch.testing.assert_close(out.float(), filter2d(*(a.float() for a in arguments)), rtol=1e-2, atol=1e-2)
    assert {out.dtype, *(a.grad.dtype for a in arguments)} == {dtype}


@pytest.mark.parametrize(
    ("shapes", "error", "match"),
    [
        (((1, 5), (1, 3, 3)), tg.ShapeError, r"h-kh\+1"),
        (((5, 5), (3, 3)), tg.ShapeError, "'kernel'.*at least 3 axes"),
        (((5, 5), (2, 3, 3), (3,)), tg.ShapeError, r"'bias'.*axis filters = 2"),
    ],
    ids=["small image", "one kernel", "three biases"],
)
def test_what_is_not_filtered(shapes: tuple[tuple[int, ...], ...], error: type[Exception], match: str):
    with pytest.raises(error, match=f"(?s)'filter2d'.*{match}"):
        filter2d(*map(torch.randn, shapes))


def twins() -> tuple[torch.nn.Module, torch.nn.Module]:
    """The layer of SciPy, and torch's with the same parameters."""
    layer, conv = Filter2d(filters=2, kh=3, kw=2), torch.nn.Conv2d(1, 2, (3, 2))
    with torch.no_grad():
        conv.weight.copy_(layer.kernel[:, None])
        conv.bias.copy_(layer.bias)
    return layer, conv


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_the_layer_trains_as_that_of_torch(compiled: bool):
    torch._dynamo.reset()
    layer, conv = twins()
    function = torch.compile(layer, fullgraph=True, backend="aot_eager") if compiled else layer
    images, seen = torch.randn(4, 6, 5), torch.randn(4, 2, 4, 4)
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (layer, conv)]
    for _ in range(3):
        losses = [(function(images) - seen).square().mean(), (conv(images[:, None]) - seen).square().mean()]
        torch.testing.assert_close(*losses)
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.testing.assert_close(layer.kernel, conv.weight[:, 0])
    torch.testing.assert_close(layer.bias, conv.bias)


def test_gradients_of_the_layer_for_each_image():
    layer, conv = twins()
    images = torch.randn(4, 6, 5)

    def gradients(module: torch.nn.Module, images: Tensor) -> dict[str, Tensor]:
        def energy(parameters: dict[str, Tensor], image: Tensor) -> Tensor:
            return torch.func.functional_call(module, parameters, (image,)).square().sum()

        return vmap(grad(energy), in_dims=(None, 0))(dict(module.named_parameters()), images)

    got, expected = gradients(layer, images), gradients(conv, images[:, None])
    torch.testing.assert_close(got["kernel"], expected["weight"][:, :, 0])
    torch.testing.assert_close(got["bias"], expected["bias"])


def test_the_layer_is_found_by_pickle():
    layer, _ = twins()
    again = pickle.loads(pickle.dumps(layer))
    x = torch.randn(5, 5)
    torch.testing.assert_close(again(x), layer(x), rtol=0, atol=0)
