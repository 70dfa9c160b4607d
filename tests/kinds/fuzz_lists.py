"""Random operators that return lists, under random transforms, beside plain torch.

``python -m tests.kinds.fuzz_lists 0 500`` tries the seeds from 0 to 499, and prints those that are wrong.
"""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad

import torchgraft as tg

N = 5
F = torch.func


@dataclass(frozen=True)
class Item:
    """One tensor of the list: ``scale * sin(x[..., start:stop]) * w``."""

    start: int
    stop: int
    scale: float


@dataclass(frozen=True)
class Drawn:
    """An operator of one tensor `x`, and a number `w` for each sample.

    Attributes:
        items: of the list.
        numpy: it is written in NumPy.
        axes: of its samples: none, ``*batch`` in front, or those that ``batch="loop"`` adds.
        beside: what it returns beside the list: nothing, a sum behind or before it, or a saved tensor.
        ruled: it has a shape rule.
        reads: its rule reads the output.
        kind: of its rules.
    """

    items: tuple[Item, ...]
    numpy: bool
    axes: str
    beside: str
    ruled: bool
    reads: bool
    kind: str


def draw(source: random.Random) -> Drawn:
    items = []
    for _ in range(source.choice([0, 1, 2, 2, 3, 4])):
        start = source.randrange(N + 1)
        items.append(Item(start, source.randint(start, N), source.choice([1.0, -0.5, 2.0])))
    numpy, axes = source.random() < 0.4, source.choice(["", "*batch ", "loop"])
    ruled = numpy or source.random() < 0.8 or axes == "loop"
    kind = "vjp" if numpy else source.choice(["vjp", "vjp", "jvp and vjp"])
    beside = source.choice(["nothing", "nothing", "behind", "before", "saved"])
    reads = source.random() < 0.4
    return Drawn(tuple(items), numpy, axes, beside, ruled, reads, kind)


def plain_list(drawn: Drawn, x: Tensor, w: Tensor) -> list[Tensor]:
    return [item.scale * x[..., item.start : item.stop].sin() * w[..., None] for item in drawn.items]


def plain(drawn: Drawn, x: Tensor, w: Tensor) -> list[Tensor]:
    """A number of the call, since torch has no function without a result, and all that the caller sees, flat."""
    made = plain_list(drawn, x, w)
    total = [x.square().sum(-1) * w]
    shown = [*made, *total] if drawn.beside == "behind" else [*total, *made] if drawn.beside == "before" else made
    return [2 * w, *shown]


def operator(drawn: Drawn) -> Callable[[Tensor, Tensor], list[Tensor]]:
    """The operator, as a function that returns what the caller sees, flat."""
    array: Any = np.ndarray if drawn.numpy else Tensor
    run = "*batch " if drawn.axes == "*batch " else ""
    vector, number, item = Float[array, f"{run}n"], Float[array, run.strip()], Float[array, f"{run}_"]
    result: Any = list[item]
    if drawn.beside == "behind":
        result = tuple[result, number]
    elif drawn.beside == "before":
        result = tuple[number, result]
    elif drawn.beside == "saved":
        result = tuple[result, tg.Saved[vector, "kept"]]

    def arranged(made: list[Any], total: Any, kept: Any) -> Any:
        return {"behind": (made, total), "before": (total, made), "saved": (made, kept)}.get(drawn.beside, made)

    sine, cosine = (np.sin, np.cos) if drawn.numpy else (torch.sin, torch.cos)

    def kernel(x: vector, w: number) -> result:
        made = [item.scale * sine(x[..., item.start : item.stop]) * w[..., None] for item in drawn.items]
        return arranged(made, (x**2).sum(-1) * w, 2 * x)

    kernel.__name__ = kernel.__qualname__ = "drawn"
    op = tg.op(kernel, batch="loop") if drawn.axes == "loop" else tg.op(kernel)
    if drawn.ruled:
        op.shape(lambda x, w: arranged([(*x[:-1], i.stop - i.start) for i in drawn.items], x[:-1], tuple(x)))
    cotangents = {"behind": "grad_out0, grad_out1", "before": "grad_out1, grad_out0"}.get(drawn.beside, "grad")
    outputs = {"behind": "out0", "before": "out1"}.get(drawn.beside, "out")
    declare_rules(op, drawn, cosine, cotangents, outputs)

    def call(x: Tensor, w: Tensor) -> list[Tensor]:
        made = op(x, w)
        if drawn.beside in ("behind", "before"):
            one, other = made
            made = [*one, other] if drawn.beside == "behind" else [one, *other]
        assert type(made) is list
        return [2 * w, *made]

    return call


def declare_rules(op: Any, drawn: Drawn, cosine: Any, cotangents: str, output: str) -> None:
    """The rules are written as text, since they ask by name."""
    zeros = "np.zeros_like" if drawn.numpy else "torch.zeros_like"
    note = ": np.ndarray" if drawn.numpy else ""
    grads, _, total = cotangents.partition(", ")
    reads = f", {output}" if drawn.reads else ""
    seen = f"assert [g.shape for g in {grads}] == [o.shape for o in {output}]" if drawn.reads else "pass"
    add = f"gx = gx + 2 * x * (w * {total})[..., None]; gw = gw + (x ** 2).sum(-1) * {total}" if total else "pass"
    text = f"""
def rule({cotangents}{reads}, x{note}, w):
    {seen}
    gx, gw = {zeros}(x), {zeros}(w)
    for g, i in zip({grads}, items, strict=True):
        part = {zeros}(x)
        part[..., i.start : i.stop] = g
        gx = gx + part * i.scale * cosine(x) * w[..., None]
        gw = gw + (part * i.scale * sine(x)).sum(-1)
    {add}
    return gx, gw
"""
    if not drawn.numpy:  # Written in place, it would be no rule that torch can map.
        text = text.replace(
            "part = torch.zeros_like(x)\n        part[..., i.start : i.stop] = g",
            f"part = torch.nn.functional.pad(g, (i.start, {N} - i.stop))",
        )
    names = {"np": np, "torch": torch, "items": drawn.items, "cosine": cosine,
             "sine": np.sin if drawn.numpy else torch.sin}  # fmt: skip
    exec(text, names)
    op.vjp("x", "w")(names["rule"])
    if drawn.kind == "jvp and vjp":
        op.jvp("x", "w")(lambda x, w, x_tangent, w_tangent: tangents(drawn, x, w, x_tangent, w_tangent))


def tangents(drawn: Drawn, x: Tensor, w: Tensor, dx: Tensor, dw: Tensor) -> Any:
    made = [
        i.scale * (x.cos() * dx * w[..., None] + x.sin() * dw[..., None])[..., i.start : i.stop] for i in drawn.items
    ]
    total = 2 * (x * dx).sum(-1) * w + x.square().sum(-1) * dw
    return (made, total) if drawn.beside == "behind" else (total, made) if drawn.beside == "before" else made


# -- transforms -------------------------------------------------------------------------------------------------------

Function = Callable[[Tensor, Tensor], list[Tensor]]


def number(function: Function) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, w: sum((i + 1) * made.tanh().sum() for i, made in enumerate(function(x, w)))


def gradient(function: Function) -> Function:
    return lambda x, w: list(F.grad(number(function), (0, 1))(x, w))


def backward(function: Function) -> Function:
    def call(x: Tensor, w: Tensor) -> list[Tensor]:
        leaves = [tensor.detach().clone().requires_grad_() for tensor in (x, w)]
        found = torch.autograd.grad(number(function)(*leaves), leaves, allow_unused=True)
        return [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves, strict=True)]

    return call


def pushed(function: Function) -> Function:
    return lambda x, w: list(F.jvp(lambda x, w: tuple(function(x, w)), (x, w), (x.cos(), w + 1))[1])


def dual(function: Function) -> Function:
    def call(x: Tensor, w: Tensor) -> list[Tensor]:
        with forward_ad.dual_level():
            made = function(forward_ad.make_dual(x, x.cos()), forward_ad.make_dual(w, w + 1))
            found = [(m, forward_ad.unpack_dual(m).tangent) for m in made]
        return [torch.zeros_like(m) if t is None else t for m, t in found]

    return call


def pulled(function: Function) -> Function:
    def call(x: Tensor, w: Tensor) -> list[Tensor]:
        made, pull = F.vjp(lambda x, w: tuple(function(x, w)), x, w)
        return list(pull(made))

    return call


def mapped(function: Function) -> Function:
    return lambda x, w: list(torch.vmap(function)(torch.stack([x, x + 1]), torch.stack([w, -w])))


def mapped_x(function: Function) -> Function:
    return lambda x, w: list(torch.vmap(lambda x: function(x, w), -1)(torch.stack([x, x + 1], -1)))


def compiled(function: Function) -> Function:
    def call(x: Tensor, w: Tensor) -> list[Tensor]:
        torch._dynamo.reset()
        return list(torch.compile(function, backend="aot_eager", fullgraph=True)(x, w))

    return call


def checkpointed(function: Function) -> Function:
    return lambda x, w: torch.utils.checkpoint.checkpoint(function, x, w, use_reentrant=False)


INNER = [gradient, pushed, pulled, mapped, mapped_x]
"""Transforms that may stand within others."""
OUTER = [*INNER, backward, dual, compiled, checkpointed]


def attempt(seed: int) -> str | None:
    """What is wrong with a random program; None if it is right, or refused."""
    source = random.Random(seed)
    drawn = draw(source)
    op = operator(drawn)
    chain = [source.choice(OUTER), *(source.choice(INNER) for _ in range(source.choice([0, 0, 1, 1, 2])))]
    generator = torch.Generator().manual_seed(seed)
    batch = source.choice([(), (2,), (3, 2)]) if drawn.axes else ()
    x = torch.randn((*batch, N), generator=generator, dtype=torch.float64)
    w = torch.randn(batch, generator=generator, dtype=torch.float64)

    def whole(function: Function) -> Function:
        for transform in reversed(chain):
            function = transform(function)
        return function

    words = f"seed {seed}: {[t.__name__ for t in chain]} of {drawn}, batch {batch}"
    try:
        expected = whole(lambda x, w: plain(drawn, x, w))(x, w)
    except Exception:  # Torch itself cannot: dual levels, for one, do not nest.
        return None
    for _ in range(2):
        try:
            made = whole(op)(x, w)
        except (tg.DerivativeError, tg.UnsupportedError) as error:
            needed = drawn.numpy or drawn.axes == "loop"
            return None if needed else f"{words}: refused: {error}"
        except Exception as error:
            if drawn.numpy and "DerivativeError" in str(error):
                return None
            return f"{words}: {type(error).__name__}: {error}"
        try:
            torch.testing.assert_close(list(made), list(expected))
        except AssertionError as error:
            return f"{words}: {error}"
    return None


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    wrong = [text for text in map(attempt, range(first, last)) if text is not None]
    print(*wrong, f"{len(wrong)} of {last - first}", sep="\n\n")
