"""One operator with a seed, in all the ways in which a kernel can be written: all of them draw the same numbers."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

C = tg.c("""
#include <torchgraft/random.h>

void in_c(int64_t n, const T *x, double p, int64_t seed, T *out) {
    for (int64_t i = 0; i < n; i++) out[i] = tg_uniform(seed, i) < p ? 0 : x[i] / (1 - p);
}

void in_c_adjoint_x(int64_t n, const T *grad, double p, int64_t seed, T *grad_x) {
    for (int64_t i = 0; i < n; i++) grad_x[i] = tg_uniform(seed, i) < p ? 0 : grad[i] / (1 - p);
}
""")

ELEMENTS = tg.c("""
#include <torchgraft/random.h>

T elements_in_c(T x, double p, int64_t seed) { return tg_uniform(seed, 0) < p ? 0 : x / (1 - p); }
T elements_in_c_partial_x(T x, double p, int64_t seed) { return tg_uniform(seed, 0) < p ? 0 : 1 / (1 - p); }
""")


def dropped(seed, x, p):
    return torch.where(tg.random_uniform(seed, x.shape[-1:], dtype=torch.float64) < p, 0, x / (1 - p))


@tg.op
def in_torch(x: Float[Tensor, "*batch n"], p: float, *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "*batch n"]:
    return dropped(seed, x, p)


@in_torch.vjp("x")
def _(grad, p, seed):
    return dropped(seed, grad, p)


@tg.op(kernel=C)
def in_c(x: Float[Tensor, "*batch n"], p: float, *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "*batch n"]: ...


@in_c.adjoint("x", kernel=C)
def _(grad, p, seed): ...


@tg.op(batch="loop")
def looped(x: Float[Tensor, "n"], p: float, *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "n"]:
    return dropped(seed, x, p)


@looped.vjp("x")
def _(grad, p, seed):
    return dropped(seed, grad, p)


@tg.op(batch="loop")
def in_numpy(x: Float[np.ndarray, "n"], p: float, *, seed: tg.Seed = tg.drawn) -> Float[np.ndarray, "n"]:
    return np.where(tg.random_uniform(seed, x.shape) < p, 0, x / (1 - p)).astype(x.dtype)


@in_numpy.adjoint("x")
def _(grad: np.ndarray, p, seed: np.ndarray):
    return np.where(tg.random_uniform(seed, grad.shape) < p, 0, grad / (1 - p)).astype(grad.dtype)


@tg.op
def elements(x: Float[Tensor, "..."], p: float, *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "..."]:
    return torch.where(tg.random_uniform(seed, dtype=torch.float64) < p, 0, x / (1 - p))


@elements.partial("x")
def _(x, p, seed):
    return torch.where(tg.random_uniform(seed, dtype=torch.float64) < p, 0, torch.ones_like(x) / (1 - p))


@tg.op(kernel=ELEMENTS)
def elements_in_c(x: Float[Tensor, "..."], p: float, *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "..."]: ...


@elements_in_c.partial("x", kernel=ELEMENTS)
def _(x, p, seed): ...


ROWS = (in_torch, in_c, looped, in_numpy)
"""Samples are rows: each draws a number for each element of its own."""

ELEMENTWISE = (elements, elements_in_c)
"""Samples are elements."""

ALL = (*ROWS, *ELEMENTWISE)


def plain(x, p, seed, *, elementwise):
    """The same in plain torch, for a seed that is a number, or has the batch axes of `x`."""
    batch = x.shape if elementwise else x.shape[:-1]
    seed = torch.as_tensor(seed)
    if not seed.dim() and len(batch):
        seed = tg.random_fold(seed, torch.arange(batch.numel()).reshape(batch))
    shape = () if elementwise else x.shape[-1:]
    return torch.where(tg.random_uniform(seed, shape, dtype=torch.float64) < p, 0, x / (1 - p))
