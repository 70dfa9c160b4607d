"""Functions that see whole arrays, of any number of axes and any strides."""

import contextlib

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

SOURCE = tg.c("""
static void walk(const T_x *x, int64_t dim, const int64_t *sizes, const int64_t *strides, double factor, T_x **out) {
    if (dim == 0) {
        *(*out)++ = factor * *x;
        return;
    }
    for (int64_t i = 0; i < *sizes; i++) walk(x + i * *strides, dim - 1, sizes + 1, strides + 1, factor, out);
}
void scale(const T_x *x, int64_t x_dim, const int64_t *x_sizes, const int64_t *x_strides, double factor,
           T_out *out, int64_t out_dim, const int64_t *out_sizes, const int64_t *out_strides) {
    T_x *end = out;
    walk(x, x_dim, x_sizes, x_strides, factor, &end);
}
""")


@tg.op(kernel=SOURCE)
def scale(x: Tensor, factor: float) -> Tensor: ...


@scale.shape
def _(x):
    return x


@scale.vjp("x")
def _(grad, factor):
    return scale(grad, factor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.complex64])
def test_any_array(dtype):
    x = torch.arange(24).to(dtype).reshape(2, 3, 4)
    for array in (x, x.permute(2, 0, 1), x[:, ::2, 1:], x[:0], x[0, 0, 0], x[:, :1].expand(2, 5, 4), x.flip(0)):
        for _ in range(2):
            torch.testing.assert_close(scale(array, 2.0), array * 2)


@pytest.mark.slow
def test_gradients_and_transforms():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(scale, (x, 2.0), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(scale, (x, 2.0))
    x = x.detach()
    torch.testing.assert_close(torch.vmap(lambda x: scale(x, 3.0), 1, 1)(x), x * 3)
    torch.testing.assert_close(torch.compile(lambda x: scale(x, 3.0), fullgraph=True)(x.T), x.T * 3)


def test_the_shape_must_be_told():
    @tg.op(kernel=SOURCE, name="scale")
    def unshaped(x: Tensor, factor: float) -> Tensor: ...

    with pytest.raises(tg.DeclarationError, match="shape is not known") as caught:
        unshaped(torch.ones(2), 1.0)
    assert "@scale.shape" in caught.value.hint


@tg.op(kernel=tg.c("""
void weighted(int64_t n, const T *x, int64_t x_dim, const int64_t *x_sizes, const int64_t *x_strides, const T *w,
              T *out) {
    for (int64_t i = 0; i < n; i++) {
        out[i] = 0;
        for (int64_t j = 0; j < x_sizes[1]; j++) out[i] += w[i] * x[i * x_strides[0] + j * x_strides[1]];
    }
}
"""))  # fmt: skip
def weighted(x: Float[Tensor, "n *rest"], w: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...


@weighted.vjp("w", kernel=tg.c("""
void weighted_vjp_w(int64_t n, const T *grad, const T *x, int64_t x_dim, const int64_t *x_sizes,
                    const int64_t *x_strides, T *grad_w) {
    for (int64_t i = 0; i < n; i++) {
        grad_w[i] = 0;
        for (int64_t j = 0; j < x_sizes[1]; j++) grad_w[i] += grad[i] * x[i * x_strides[0] + j * x_strides[1]];
    }
}
"""))  # fmt: skip
def _(grad, x): ...


def test_a_run_of_axes_that_is_no_batch():
    x, w = torch.randn(4, 3, dtype=torch.float64).T, torch.randn(3, dtype=torch.float64, requires_grad=True)
    for _ in range(2):
        torch.testing.assert_close(weighted(x, w), w * x.sum(1))
    assert torch.autograd.gradcheck(lambda w: weighted(x, w), w, check_batched_grad=True)
    xs = torch.randn(5, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(torch.vmap(weighted, (0, None))(xs, w), w * xs.sum(2))


FILLED = tg.c("""
void filled(int64_t n, const T *x, const T_w *w, int64_t w_dim, const int64_t *w_sizes, const int64_t *w_strides,
            T_out0 *out0, int64_t out0_dim, const int64_t *out0_sizes, const int64_t *out0_strides, T *out1) {
    int64_t count = 1;
    for (int64_t i = 0; i < out0_dim; i++) count *= out0_sizes[i];
    for (int64_t i = 0; i < count; i++) out0[i] = 5;
    for (int64_t i = 0; i < n; i++) out1[i] = x[i];
}
""")


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (4, 2, 3)])
def test_a_whole_output_before_an_annotated_one(shape):
    """Each has its own shape of those that the shape rule gives."""

    @tg.op(kernel=FILLED)
    def filled(x: Float[Tensor, "n"], w: Tensor) -> tuple[Tensor, Float[Tensor, "n"]]: ...

    filled.shape(lambda x, w: (w, x))
    x = torch.arange(3.0)
    for _ in range(3):
        whole, rest = filled(x, torch.ones(shape))
        assert torch.equal(whole, torch.full(shape, 5.0))
        assert torch.equal(rest, x)


SUMS = tg.c("""
void sums(int64_t m, const T *x, int64_t x_dim, const int64_t *x_sizes, const int64_t *x_strides, T *out) {
    for (int64_t i = 0; i < m; i++) {
        out[i] = 0;
        for (int64_t j = 0; j < x_sizes[1]; j++) out[i] += x[i * x_strides[0] + j * x_strides[1]];
    }
}
""")


@tg.op(kernel=SUMS)
def sums(x: Float[Tensor, "m *rest"]) -> Float[Tensor, "m"]: ...


@pytest.mark.parametrize("debugged", [False, True])
def test_an_axis_of_a_whole_array_is_the_size_of_a_result(debugged):
    """What is passed whole does not tell the sizes of its named axes: Python does."""
    x = torch.arange(12.0).reshape(4, 3)
    with tg.debug() if debugged else contextlib.nullcontext():
        torch.testing.assert_close(sums(x.T), x.sum(0))
        torch.testing.assert_close(torch.vmap(sums)(torch.stack([x, 2 * x])), torch.stack([x.sum(1), 2 * x.sum(1)]))


def test_a_library_does_not_stand_alone_where_python_tells_sizes(tmp_path):
    with pytest.raises(tg.TorchgraftError, match="tells the sizes of its axes"):
        sums.save_library(tmp_path / "sums.so", dtypes=[torch.float64])
