"""Operators that write into an argument: what they write, and where."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

from .bug import Bug, normal

PAD = 8


def scale(kernel, rule=lambda grad_y, y, y_after: grad_y * y):
    """Declare `y *= x` with a kernel and the rule for x."""

    @tg.op
    def scale_(y: tg.Mutated[Float[Tensor, "n"]], x: Float[Tensor, "n"]) -> None:
        kernel(y, x)

    @scale_.vjp("y")
    def _(grad_y, x):
        return grad_y * x

    @scale_.vjp("x")
    def _(grad_y, y, y_after):
        return rule(grad_y, y, y_after)

    return scale_


def write(y, x):
    y.mul_(x)


def rebind(y, x):
    y = y * x


def write_where_memory_begins(y, x):
    """Right as long as the tensor is all that its memory holds."""
    torch.as_strided(y, y.shape, y.stride(), 0).mul_(x)


def written(target: Any, inputs: tuple[Any, ...]) -> Any:
    """The value and the gradients, in memory of its own and within a larger tensor; there, without gradients too."""
    y, x = (v.detach() for v in inputs)
    with torch.no_grad():
        for _ in range(2):  # The first call is made on copies.
            place = torch.cat([torch.zeros(PAD), y, torch.zeros(PAD)])[PAD:-PAD]
            shown = [(place if target(place, x) is None else truth(y, x)).clone()]
    for within in (False, True):
        y, x = (v.detach().clone().requires_grad_() for v in inputs)
        place = torch.cat([torch.zeros(PAD), y, torch.zeros(PAD)])[PAD:-PAD] if within else y * 1
        after = place if target(place, x) is None else truth(place, x)
        shown += [after.detach().clone(), *torch.autograd.grad((after**2).sum(), (y, x))]
    return shown


def truth(y, x):
    return y * x


def bug(name, wrong, cause, source, expects=frozenset({"writing"})):
    return Bug(
        name=name, wrong=wrong, right=scale(write), truth=truth, inputs=None, probe=normal(4, 4), shown_by=written,
        expects=set(expects), cause=cause, source=source, smooth=False,
    )  # fmt: skip


BUGS = [
    bug("writes_a_new_tensor", scale(rebind), ("binds",), "y = y * x in the place of y *= x"),
    bug(
        "writes_where_memory_begins", scale(write_where_memory_begins), ("memory",),
        "a kernel that takes the storage for the tensor",
    ),
    bug(
        "rule_reads_what_was_written", scale(write, lambda grad_y, y, y_after: grad_y * y_after), ("x",),
        "a backward that saves the tensor and not its value", {"gradient"},
    ),
]  # fmt: skip
