"""Operators whose annotations are strings, as ``from __future__ import annotations`` makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor

import torchgraft as tg

if TYPE_CHECKING:
    from jaxtyping import Real


@tg.op
def scale(x: Float[Tensor, "*batch n"], factor: float = 2.0) -> Float[Tensor, "*batch n"]:
    return x * factor


class Extrema(NamedTuple):
    low: Float[Tensor, ""]
    high: Float[Tensor, ""]


@tg.op
def extrema(x: Float[Tensor, "n"]) -> Extrema:
    return Extrema(x.amin(), x.amax())


@tg.op
def maximum(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, ""], tg.Saved[Int64[Tensor, ""], "index"]]:
    return x.amax(), x.argmax()


@maximum.vjp("x")
def _(grad: Tensor, x: Tensor, index: Tensor) -> Tensor:
    return grad * (tg_arange(x) == index)


def tg_arange(x):
    return x.detach().new_ones(x.shape).cumsum(0) - 1


@scale.vjp("x")
def _(grad: np.ndarray, factor: float) -> np.ndarray:
    return grad * factor


def with_local_names():
    Vector = Float[Tensor, "n"]
    size = 3

    class Pair(NamedTuple):
        first: Vector
        second: Vector

    @tg.op
    def pair(x: Vector, by: int = size) -> Pair:
        return Pair(x + by, x - by)

    return pair


def hidden_at_runtime():
    @tg.op
    def hidden(x: Real[Tensor, "n"]) -> Real[Tensor, "n"]:
        return x

    return hidden


def defined_later():
    @tg.op
    def uses_helper(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return helper(x)

    def helper(x):
        return x + 1

    return uses_helper
