"""Promises to a mesh that are not kept: on one process the operator is right, on several its numbers are wrong."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

from .bug import Bug, normal
from .observe import meshed

EXPECTS = {"mesh"}


def layer(kernel, **promises):
    """A layer, declared with promises about its axes."""

    @tg.op(**promises)
    def layer(
        x: Float[Tensor, "*batch n"], w: Float[Tensor, "m n"], b: Float[Tensor, "m"]
    ) -> Float[Tensor, "*batch m"]:
        return kernel(x @ w.mT, b)

    return with_rules(layer, kernel)


def layer_of_rows(kernel):
    """A layer that promises nothing: its rows are an axis with a name."""

    @tg.op
    def layer(x: Float[Tensor, "k n"], w: Float[Tensor, "m n"], b: Float[Tensor, "m"]) -> Float[Tensor, "k m"]:
        return kernel(x @ w.mT, b)

    return with_rules(layer, kernel)


def with_rules(op, kernel):
    """Give a layer the derivative of what its kernel does with the product and the bias."""

    @op.vjp("x", "w", "b")
    def _(grad, x, w, b):
        product, bias = VJPS[kernel](grad, x @ w.mT, b)
        rows, inputs, biases = (torch.atleast_2d(t).flatten(0, -2) for t in (product, x, bias))
        return product @ w, rows.mT @ inputs, biases.sum(0)

    return op


def centered(product, b):
    """Affine, less the mean over the batch, as batch normalization computes it."""
    out = product + b
    return out - out.mean(0) if out.dim() > 1 else out


def attention(product, b):
    return torch.softmax(product + b, -1)


def attention_vjp(grad, product, b):
    out = attention(product, b)
    inner = out * (grad - (grad * out).sum(-1, keepdim=True))
    return inner, inner


def saturated(product, b):
    return torch.tanh(product) + b


def shifted(product, b):
    """Affine, with a second bias that no argument carries."""
    return product + b + 1


def scaled(product, b):
    return product * b


VJPS = {
    centered: lambda grad, product, b: (centered(grad, 0), centered(grad, 0)),
    attention: attention_vjp,
    saturated: lambda grad, product, b: (grad * (1 - torch.tanh(product) ** 2), grad),
    shifted: lambda grad, product, b: (grad, grad),
    scaled: lambda grad, product, b: (grad * b, grad * product),
}
"""The gradients of product and bias."""


def truth(kernel):
    """The layer by torch's own functions."""
    return lambda x, w, b: kernel(x @ w.mT, b)


def bug(name, wrong, right, kernel, places, cause, source):
    return Bug(
        name=name, wrong=wrong, right=right, truth=truth(kernel), inputs=None, probe=normal((4, 6), (2, 6), (2,)),
        shown_by=meshed(*places), expects=EXPECTS, cause=cause, source=source,
    )  # fmt: skip


BATCH, COLUMNS, ROWS = (0, None, None), (None, 0, 0), (1, 1, None)

BUGS = [
    bug(
        "mesh_normalised_over_its_batch", layer(centered), layer_of_rows(centered), centered, BATCH,
        ("mix", "batch", "sample"), "batch statistics in an operator whose annotation says *batch",
    ),
    bug(
        "mesh_parallel_softmax", layer(attention, parallel="m"), layer(attention), attention, COLUMNS,
        ("slices", "itself"), "a normalization over the axis that tensor parallelism cuts",
    ),
    bug(
        "mesh_reduction_of_a_nonlinear_map", layer(saturated, reduction="n"), layer(saturated), saturated, ROWS,
        ("sum",), "an activation fused into a row-parallel layer",
    ),
    bug(
        "mesh_bias_counted_twice", layer(shifted, reduction="n"), layer(shifted), shifted, ROWS,
        ("sum", "once"), "a bias that each rank adds to its part",
    ),
    bug(
        "mesh_scale_counted_once", layer(scaled, reduction="n"), layer(scaled), scaled, ROWS,
        ("sum", "once"), "a factor where a bias may stand",
    ),
]  # fmt: skip
