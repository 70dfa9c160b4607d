"""`tg.check` finds promises to a mesh that hold for the call it starts from, and for no other."""

import pytest
import torch
from jaxtyping import Float, Int64
from torch import Tensor

import torchgraft as tg


@tg.op(reduction="n")
def mean_or_sum(x: Float[Tensor, "*batch n"], mean: bool = False) -> Float[Tensor, "*batch"]:
    return x.mean(-1) if mean else x.sum(-1)


@mean_or_sum.vjp("x")
def _(grad, x, mean):
    return (grad / x.shape[-1] if mean else grad)[..., None].expand(x.shape)


@tg.op(parallel="n")
def rolled(x: Float[Tensor, "*batch n"], shift: int = 0) -> Float[Tensor, "*batch n"]:
    return x.roll(shift, -1)


@rolled.adjoint("x")
def _(grad, shift):
    return grad.roll(-shift, -1)


@tg.op(reduction="n")
def summed(xs: list[Float[Tensor, "*batch n"]]) -> Float[Tensor, "*batch"]:
    total = sum(x.sum(-1) for x in xs)
    return total + xs[0][..., :1].sum(-1) if len(xs) > 2 else total


@summed.vjp("xs")
def _(grad, xs):
    made = [grad[..., None].expand(x.shape) for x in xs]
    if len(xs) > 2 and xs[0].shape[-1]:
        made[0] = made[0] + torch.nn.functional.pad(grad[..., None], (0, xs[0].shape[-1] - 1))
    return made


@tg.op(parallel="m")
def rows(x: Float[Tensor, "*batch m n"]) -> tuple[Float[Tensor, "*batch m"], Int64[Tensor, "*batch m"]]:
    return x.sum(-1), torch.arange(x.shape[-2]).expand(x.shape[:-1])


@rows.vjp("x")
def _(grad, x):
    return grad[..., None].expand(x.shape)


@tg.op(reduction="n")
def any_negative(x: Float[Tensor, "*batch n"]) -> tuple[Float[Tensor, "*batch"], Int64[Tensor, "*batch"]]:
    return x.sum(-1), (x < 0).any(-1).long()


@any_negative.vjp("x")
def _(grad, x):
    return grad[..., None].expand(x.shape)


@tg.op(reduction="n")
def count_negative(x: Float[Tensor, "*batch n"]) -> tuple[Float[Tensor, "*batch"], Int64[Tensor, "*batch"]]:
    return x.sum(-1), (x < 0).sum(-1)


@count_negative.vjp("x")
def _(grad, x):
    return grad[..., None].expand(x.shape)


@tg.op(parallel="c")
def pairs(x: Float[Tensor, "c"]) -> Float[Tensor, "c"]:
    return x.unflatten(0, (-1, 2)).flip(-1).flatten()


@pairs.adjoint("x")
def _(grad):
    return grad.unflatten(0, (-1, 2)).flip(-1).flatten()


@pytest.mark.parametrize(
    ("op", "where"),
    [
        (mean_or_sum, "mean=True; "),
        (rolled, "shift=1; "),
        (summed, "xs of length 3; "),
        (rows, "out1; "),
        (any_negative, "out1; "),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_false_promises(op, where):
    report = tg.check(op, only="mesh")
    assert not report.ok
    assert report.findings[0].where.startswith(where), report


def test_a_true_promise_about_counts():
    assert tg.check(count_negative, only="mesh").ok


def test_parts_that_are_refused():
    report = tg.check(pairs, torch.ones(2, dtype=torch.float64), only="mesh")
    assert report.findings[0].title == "the result is another where c is cut in two, as a mesh may cut it"
