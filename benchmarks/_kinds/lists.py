"""Lists of tensors as outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from _timing import Row, interleave, ratio, us
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


@tg.op
def split(x: Float[Tensor, "n"], lengths: list[int]) -> list[Float[Tensor, "_"]]:
    return [part.clone() for part in x.split(lengths)]


@split.shape
def _(x, lengths):
    return [(length,) for length in lengths]


@split.vjp("x")
def _(grad):
    return torch.cat(grad)


@tg.op
def thirds(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n//3"], Float[Tensor, "n//3"], Float[Tensor, "n//3"]]:
    first, second, third = x.split(x.shape[0] // 3)
    return first.clone(), second.clone(), third.clone()


@thirds.vjp("x")
def _(grad_out0, grad_out1, grad_out2):
    return torch.cat((grad_out0, grad_out1, grad_out2))


@torch.library.custom_op("kinds::split", mutates_args=())
def library_split(x: Tensor, lengths: list[int]) -> list[Tensor]:
    return [part.clone() for part in x.split(lengths)]


def _backward(ctx: Any, grads: list[Tensor]) -> tuple[Tensor, None]:
    return torch.cat(grads), None


library_split.register_autograd(_backward)


def lists() -> list[Row]:
    """Split into three parts: as a list, as a tuple of three, and by torch.library."""
    x, lengths = torch.randn(9), [3, 3, 3]
    leaf = x.clone().requires_grad_()

    def both(function: Callable[[Tensor], Any]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(sum(part.sum() for part in function(leaf)), leaf)

    ways: dict[str, Callable[[Tensor], Any]] = {
        "list": lambda x: split(x, lengths),
        "tuple": lambda x: thirds(x),
        "library": lambda x: library_split(x, lengths),
    }
    with torch.no_grad():
        calls = interleave({name: (lambda way=way: way(x)) for name, way in ways.items()}, 200)
    passes = interleave({name: both(way) for name, way in ways.items()}, 50)
    return [
        Row(f"split into 3, {what}", us(times["list"]), f"{rival} {us(times[key])}",
            f"{ratio(times['list'], times[key]):.2f} x", bar)
        for what, times in (("no grad", calls), ("forward + backward", passes))
        for rival, key, bar in (("a tuple of 3", "tuple", "1.5 x"), ("torch.library", "library", "1 x"))
    ]  # fmt: skip
