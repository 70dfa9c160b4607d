"""Operators of which the tests make modules; here, so that classes can be pickled and processes spawned."""

import numpy as np
import torch
from jaxtyping import Complex, Float, Float64, Int64
from torch import Tensor

import torchgraft as tg
from examples.correlate2d import correlate2d
from examples.linear import linear


@tg.op
def affine(
    x: Float[Tensor, "*batch n"],
    scale: Float[Tensor, "n"],
    mean: Float[Tensor, "n"],
    steps: Int64[Tensor, ""],
    power: int,
    offset: Float[Tensor, "n"] | None = None,
    shift: float = 1.0,
) -> Float[Tensor, "*batch n"]:
    """(x - mean) scale^power + shift."""
    out = (x - mean) * scale**power + shift
    return out if offset is None else out + offset


@affine.vjp("x")
def _(grad, scale, power):
    return grad * scale**power


@affine.vjp("scale")
def _(grad, x, mean, scale, power):
    full = grad * (x - mean) * power * scale ** (power - 1)
    return full.reshape(-1, full.shape[-1]).sum(0)


@affine.vjp("offset")
def _(grad):
    return grad.reshape(-1, grad.shape[-1]).sum(0)


@tg.op
def rotate(z: Complex[Tensor, "*batch n"], phase: Complex[Tensor, "m n"]) -> Complex[Tensor, "*batch m"]:
    return z @ phase.mT


@tg.op
def exact(x: Float64[Tensor, "n"], weight: Float64[Tensor, "2*n n+{k}"], k: int) -> Float64[Tensor, "2*n"]:
    return weight[:, : x.shape[0]] @ x


@tg.op
def bare(x: Tensor, weight: Tensor) -> Float[Tensor, ""]:
    return (x * weight).sum()


@tg.op
def listed(x: Float[Tensor, "n"], weights: list[Float[Tensor, "n"]]) -> Float[Tensor, "n"]:
    return x * sum(weights)


@tg.op
def dots(x: Float[Tensor, "..."], weight: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return x * weight


@tg.op
def anonymous(x: Float[Tensor, "n"], weight: Float[Tensor, "_ n"]) -> Float[Tensor, "n"]:
    return x * weight[0]


@tg.op
def hiding(x: Float[Tensor, "half"], weight: Float[Tensor, "half"]) -> Float[Tensor, "half"]:
    return x * weight


@tg.op
def broadcast(x: Float[Tensor, "n"], weight: Float[Tensor, "#n"]) -> Float[Tensor, "n"]:
    return x * weight


@tg.op
def keyword(x: Float[Tensor, "n"], *, weight: Float[Tensor, "n"], gain: float = 2.0) -> Float[Tensor, "n"]:
    return x * weight * gain


@tg.op
def shrinking(x: Float[np.ndarray, "n"], weight: Float[np.ndarray, "n-4"]) -> Float[np.ndarray, "n"]:
    return x * weight.sum()


@tg.op
def step(state: Float[Tensor, "n"], weight: Float[Tensor, "n n"], x: Float[Tensor, "k"]) -> Float[Tensor, "n"]:
    return torch.tanh(weight @ state) + x.sum()


@tg.op
def scaled(x: Float[Tensor, "n"], w: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x * w


@scaled.vjp("x", "w")
def _(grad, x, w):
    return grad * w, grad * x


@tg.op
def shifted(x: Float[Tensor, "n"], w: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x + w


@shifted.vjp("x", "w")
def _(grad):
    return grad, grad


Square = tg.module(step, parameters=("weight",))
Scale = tg.module(scaled, parameters=("w",))
Shift = tg.module(shifted, parameters=("w",))
Linear = tg.module(linear, parameters=("weight", "bias"))
Correlate2d = tg.module(correlate2d, parameters=("kernel",))
Affine = tg.module(affine, parameters=("scale", "offset"), buffers=("mean", "steps"))
Renamed = tg.module(linear, parameters=("weight",), name="Renamed", init={"weight": torch.nn.init.ones_})


@tg.op
def rows_and_columns(weight: Float[Tensor, "n n"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
    return weight.sum(0), weight.sum(1)
