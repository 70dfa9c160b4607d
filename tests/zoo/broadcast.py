"""Inputs that were broadcast: their gradients are sums, over just those axes."""

from .bug import Bug, function, normal
from .observe import raw

GRADIENT = {"gradient"}


def add(x, bias):
    return x + bias


def scale(x, factor):
    return x * factor


ADD = function("Add", add, lambda grad, x, bias: (grad, grad.sum_to_size(bias.shape)))
SCALE = function("Scale", scale, lambda grad, x, factor: (grad * factor, (grad * x).sum_to_size(factor.shape)))

BUGS = [
    Bug(
        name="left_to_the_engine",
        wrong=function("Add", add, lambda grad, x, bias: (grad, grad)),
        right=ADD,
        truth=add,
        inputs=normal((4, 3), (3,)),
        shown_by=raw,
        expects={"shape", "broadcast", "reduc", "raw"},
        cause=("broadcast", "reduc", "sum", "shape"),
        source="pytorch#65244: the engine sums without a word, for a size that fits by accident too",
    ),
    Bug(
        name="mean_of_a_bias",
        wrong=function("Add", add, lambda grad, x, bias: (grad, grad.mean(0))),
        right=ADD,
        truth=add,
        inputs=normal((4, 3), (3,)),
        expects=GRADIENT,
        cause=("1/4", "mean", "1/N", "0.25"),
        source="the loss is a mean over the batch, so one takes the mean of the gradient once more",
    ),
    Bug(
        name="sum_over_the_wrong_axis",
        wrong=function("Add", add, lambda grad, x, bias: (grad, grad.sum(1))),
        right=ADD,
        truth=add,
        inputs=normal((3, 3), (3,)),
        expects=GRADIENT,
        cause=("axis", "axes", "transpos", "permut", "reduc", "sum"),
        source="hidden by as many features as samples",
    ),
    Bug(
        name="first_of_the_batch",
        wrong=function("Scale", scale, lambda grad, x, factor: (grad * factor, (grad * x)[0])),
        right=SCALE,
        truth=scale,
        inputs=normal((4, 3), (3,)),
        expects=GRADIENT,
        cause=("reduc", "broadcast", "sum", "batch", "zero", "row", "first", "entries"),
        source="code written for one sample and given a batch",
    ),
    Bug(
        name="scalar_without_its_factor",
        wrong=function("Scale", scale, lambda grad, x, factor: (grad * factor, grad.sum())),
        right=SCALE,
        truth=scale,
        inputs=normal((4, 3), ()),
        expects=GRADIENT,
        cause=("factor", "product", "chain", "x"),
        source="learned temperatures and gains",
    ),
    Bug(
        name="summed_twice",
        wrong=function("Add", add, lambda grad, x, bias: (grad, grad.sum(0, keepdim=True).expand_as(grad))),
        right=ADD,
        truth=add,
        inputs=normal((4, 3), (3,)),
        expects=GRADIENT | {"shape", "broadcast", "reduc"},
        cause=("factor 4", "N", "4 times", "broadcast", "size"),
        source="a reduction that keeps the shape, which the engine then sums again",
    ),
    Bug(
        name="wrong_for_a_column",
        wrong=function("Scale", scale, lambda grad, x, f: (grad * f, (grad * x).sum(0, keepdim=True).mT)),
        right=SCALE,
        truth=scale,
        inputs=normal((3, 3), (3, 1)),
        expects=GRADIENT,
        cause=("axis", "axes", "transpos", "reduc", "sum", "entries", "row"),
        source="per-row gains reduced as if they were per column",
    ),
]
