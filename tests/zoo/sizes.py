"""Operators whose outputs have a size that is known only after the call, with wrong rules and kernels."""

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

import torchgraft as tg

from .bug import Bug
from .observe import values

GRADIENT = {"gradient"}


def runs(share):
    """The values of runs of equal neighbours; a rule shares out the cotangent of each."""

    @tg.op(data_dependent="k")
    def runs(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "k"], tg.Saved[Int64[Tensor, "k"], "counts"]]:
        return torch.unique_consecutive(x, return_counts=True)

    @runs.vjp("x")
    def _(grad, x, counts):
        return share(grad, counts)[torch.repeat_interleave(counts, output_size=x.shape[0])]

    return runs


def means_of_runs(x):
    counts = torch.unique_consecutive(x.detach(), return_counts=True)[1]
    run = torch.repeat_interleave(counts)
    return x.new_zeros(len(counts)).index_add(0, run, x) / counts


def tied():
    return (torch.tensor([0.5, 0.5, -1.25, 2.0, 2.0, 2.0], dtype=torch.float64),)


def positive(places):
    """The squares of positive elements; the rule puts their gradients into places."""

    @tg.op(data_dependent="k")
    def positive(x: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "k"], tg.Saved[Int64[np.ndarray, "k"], "index"]]:
        (index,) = np.nonzero(x > 0)
        return x[index] ** 2, index

    @positive.vjp("x")
    def _(grad, x, index):
        return torch.zeros_like(x).index_add(0, places(index), 2 * grad * x[index])

    return positive


def of_both_signs():
    return (torch.tensor([-0.5, 1.5, -1.0, 0.75, 2.0], dtype=torch.float64),)


def negative(body):
    """The negative elements, in C, in their order."""

    @tg.op(
        kernel=tg.c(f"void negative(int64_t n, const T *x, T *out, int64_t *k) {{ int64_t m = 0; {body} *k = m; }}"),
        data_dependent="k <= n",
    )
    def negative(x: Float[Tensor, "n"]) -> Float[Tensor, "k"]: ...

    @negative.vjp("x")
    def _(grad, x):
        return torch.zeros_like(x).index_add(0, torch.nonzero(x < 0)[:, 0], grad)

    negative.reference(lambda x: x[x < 0])
    return negative


FORWARDS = "for (int64_t i = 0; i < n; i++) if (x[i] < 0) out[m++] = x[i];"
BACKWARDS = "for (int64_t i = n; i-- > 0;) if (x[i] < 0) out[m++] = x[i];"


BUGS = [
    Bug(
        name="runs_with_the_whole_cotangent",
        wrong=runs(lambda grad, counts: grad),
        right=runs(lambda grad, counts: grad / counts),
        truth=means_of_runs,
        inputs=tied,
        expects=GRADIENT,
        cause=("factor", "equal", "times", "element", "entries", "row"),
        source="the cotangent of a run, given to each of its elements in full",
        smooth=False,  # A run falls apart where one of its elements moves.
    ),
    Bug(
        name="selection_at_the_front",
        wrong=positive(lambda index: torch.arange(index.shape[0])),
        right=positive(lambda index: index),
        truth=lambda x: x[x > 0] ** 2,
        inputs=of_both_signs,
        expects=GRADIENT,
        cause=("permut", "element", "entries", "place", "order", "row", "factor", "column"),
        source="gradients in the places of the outputs, not in those that were selected",
    ),
    Bug(
        name="selection_backwards",
        wrong=negative(BACKWARDS),
        right=negative(FORWARDS),
        truth=lambda x: x[x < 0],
        inputs=of_both_signs,
        shown_by=values,
        expects=GRADIENT | {"value", "reference", "output"},
        cause=("permut", "revers", "value", "reference", "order", "flip", "element", "entries", "kernel", "factor"),
        source="a loop from the end in one of two languages",
    ),
]
