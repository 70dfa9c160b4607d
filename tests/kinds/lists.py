"""Operators that return lists, in every language and form, each beside the same in plain torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
from examples.split import split, to_unit

LENGTHS = [1, 2, 3]


def cut(x: np.ndarray, lengths: list[int]) -> list[np.ndarray]:
    """The parts of x; `np.split` makes one of no lengths."""
    return [x[end - length : end] for end, length in zip(np.cumsum(lengths), lengths, strict=True)]


@tg.op
def split_np(x: Float[np.ndarray, "n"], lengths: list[int]) -> list[Float[np.ndarray, "_"]]:
    return cut(x, lengths)


@split_np.shape
def _(x, lengths):
    return [(length,) for length in lengths]


@split_np.vjp("x")
def _(grad: list[np.ndarray]):
    return np.concatenate(grad)


@split_np.jvp("x")
def _(x_tangent: np.ndarray, lengths):
    return cut(x_tangent, lengths)


@tg.op
def squares_np(x: Float[np.ndarray, "n"], lengths: list[int]) -> list[Float[np.ndarray, "_"]]:
    return cut(np.square(x), lengths)


@squares_np.shape
def _(x, lengths):
    return [(length,) for length in lengths]


@squares_np.vjp("x")
def _(grad: list[np.ndarray], x: np.ndarray):
    return 2 * x * np.concatenate(grad)


@squares_np.jvp("x")
def _(x: np.ndarray, x_tangent: np.ndarray, lengths):
    return cut(2 * x * x_tangent, lengths)


@tg.op
def scaled_np(x: Float[np.ndarray, "n"], w: Float[np.ndarray, ""], lengths: list[int]) -> list[Float[np.ndarray, "_"]]:
    return cut(x * w, lengths)


@scaled_np.shape
def _(x, w, lengths):
    return [(length,) for length in lengths]


@scaled_np.adjoint("x")
def _(grad: list[np.ndarray], w: np.ndarray):
    return np.concatenate(grad) * w


@scaled_np.adjoint("w")
def _(grad: list[np.ndarray], x: np.ndarray):
    return np.concatenate(grad) @ x


@tg.op(batch="loop")
def looped_np(x: Float[np.ndarray, "n"], lengths: list[int]) -> list[Float[np.ndarray, "_"]]:
    return cut(np.square(x), lengths)


@looped_np.shape
def _(x, lengths):
    return [(length,) for length in lengths]


@looped_np.vjp("x")
def _(grad: list[np.ndarray], x: np.ndarray):
    return 2 * x * np.concatenate(grad)


@tg.op
def batched(x: Float[Tensor, "*batch n"], lengths: list[int]) -> list[Float[Tensor, "*batch _"]]:
    return [part.sin() for part in x.split(lengths, -1)]


@batched.shape
def _(x, lengths):
    return [(*x[:-1], length) for length in lengths]


@batched.vjp("x")
def _(grad, out, x):
    assert [g.shape for g in grad] == [o.shape for o in out]
    return torch.cat(grad, -1) * x.cos()


IN_C = tg.c("""
void split_c(int64_t n, const T *x, const int64_t *lengths, int64_t lengths_length,
             T *const *out, const int64_t *const *out_sizes, int64_t out_length) {
    for (int64_t i = 0; i < out_length; i++)
        for (int64_t j = 0; j < out_sizes[i][0]; j++) out[i][j] = *x++;
}

void cat(int64_t n, const T *const *grad, const int64_t *const *grad_sizes, int64_t grad_length, T *grad_x) {
    for (int64_t i = 0; i < grad_length; i++)
        for (int64_t j = 0; j < grad_sizes[i][0]; j++) *grad_x++ = grad[i][j];
}
""")


@tg.op(kernel=IN_C)
def split_c(x: Float[Tensor, "*batch n"], lengths: list[int]) -> list[Float[Tensor, "*batch _"]]: ...


@split_c.shape
def _(x, lengths):
    if sum(lengths) != x[-1]:
        raise ValueError("lengths do not add up")
    return [(*x[:-1], length) for length in lengths]


@split_c.adjoint("x", kernel=IN_C)
def cat(grad): ...


def norm_of(xs):
    return torch.stack([x.square().sum() for x in xs]).sum().sqrt()


def unit_vjp(grad, xs):
    norm = norm_of(xs)
    along = sum((g * x).sum() for g, x in zip(grad, xs, strict=True)) / norm**3
    return [g / norm - along * x for g, x in zip(grad, xs, strict=True)]


@tg.op(
    kernel=tg.c("""
#include <math.h>
void unit_c(const T *const *xs, const int64_t *const *xs_sizes, int64_t xs_length,
            T *const *out, const int64_t *const *out_sizes, int64_t out_length, T *norm) {
    double sum = 0;
    for (int64_t i = 0; i < xs_length; i++)
        for (int64_t j = 0; j < xs_sizes[i][0]; j++) sum += (double)xs[i][j] * (double)xs[i][j];
    *norm = (T)sqrt(sum);
    for (int64_t i = 0; i < out_length; i++)
        for (int64_t j = 0; j < out_sizes[i][0]; j++) out[i][j] = (T)(xs[i][j] / sqrt(sum));
}
""")
)
def unit_c(xs: list[Float[Tensor, "_"]]) -> tuple[list[Float[Tensor, "_"]], tg.Saved[Float[Tensor, ""], "norm"]]: ...


@unit_c.shape
def _(xs):
    return xs, ()


unit_c.vjp("xs")(unit_vjp)


class Clipped(NamedTuple):
    parts: list[Float[Tensor, "_"]]
    norm: Float[Tensor, ""]


@tg.op
def clipped(x: Float[Tensor, "n"], lengths: list[int]) -> Clipped:
    return Clipped([part**2 for part in x.split(lengths)], x.square().sum())


@clipped.shape
def _(x, lengths):
    return [(length,) for length in lengths], ()


@clipped.vjp("x")
def _(grad_parts, grad_norm, x):
    return 2 * x * (torch.cat([x.new_zeros(0), *grad_parts]) + grad_norm)


def plain_clipped(x: Tensor, *, lengths: list[int]) -> Any:
    return [part**2 for part in x.split(lengths)], x.square().sum()


@tg.op
def saving(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, ""], tg.Saved[list[Float[Tensor, "_"]], "halves"]]:
    middle = x.shape[0] // 2
    return x.square().sum(), [x[:middle].detach().clone(), x[middle:].detach().clone()]


@saving.shape
def _(x):
    return (), [(x[0] // 2,), (x[0] - x[0] // 2,)]


@saving.vjp("x")
def _(grad, halves):
    return 2 * grad * torch.cat(halves)


@tg.op
def unbound(x: Float[Tensor, "*batch n"]) -> list[Float[Tensor, "*batch"]]:
    """Without a shape rule: the kernel alone knows the length."""
    return [column.clone() for column in x.unbind(-1)]


@unbound.vjp("x")
def _(grad, out):
    assert len(grad) == len(out)
    return torch.stack(grad, -1)


@dataclass(frozen=True)
class Example:
    """An operator as a function of one vector of six, beside plain torch.

    Attributes:
        op: the operator.
        call: it, as a function that returns a list.
        plain: the same in torch.
        forward: it has a forward mode.
        again: it has a second derivative.
    """

    op: tg.Op
    call: Callable[[Tensor], list[Tensor]]
    plain: Callable[[Tensor], list[Tensor]]
    forward: bool = True
    again: bool = True


def parts(x: Tensor) -> list[Tensor]:
    return list(x.split(LENGTHS, -1))


def unit(x: Tensor) -> list[Tensor]:
    return [part / x.square().sum().sqrt() for part in parts(x)]


def clipped_flat(x: Tensor) -> list[Tensor]:
    made, norm = clipped(x, LENGTHS)
    return [*made, norm]


def of_lengths(op: Any) -> Callable[[Tensor], list[Tensor]]:
    return lambda x: op(x, LENGTHS)


EXAMPLES = {
    "torch": Example(split, of_lengths(split), parts),
    "list in and out": Example(to_unit, lambda x: to_unit(parts(x)), unit),
    "NumPy": Example(split_np, of_lengths(split_np), parts, again=False),
    "NumPy adjoints": Example(
        scaled_np, lambda x: scaled_np(x, x.sum(), LENGTHS), lambda x: [part * x.sum() for part in parts(x)]
    ),
    "loop": Example(
        looped_np, of_lengths(looped_np), lambda x: [part.square() for part in parts(x)], forward=False, again=False
    ),
    "batch axes": Example(batched, of_lengths(batched), lambda x: [part.sin() for part in parts(x)]),
    "C": Example(split_c, of_lengths(split_c), parts),
    "C, list in and out": Example(unit_c, lambda x: unit_c(parts(x)), unit),
    "NamedTuple": Example(clipped, clipped_flat, lambda x: [*[p**2 for p in parts(x)], x.square().sum()]),
    "saved list": Example(saving, lambda x: [saving(x)], lambda x: [x.square().sum()], again=False),
    "no shape rule": Example(unbound, lambda x: unbound(x), lambda x: list(x.unbind(-1))),
    "one tensor": Example(split, lambda x: split(x, [6]), lambda x: [x.clone()]),
}
