"""Axes taken for each other: transposed, permuted, flipped and shifted gradients. Most hide in square tensors."""

import torch
from torch.autograd import Function

from .bug import Bug, function, given, normal

GRADIENT = {"gradient"}


def matmul(x, weight):
    return x @ weight


def normalized_softmax(x):
    return torch.softmax(x, -1)


def softmax_gradient_over(dim):
    def gradient(grad, x):
        weighted = grad * normalized_softmax(x)
        return weighted - normalized_softmax(x) * weighted.sum(dim, keepdim=True)

    return gradient


def correlated(x, kernel):
    return x.unfold(0, kernel.shape[0], 1) @ kernel


def correlated_gradient(flip):
    def gradient(grad, x, kernel):
        taps = x.unfold(0, kernel.shape[0], 1).mT @ grad
        places = torch.arange(grad.shape[0])[:, None] + torch.arange(kernel.shape[0])
        spread = (grad[:, None] * kernel).reshape(-1)
        return torch.zeros_like(x).index_add(0, places.reshape(-1), spread), taps.flip(0) if flip else taps

    return gradient


def quadratic(x, matrix):
    return x @ matrix @ x


def taken(x, index):
    return x[index]


def lower(x):
    return x.tril()


def ramp(n):
    return torch.arange(1.0, n + 1.0)


def misspelt(n):
    return torch.cat([ramp(n)[:2], ramp(n)[2:4].flip(0), ramp(n)[4:]])


class ScaledChannels(Function):
    """A factor for each channel, of tensors with or without places behind the channels."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x * scale.view(-1, *(1,) * (x.dim() - 2))

    @classmethod
    def backward(cls, ctx, grad):
        x, scale = ctx.saved_tensors
        return grad * scale.view(-1, *(1,) * (x.dim() - 2)), cls.of_channels(grad * x, len(scale))

    @staticmethod
    def of_channels(product, count):
        return product.sum([axis for axis in range(product.dim()) if axis != 1])


class ScaledLastAxis(ScaledChannels):
    @staticmethod
    def of_channels(product, count):
        return product.reshape(-1, count).sum(0)


BUGS = [
    Bug(
        name="channels_taken_for_the_last_axis",
        wrong=ScaledLastAxis.apply,
        right=ScaledChannels.apply,
        truth=lambda x, scale: x * scale.view(-1, *(1,) * (x.dim() - 2)),
        inputs=normal((5, 3), (3,)),
        probe=normal((5, 3, 2), (3,)),
        expects=GRADIENT | {"size"},
        cause=("axis behind", "permut", "entries", "element", "channel"),
        source="layers for (N, C) that are given (N, C, L)",
    ),
    Bug(
        name="transposed",
        wrong=function("Matmul", matmul, lambda grad, x, w: (grad @ w.mT, grad.mT @ x)),
        right=function("Matmul", matmul, lambda grad, x, w: (grad @ w.mT, x.mT @ grad)),
        truth=matmul,
        inputs=normal((3, 3), (3, 3)),
        expects=GRADIENT,
        cause=("transpos", "axes", "permut"),
        source="the weight of a layer that is square in the test",
    ),
    Bug(
        name="transposed_operand",
        wrong=function("Matmul", matmul, lambda grad, x, w: (grad @ w, x.mT @ grad)),
        right=function("Matmul", matmul, lambda grad, x, w: (grad @ w.mT, x.mT @ grad)),
        truth=matmul,
        inputs=normal((4, 3), (3, 3)),
        expects=GRADIENT,
        cause=("transpos", "operand", "permut"),
        source="conventions x W and x W^T mixed",
    ),
    Bug(
        name="flipped_kernel",
        wrong=function("Correlate", correlated, correlated_gradient(flip=True)),
        right=function("Correlate", correlated, correlated_gradient(flip=False)),
        truth=correlated,
        inputs=normal((7,), (3,)),
        expects=GRADIENT,
        cause=("flip", "revers", "permut"),
        source="convolution taken for correlation",
    ),
    Bug(
        name="cumsum_forwards",
        wrong=function("Cumsum", lambda x: x.cumsum(0), lambda grad, x: grad.cumsum(0)),
        right=function("Cumsum", lambda x: x.cumsum(0), lambda grad, x: grad.flip(0).cumsum(0).flip(0)),
        truth=lambda x: x.cumsum(0),
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("transpos", "flip", "revers"),
        source="recurrences run forwards in backward",
    ),
    Bug(
        name="same_permutation",
        wrong=function("Permute", lambda x: x.permute(1, 2, 0).clone(), lambda grad, x: grad.permute(1, 2, 0)),
        right=function("Permute", lambda x: x.permute(1, 2, 0).clone(), lambda grad, x: grad.permute(2, 0, 1)),
        truth=lambda x: x.permute(1, 2, 0),
        inputs=normal((3, 3, 3)),
        expects=GRADIENT,
        cause=("permut", "axes", "transpos"),
        source="permutations that are not their own inverse",
    ),
    Bug(
        name="wrong_axis",
        wrong=function("Softmax", normalized_softmax, softmax_gradient_over(0)),
        right=function("Softmax", normalized_softmax, softmax_gradient_over(-1)),
        truth=normalized_softmax,
        inputs=normal((4, 4)),
        expects=GRADIENT,
        cause=("axis", "axes", "row", "column", "entries", "sum"),
        source="dim=0 for dim=-1 in one of two places",
    ),
    Bug(
        name="rolled_on",
        wrong=function("Roll", lambda x: x.roll(1, 0), lambda grad, x: grad.roll(1, 0)),
        right=function("Roll", lambda x: x.roll(1, 0), lambda grad, x: grad.roll(-1, 0)),
        truth=lambda x: x.roll(1, 0),
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("roll", "shift", "permut", "transpos"),
        source="shifts and delays",
    ),
    Bug(
        name="square_only",
        wrong=function("Mean", lambda x: x.mean(1), lambda grad, x: grad[:, None].expand_as(x) / x.shape[0]),
        right=function("Mean", lambda x: x.mean(1), lambda grad, x: grad[:, None].expand_as(x) / x.shape[1]),
        truth=lambda x: x.mean(1),
        inputs=normal((4, 4)),
        probe=normal((4, 3)),
        expects=GRADIENT | {"shape", "size", "square"},
        cause=("square", "axis", "axes", "3/", "/3", "size", "factor"),
        source="tests of square tensors alone",
    ),
    Bug(
        name="repeated_index",
        wrong=function("Take", taken, lambda grad, x, i: (torch.zeros_like(x).index_put((i,), grad), None)),
        right=function("Take", taken, lambda grad, x, i: (torch.zeros_like(x).index_add(0, i, grad), None)),
        truth=taken,
        inputs=lambda: (*normal((4, 2))(), torch.tensor([0, 2, 2, 1, 2])),
        expects=GRADIENT,
        cause=("repeat", "duplicate", "accumul", "twice", "zero", "row", "entries"),
        source="embeddings and gathers: assignment where there should be a sum",
    ),
    Bug(
        name="unmasked_triangle",
        wrong=function("Lower", lower, lambda grad, x: grad.clone()),
        right=function("Lower", lower, lambda grad, x: grad.tril()),
        truth=lower,
        inputs=normal((3, 3)),
        expects=GRADIENT,
        cause=("triang", "mask", "zero", "entries", "element"),
        source="Cholesky factors and causal masks",
    ),
    Bug(
        name="symmetry_assumed",
        wrong=function("Form", quadratic, lambda grad, x, a: (2 * grad * (a @ x), grad * torch.outer(x, x))),
        right=function("Form", quadratic, lambda grad, x, a: (grad * (a @ x + a.mT @ x), grad * torch.outer(x, x))),
        truth=quadratic,
        inputs=normal((4,), (4, 4)),
        expects=GRADIENT,
        cause=("symmetr", "transpos", "input", "entries", "element"),
        source="2 A x for x^T A x, from the matrix cookbook's symmetric case",
    ),
    Bug(
        name="neighbours_swapped",
        wrong=function("Ramp", lambda x: x * ramp(len(x)), lambda grad, x: grad * misspelt(len(x))),
        right=function("Ramp", lambda x: x * ramp(len(x)), lambda grad, x: grad * ramp(len(x))),
        truth=lambda x: x * ramp(len(x)),
        inputs=given([0.5, -1.0, 2.0, 0.25, 1.5]),
        expects=GRADIENT,
        cause=("indices 2, 3", "swap", "permut", "entries", "element"),
        source="tables of coefficients typed twice",
    ),
]
