"""Operators that write into an argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from _timing import Row, difference, interleave, ratio, us
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

IN_C = tg.c("void add_c_(int64_t n, T *y, const T *x, double a) { for (int64_t i = 0; i < n; i++) y[i] += a * x[i]; }")
PUT = tg.c("""
#include <string.h>
void put_(int64_t n, int64_t d, T *cache, const T *row, int64_t i) { memcpy(cache + i * d, row, d * sizeof(T)); }
""")


@tg.op(kernel=IN_C)
def add_c_(y: tg.Mutated[Float[Tensor, "n"]], x: Float[Tensor, "n"], a: float) -> None:
    return tg.native


@tg.op
def add_(y: tg.Mutated[Float[Tensor, "n"]], x: Float[Tensor, "n"], a: float) -> None:
    y.add_(x, alpha=a)


@add_.vjp("y")
def _(grad_y):
    return grad_y


@add_.vjp("x")
def _(grad_y, a):
    return a * grad_y


@tg.op(kernel=PUT)
def put_(cache: tg.Mutated[Float[Tensor, "n d"]], row: Float[Tensor, "d"], i: int) -> None:
    return tg.native


@tg.op(kernel=tg.c("T times(T x, double a) { return a * x; }"))
def times(x: Float[Tensor, "..."], a: float) -> Float[Tensor, "..."]:
    return tg.native


def kernel(y: Tensor, x: Tensor, a: float) -> None:
    y.add_(x, alpha=a)


class Dirty(torch.autograd.Function):
    """The same by hand."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, a: float) -> Tensor:
        ctx.a = a
        ctx.mark_dirty(y)
        y.add_(x, alpha=a)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad, ctx.a * grad, None


def written() -> Iterator[Row]:
    y, x = torch.zeros(8), torch.ones(8)
    with torch.no_grad():
        times_ = interleave(
            {
                "C": lambda: add_c_(y, x, 2.0), "torch": lambda: add_(y, x, 2.0), "kernel": lambda: kernel(y, x, 2.0),
                "add_": lambda: y.add_(x, alpha=2.0), "times": lambda: times(x, 2.0), "mul": lambda: torch.mul(x, 2.0),
            },
            2000,
        )  # fmt: skip
    yield Row(
        "written argument, no grad, C kernel / `y.add_(x, alpha=2.0)`", us(times_["C"]), us(times_["add_"]),
        f"{ratio(times_['C'], times_['add_']):.2f} x", "0.85 x",
    )  # fmt: skip
    yield Row(
        "written argument, no grad, torch kernel / the kernel alone", us(times_["torch"]), us(times_["kernel"]),
        f"+{difference(times_['torch'], times_['kernel']):.2f} us", "+0.8 us",
    )  # fmt: skip
    yield Row(
        "functional C operator, no grad / `torch.mul(x, 2.0)`", us(times_["times"]), us(times_["mul"]),
        f"{ratio(times_['times'], times_['mul']):.2f} x", "0.5 x",
    )  # fmt: skip
    yield from written_with_gradient()
    yield from written_row()


def written_with_gradient() -> Iterator[Row]:
    a, b = torch.ones(8, requires_grad=True), torch.ones(8, requires_grad=True)

    def step(write: Callable[..., Any]) -> None:
        y = a * 1
        write(y, b, 2.0)
        y.sum().backward()

    times_ = interleave({"ours": lambda: step(add_), "by hand": lambda: step(Dirty.apply)}, 300)
    yield Row(
        "written argument, forward + backward / a Function with `mark_dirty`", us(times_["ours"]),
        us(times_["by hand"]), f"{ratio(times_['ours'], times_['by hand']):.2f} x", "1.15 x",
    )  # fmt: skip


def written_row() -> Iterator[Row]:
    cache, row = torch.zeros(16384, 1024), torch.ones(1024)
    compiled = torch.compile(lambda cache, row: put_(cache, row, 5), fullgraph=True)
    by_torch = torch.compile(lambda cache, row: cache.__setitem__(5, row), fullgraph=True)
    with torch.no_grad():
        times_ = interleave(
            {
                "eager": lambda: put_(cache, row, 5), "torch": lambda: cache.__setitem__(5, row),
                "compiled": lambda: compiled(cache, row), "torch compiled": lambda: by_torch(cache, row),
            },
            100,
        )  # fmt: skip
    for what, ours, rival, bar in (
        ("eager", "eager", "torch", "20 us"),
        ("Inductor", "compiled", "torch compiled", "60 us"),
    ):
        yield Row(
            f"a row of a cache of 64 MB, C kernel, {what} / `cache[5] = row`", us(times_[ours]), us(times_[rival]),
            us(times_[ours]), bar,
        )  # fmt: skip
