"""Operators for the tests of meshes: one linear map, whose axes are declared, in every language, and odd ones."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Int64, Num, Real
from torch import Tensor

import torchgraft as tg
from examples import linear_cpp as in_cpp


@tg.op(parallel="m", reduction="n")
def linear(
    x: Float[Tensor, "*batch n"], w: Float[Tensor, "m n"], b: Float[Tensor, "m"] | None = None
) -> Float[Tensor, "*batch m"]:
    out = x @ w.mT
    return out if b is None else out + b


@linear.vjp("x")
def _(grad, w):
    return grad @ w


@linear.vjp("w")
def _(grad, x):
    return grad.reshape(-1, grad.shape[-1]).mT @ x.reshape(-1, x.shape[-1])


@linear.vjp("b")
def _(grad):
    return grad.reshape(-1, grad.shape[-1]).sum(0)


@tg.op(parallel="m", reduction="n")
def linear_np(
    x: Float[np.ndarray, "*batch n"], w: Float[np.ndarray, "m n"], b: Float[np.ndarray, "m"] | None = None
) -> Float[np.ndarray, "*batch m"]:
    out = x @ w.T
    return out if b is None else out + b


@linear_np.vjp("x")
def _(grad: np.ndarray, w):
    return grad @ w


@linear_np.vjp("w")
def _(grad: np.ndarray, x):
    return grad.reshape(-1, grad.shape[-1]).T @ x.reshape(-1, x.shape[-1])


@linear_np.vjp("b")
def _(grad: np.ndarray):
    return grad.reshape(-1, grad.shape[-1]).sum(0)


IN_C = tg.c("""
void linear_c(int64_t n, int64_t m, const T *x, const T *w, const T *b, T *out) {
    for (int64_t i = 0; i < m; i++) {
        out[i] = b == NULL ? 0 : b[i];
        for (int64_t j = 0; j < n; j++) out[i] += x[j] * w[i * n + j];
    }
}
void linear_c_vjp_x(int64_t n, int64_t m, const T *grad, const T *w, T *grad_x) {
    for (int64_t j = 0; j < n; j++) grad_x[j] = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) grad_x[j] += grad[i] * w[i * n + j];
}
void linear_c_vjp_w(int64_t n, int64_t m, const T *grad, const T *x, T *grad_w) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) grad_w[i * n + j] = grad[i] * x[j];
}
void linear_c_vjp_b(int64_t n, int64_t m, const T *grad, T *grad_b) {
    for (int64_t i = 0; i < m; i++) grad_b[i] = grad[i];
}
""")


@tg.op(kernel=IN_C, parallel="m", reduction="n")
def linear_c(
    x: Float[Tensor, "*batch n"], w: Float[Tensor, "m n"], b: Float[Tensor, "m"] | None = None
) -> Float[Tensor, "*batch m"]: ...


@linear_c.vjp("x", kernel=IN_C)
def _(grad, w): ...


@linear_c.vjp("w", kernel=IN_C)
def _(grad, x): ...


@linear_c.vjp("b", kernel=IN_C)
def _(grad): ...


@tg.op(kernel=in_cpp.SOURCE, parallel="m", reduction="n", name="linear")
def linear_cpp(
    input: Float[Tensor, "*batch n"], weight: Float[Tensor, "m n"], bias: Float[Tensor, "m"] | None = None
) -> Float[Tensor, "*batch m"]: ...


@linear_cpp.vjp("input", "weight", kernel=in_cpp.SOURCE)
def linear_vjp(grad, input, weight): ...


@linear_cpp.vjp("bias")
def _(grad):
    return grad.sum_to_size(grad.shape[-1])


@tg.op(parallel="m", reduction="n")
def linear_num(
    x: Num[Tensor, "*batch n"], w: Num[Tensor, "m n"], b: Num[Tensor, "m"] | None = None
) -> Num[Tensor, "*batch m"]:
    """The same of whole numbers, too."""
    out = (x.unsqueeze(-2) * w).sum(-1, dtype=x.dtype)
    return out if b is None else out + b


@linear_num.vjp("x")
def _(grad, w):
    return grad @ w


@linear_num.vjp("w")
def _(grad, x):
    return grad.reshape(-1, grad.shape[-1]).mT @ x.reshape(-1, x.shape[-1])


@linear_num.vjp("b")
def _(grad):
    return grad.reshape(-1, grad.shape[-1]).sum(0)


@tg.op(batch="loop", parallel="m", reduction="n")
def linear_loop(x: Float[np.ndarray, "n"], w: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m"]:
    return w @ x


@linear_loop.adjoint("x")
def _(grad: np.ndarray, w):
    return w.T @ grad


@linear_loop.adjoint("w")
def _(grad: np.ndarray, x):
    return grad[:, None] * x


class Moments(NamedTuple):
    """Sums over an axis that both outputs lack."""

    first: Float[Tensor, "*batch m"]
    second: Float[Tensor, "*batch m"]


@tg.op(parallel="m", reduction="n")
def moments(x: Float[Tensor, "*batch n m"], shift: Float[Tensor, "#m"]) -> Moments:
    """The sums of x and of its squares, and a shift of the first, which has one number or one for each column."""
    return Moments(x.sum(-2) + shift, x.square().sum(-2))


@moments.vjp("x")
def _(grad_first, grad_second, x):
    return grad_first.unsqueeze(-2) + 2 * x * grad_second.unsqueeze(-2)


@moments.vjp("shift", independent="second")
def _(grad_first):
    return grad_first.reshape(-1, grad_first.shape[-1]).sum(0)


@tg.op(parallel="m")
def widest(x: Float[Tensor, "n m"]) -> tuple[Float[Tensor, "m"], tg.Saved[Int64[Tensor, "m"], "index"]]:
    """The largest of each column. Its residual is cut with it."""
    values, index = x.max(0)
    return values, index


@widest.vjp("x")
def _(grad, x, index):
    return torch.zeros_like(x).scatter(0, index.unsqueeze(0), grad.unsqueeze(0))


@tg.op(reduction="n")
def total(terms: list[Float[Tensor, "n"]], offsets: list[Float[Tensor, ""]]) -> Float[Tensor, ""]:
    """The sum of all squares, and of the offsets."""
    return sum(term.square().sum() for term in terms) + sum(offsets)


@total.vjp("terms")
def _(grad, terms):
    return [2 * term * grad.unsqueeze(-1) for term in terms]


@total.vjp("offsets")
def _(grad, offsets):
    return [grad for _ in offsets]


@tg.op(parallel="k")
def between(x: Float[Tensor, "k *batch"], y: Float[Tensor, "k"]) -> Float[Tensor, "*batch k"]:
    """A product whose axis stands before others in one tensor, and behind them in another."""
    return x.movedim(0, -1) * y


@between.vjp("x")
def _(grad, y):
    return (grad * y).movedim(-1, 0)


@between.vjp("y")
def _(grad, x):
    return (grad * x.movedim(0, -1)).reshape(-1, grad.shape[-1]).sum(0)


@tg.op
def turned(x: Tensor) -> Tensor:
    """Linear, of no annotated axes: nobody knows the shape of its output before it is called."""
    return x.mT if x.dim() > 1 else x.flip(0)


@turned.adjoint("x")
def _(grad):
    return grad.mT if grad.dim() > 1 else grad.flip(0)


@tg.op(parallel="m")
def looked_up(table: Float[Tensor, "k m"], index: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch m"]:
    return table[index]


@looked_up.vjp("table")
def _(grad, index, table):
    flat = grad.reshape(-1, grad.shape[-1])
    return grad.new_zeros(table.shape).index_add(0, index.reshape(-1), flat)


@tg.op
def mean_of(x: Real[Tensor, "..."], y: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Elementwise, of mixed dtypes."""
    return (x + y * y) / 2


@mean_of.partial("x")
def _(x):
    return torch.full_like(x, 0.5)


@mean_of.partial("y")
def _(y):
    return y


@tg.op
def ranked(x: Float[Tensor, "*batch n"]) -> tuple[Float[Tensor, "*batch n"], Int64[Tensor, "*batch"]]:
    """Linear in its first output; the second is the place of the largest number, which no sum goes through."""
    return 2 * x, x.argmax(-1)


@ranked.adjoint("x")
def _(grad):
    return 2 * grad
