"""Operators whose kernels are C functions, each beside the same in torch."""

import torch
from jaxtyping import Complex, Float, Float64, Int64, Real
from torch import Tensor

import torchgraft as tg

CORRELATE = """
void correlate2d(int64_t h, int64_t w, int64_t kh, int64_t kw, const T *x, const T *kernel, T *out) {
    for (int64_t i = 0; i + kh <= h; i++)
        for (int64_t j = 0; j + kw <= w; j++) {
            T sum = 0;
            for (int64_t a = 0; a < kh; a++)
                for (int64_t b = 0; b < kw; b++) sum += x[(i + a) * w + j + b] * kernel[a * kw + b];
            out[i * (w - kw + 1) + j] = sum;
        }
}
"""


@tg.op(kernel=tg.c(CORRELATE))
def correlate2d(
    x: Float[Tensor, "*batch h w"], kernel: Float[Tensor, "kh kw"]
) -> Float[Tensor, "*batch h-kh+1 w-kw+1"]: ...


@correlate2d.vjp("x")
def _(grad, kernel):
    kh, kw = kernel.shape
    return correlate2d(torch.nn.functional.pad(grad, (kw - 1, kw - 1, kh - 1, kh - 1)), kernel.flip(0, 1))


@correlate2d.vjp("kernel")
def _(grad, x):
    grad, x = grad.reshape(-1, *grad.shape[-2:]), x.reshape(-1, *x.shape[-2:])
    return torch.func.vmap(correlate2d)(x, grad).sum(0)


@tg.op(kernel=tg.c(CORRELATE), batch="loop", name="correlate2d")
def correlate2d_loop(x: Float[Tensor, "h w"], kernel: Float[Tensor, "kh kw"]) -> Float[Tensor, "h-kh+1 w-kw+1"]: ...


def plain_correlate2d(x, kernel):
    """Leading axes broadcast."""
    windows = x.unfold(-2, kernel.shape[-2], 1).unfold(-2, kernel.shape[-1], 1)
    return (windows * kernel[..., None, None, :, :]).sum((-2, -1))


@tg.op(
    kernel=tg.c("""
    T hypotenuse(T x, T y, double scale) { return scale * __builtin_sqrt(x * x + y * y); }
    """)
)
def hypotenuse(x: Float[Tensor, "..."], y: Float[Tensor, "..."], scale: float = 1.0) -> Float[Tensor, "..."]: ...


@hypotenuse.partial("x")
def _(x, out, scale):
    return scale**2 * x / out


@hypotenuse.partial("y")
def _(y, out, scale):
    return scale**2 * y / out


@tg.op(kernel=tg.c("void sum_and_difference(T x, T y, T *sum, T *difference) { *sum = x + y; *difference = x - y; }"))
def sum_and_difference(
    x: Real[Tensor, "..."], y: Real[Tensor, "..."]
) -> tuple[Real[Tensor, "..."], Real[Tensor, "..."]]: ...


@tg.op(
    kernel=tg.c("""
    void everything(int64_t m, int64_t n, const T *x, const T *bias, const int64_t *index, bool flag, int64_t count,
                    double factor, const double *list, int64_t list_length, const int64_t *maybe, const char *mode,
                    int64_t mode_length, T *out, int64_t *where) {
        for (int64_t i = 0; i < n; i++) {
            double value = x[index[i]] * factor + count + (flag ? 1000 : 0) + (bias ? bias[i] : 0);
            for (int64_t j = 0; j < list_length; j++) value += list[j];
            if (maybe) value += *maybe;
            for (int64_t j = 0; j < mode_length; j++) value += mode[j] == 'a';
            out[i] = value;
        }
        *where = m;
    }
    """)
)
def everything(
    x: Float[Tensor, "m"],
    bias: Float[Tensor, "n"] | None,
    index: Int64[Tensor, "n"],
    flag: bool,
    count: int,
    factor: float,
    list: list[float],
    maybe: int | None,
    mode: str,
) -> tuple[Float[Tensor, "n"], Int64[Tensor, ""]]: ...


@tg.op(
    kernel=tg.c("""
    void rotate(int64_t n, const T_complex *z, const T_real *angle, T_complex *out, T_real *size) {
        for (int64_t i = 0; i < n; i++) {
            T_real c = __builtin_cos(angle[i]), s = __builtin_sin(angle[i]);
            T_real re = __real__ z[i], im = __imag__ z[i];
            __real__ out[i] = re * c - im * s;
            __imag__ out[i] = re * s + im * c;
            size[i] = __builtin_sqrt(re * re + im * im);
        }
    }
    """)
)
def rotate(z: Complex[Tensor, "n"], angle: Float[Tensor, "n"]) -> tuple[Complex[Tensor, "n"], Float[Tensor, "n"]]: ...


@tg.op(kernel=tg.c("int positive(int64_t n, const double *x, double *out) { *out = n; return n && x[0] < 0 ? 7 : 0; }"))
def positive(x: Float64[Tensor, "*batch n"]) -> Float64[Tensor, "*batch"]: ...


@tg.op(
    kernel=tg.c("""
    void sizes(int64_t n, int64_t k, const T *x, const T *y, int64_t width, T *a, T *b) {
        for (int64_t i = 0; i < 2 * n / 3 + width; i++) a[i] = x[0];
        for (int64_t i = 0; i < (n > k ? n : k) % 4; i++) b[i] = y[0];
    }
    """)
)
def sizes(
    x: Float[Tensor, "n #k"], y: Float[Tensor, "k"], width: int
) -> tuple[Float[Tensor, "2*n//3+{width}"], Float[Tensor, "max(n,k)%4"]]: ...
