"""C functions as kernels: what they compute, of which dtypes, shapes and strides, as citizens of PyTorch."""

import itertools

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

from ..default import by_default
from .operators import (
    correlate2d,
    correlate2d_loop,
    everything,
    hypotenuse,
    plain_correlate2d,
    positive,
    rotate,
    sizes,
    sum_and_difference,
)

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def draw(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=torch.float64).to(dtype)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


# -- one sample ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0,), (1, 4)], ids=str)
def test_a_core_function(dtype, batch):
    x, kernel = draw(*batch, 6, 7, dtype=dtype), draw(2, 3, dtype=dtype)
    out = correlate2d(x, kernel)
    wide = torch.float32 if dtype.itemsize == 2 else dtype  # computed so, and rounded once
    expected = plain_correlate2d(x.to(wide), kernel.to(wide)).to(dtype)
    torch.testing.assert_close(out, expected)
    assert out.is_contiguous()


VIEWS = {
    "transposed": lambda *shape: draw(*shape[:-2], shape[-1], shape[-2]).mT,
    "every other": lambda *shape: draw(*shape[:-1], 2 * shape[-1])[..., ::2],
    "offset": lambda *shape: draw(*shape[:-1], shape[-1] + 1)[..., 1:],
    "expanded batch": lambda *shape: draw(*(1,) * (len(shape) - 2), *shape[-2:]).expand(shape),
    "batch last": lambda *shape: draw(*shape[-2:], *shape[:-2]).permute(*range(2, len(shape)), 0, 1),
    "expanded row": lambda *shape: draw(*shape[:-2], 1, shape[-1]).expand(shape),
    "one element": lambda *shape: draw(1).expand(shape),
}


PAIRS = list(itertools.product(VIEWS, repeat=2))


@pytest.mark.parametrize(("of_x", "of_kernel"), PAIRS)
def test_any_strides(of_x, of_kernel):
    x, kernel = VIEWS[of_x](3, 6, 7), VIEWS[of_kernel](2, 3)
    torch.testing.assert_close(correlate2d(x, kernel), plain_correlate2d(x, kernel))


@pytest.mark.parametrize(
    ("x", "kernel"), [((), ()), ((5,), ()), ((), (4,)), ((3, 1), (4,)), ((4,), (3, 1)), ((0,), ())]
)
def test_leading_axes_broadcast(x, kernel):
    x, kernel = draw(*x, 6, 7), draw(*kernel, 2, 3)
    torch.testing.assert_close(correlate2d_loop(x, kernel), plain_correlate2d(x, kernel))


@pytest.mark.parametrize(
    ("dims", "x", "kernel"),
    [((0, None), (4,), ()), ((None, 0), (5,), (4,)), ((0, 0), (4, 5), (4,)), ((1, 2), (5, 4), ())],
    ids=str,
)
def test_vmap_aligns_batches(dims, x, kernel):
    x, kernel = draw(*x, 6, 7), draw(*kernel, 2, 3)
    if dims == (1, 2):
        kernel = draw(2, 3, 4)
    mapped = torch.vmap(correlate2d, dims)(x, kernel)
    samples = [
        plain_correlate2d(*(t if d is None else t.select(d, i) for t, d in zip((x, kernel), dims, strict=True)))
        for i in range(4)
    ]
    torch.testing.assert_close(mapped, torch.stack(samples))


def test_large_batches_use_threads():
    x, kernel = draw(3000, 12, 12), draw(3, 3)
    torch.testing.assert_close(correlate2d(x, kernel), plain_correlate2d(x, kernel))


def test_every_kind_of_argument():
    x, bias, index = draw(5), draw(3), torch.tensor([4, 0, 2])
    out, where = everything(x, bias, index, True, 10, 2.0, [0.5, 0.25], 100, "banana")
    torch.testing.assert_close(out, x[index] * 2 + 10 + 1000 + bias + 0.75 + 100 + 3)
    assert where.item() == 5
    out, _ = everything(x, None, index, False, -10, 0.5, [], None, "")
    torch.testing.assert_close(out, x[index] * 0.5 - 10)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_and_real_elements(dtype):
    z = torch.randn(4, dtype=dtype)
    angle = torch.randn(4).to(z.real.dtype)
    out, size = rotate(z, angle)
    torch.testing.assert_close(out, z * torch.exp(1j * angle))
    torch.testing.assert_close(size, z.abs())


def test_sizes_are_computed_as_python_does():
    a, b = sizes(draw(5, 1), draw(7), 2)
    assert (a.shape, b.shape) == ((2 * 5 // 3 + 2,), (max(5, 7) % 4,))


def test_a_division_rounds_down():
    @tg.op(kernel=tg.c("void halved(int64_t n, const T *x, T *out) { out[0] = n; }"))
    def halved(x: Float[Tensor, "n"]) -> Float[Tensor, "(n-4)//3+2"]: ...

    for n in (1, 3, 4, 6, 7):
        for _ in range(2):
            assert halved(torch.ones(n)).shape == ((n - 4) // 3 + 2,)


def test_an_error_code_raises():
    torch.testing.assert_close(positive(torch.ones(2, 3, dtype=torch.float64)), torch.tensor([3.0, 3.0]).double())
    with pytest.raises(RuntimeError, match="operator 'positive': the function returned 7"):
        positive(-torch.ones(3, dtype=torch.float64))
    many = torch.ones(100_000, 1, dtype=torch.float64)
    many[77_777] = -1
    with pytest.raises(RuntimeError, match="the function returned 7"):  # also from one of torch's threads
        positive(many)


# -- one element ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("x", "y"),
    [((), ()), ((5,), ()), ((4, 1), (5,)), ((2, 3), (2, 3)), ((0, 3), (3,)), ((3, 1, 2), (1, 4, 1))],
    ids=str,
)
def test_a_scalar_function(dtype, x, y):
    x, y = draw(*x, dtype=dtype), draw(*y, dtype=dtype)
    wide = torch.float32 if dtype.itemsize == 2 else dtype
    torch.testing.assert_close(hypotenuse(x, y, 2.0), (2 * torch.hypot(x.to(wide), y.to(wide))).to(dtype))


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_elements_of_any_strides(left, right):
    x, y = VIEWS[left](3, 4, 5), VIEWS[right](3, 4, 5)
    torch.testing.assert_close(hypotenuse(x, y), torch.hypot(x, y))


def test_many_elements():
    x = draw(400, 500)
    for y in (draw(400, 500), draw(500), draw(400, 1), draw(500, 400).mT):
        torch.testing.assert_close(hypotenuse(x, y), torch.hypot(x, y))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float32], ids=str)
def test_several_outputs_of_any_dtype(dtype):
    x, y = torch.tensor([[5], [7]], dtype=dtype), torch.tensor([1, 2, 3], dtype=dtype)
    for made, expected in zip(sum_and_difference(x, y), (x + y, x - y), strict=True):
        torch.testing.assert_close(made, expected)


def test_promotion():
    x, y = torch.tensor([5, 7]), torch.tensor([0.5, 1.5])
    assert sum_and_difference(x, y)[0].tolist() == [5.5, 8.5]


# -- citizens ------------------------------------------------------------------------------------------------------

CALLS = {
    "core": (correlate2d, plain_correlate2d, (2, 6, 7), (2, 3)),
    "scalar": (hypotenuse, torch.hypot, (3, 4), (4,)),
}
each_call = pytest.mark.parametrize("name", CALLS)


def operands(name):
    op, plain, *shapes = CALLS[name]
    return op, plain, [draw(*shape) for shape in shapes]


@pytest.mark.slow
@each_call
def test_gradients(name):
    op, _, args = operands(name)
    args = [arg.requires_grad_() for arg in args]
    assert torch.autograd.gradcheck(op, args, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(op, args)


@pytest.mark.slow
@each_call
def test_opcheck(name):
    op, _, args = operands(name)
    torch.library.opcheck(op.torch_op, tuple(arg.requires_grad_() for arg in args))


@each_call
@pytest.mark.parametrize("backend", by_default(["aot_eager", "inductor"], {"aot_eager"}.__contains__))
def test_compiled(name, backend):
    op, plain, args = operands(name)

    def loss(op):
        return torch.func.grad(lambda *args: op(*args).square().sum(), (0, 1))

    compiled = torch.compile(loss(op), fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(*args), loss(plain)(*args))


@pytest.mark.slow
@each_call
def test_exported(name):
    op, plain, args = operands(name)

    class Module(torch.nn.Module):
        def forward(self, *args):
            return op(*args)

    program = torch.export.export(Module(), tuple(args))
    torch.testing.assert_close(program.module()(*args), plain(*args))
    torch.testing.assert_close(program.run_decompositions().module()(*args), plain(*args))


def test_what_it_says_of_itself():
    text = str(correlate2d)
    assert "kernels  cpu: c" in text
    assert correlate2d.capabilities()["compile"].answer == "yes"
    assert correlate2d.prototype().splitlines()[0] == (
        "void correlate2d(int64_t h, int64_t w, int64_t kh, int64_t kw, const T *x, const T *kernel, T *out)"
    )
    assert hypotenuse.prototype().splitlines()[0] == "T hypotenuse(T x, T y, double scale)"
