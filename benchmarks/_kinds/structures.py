"""Structures as arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from _timing import Row, difference, interleave, us
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

Vector = Float[Tensor, "n"]


@dataclass
class State:
    a: Vector
    b: Vector
    c: Vector
    d: Vector


class Four(NamedTuple):
    a: Vector
    b: Vector
    c: Vector
    d: Vector


FIRST = """
void {0}(int64_t n, const T *{1}a, const T *{1}b, const T *{1}c, const T *{1}d, T *out) {{ out[0] = {1}a[0]; }}
"""


@tg.op
def of_four(a: Vector, b: Vector, c: Vector, d: Vector) -> Vector:
    return torch.neg(a)


@tg.op
def of_state(state: State) -> Vector:
    return torch.neg(state.a)


@tg.op
def of_namedtuple(state: Four) -> Vector:
    return torch.neg(state.a)


@tg.op(kernel=tg.c(FIRST.format("of_four_c", "")))
def of_four_c(a: Vector, b: Vector, c: Vector, d: Vector) -> Vector:
    return tg.native


@tg.op(kernel=tg.c(FIRST.format("of_state_c", "state_")))
def of_state_c(state: State) -> Vector:
    return tg.native


def structures() -> list[Row]:
    """A structure of four tensors over four arguments, without gradients."""
    tensors = [torch.randn(8) for _ in range(4)]
    a, b, c, d = tensors
    state, pair = State(*tensors), Four(*tensors)
    with torch.no_grad():
        times = interleave(
            {
                "four": lambda: of_four(a, b, c, d), "state": lambda: of_state(state),
                "pair": lambda: of_namedtuple(pair), "four in C": lambda: of_four_c(a, b, c, d),
                "state in C": lambda: of_state_c(state),
            },
            2000,
        )  # fmt: skip
    rows = [
        ("dataclass of 4 tensors, kernel in torch", "state", "four", "+0.30 us"),
        ("dataclass of 4 tensors, kernel in C", "state in C", "four in C", "+0.30 us"),
        ("NamedTuple of 4 tensors, kernel in torch", "pair", "four", ""),
    ]
    return [
        Row(what, us(times[ours]), f"4 arguments {us(times[rival])}",
            f"{difference(times[ours], times[rival]):+.2f} us", bar)
        for what, ours, rival, bar in rows
    ]  # fmt: skip
