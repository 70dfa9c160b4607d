"""Targets of many kinds that pass every check."""

import math

import numpy as np
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ...functions import linear_function
from .looking import DOUBLE, SIN, function, modern, normal, plain

COMPLEX = torch.complex128


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


Linear = linear_function(Function)


class SinAndCos(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, of_sin, of_cos):
        (x,) = ctx.saved_tensors
        terms = [] if of_sin is None else [of_sin * x.cos()]
        return sum(terms if of_cos is None else [*terms, -of_cos * x.sin()])


class Sorted(Function):
    """Its second output is whole, its second input no tensor."""

    @staticmethod
    def forward(ctx, x, factor):
        values, index = x.sort(-1)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        ctx.factor = factor
        return values * factor, index

    @staticmethod
    def backward(ctx, grad, _):
        (index,) = ctx.saved_tensors
        return torch.zeros_like(grad).scatter(-1, index, grad * ctx.factor), None


def _numpy_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return torch.from_numpy(np.cos(x.detach().numpy()) * grad.numpy())


def _numpy_forward(ctx, x):
    ctx.save_for_backward(x)
    return torch.from_numpy(np.sin(x.detach().numpy()))


def _drop(ctx, x):
    mask = (torch.rand_like(x) > 0.5).to(x.dtype)
    ctx.save_for_backward(mask)
    return x * mask


def _move(x, dim):
    return x if dim is None else x.movedim(dim, 0)


MATMUL = modern(
    torch.matmul,
    lambda grad, x, y: (grad @ y.mT, x.mT @ grad),
    lambda dx, dy, x, y: sum(t for t in (dx if dx is None else dx @ y, dy if dy is None else x @ dy) if t is not None),
    lambda apply, dims, x, y: (apply(_move(x, dims[0]), _move(y, dims[1])), 0),
)

LOGDET = modern(lambda a: a.det().abs().log(), lambda grad, a: grad[..., None, None] * a.inverse().mT.conj())
CUBE = modern(lambda x: x**3, lambda grad, x: 3 * x**2 * grad, lambda dx, x: 3 * x**2 * dx)


@torch.library.custom_op("test_checks::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@scale.register_fake
def _(x, factor):
    return torch.empty_like(x)


scale.register_autograd(
    lambda ctx, grad: (grad * ctx.factor, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
)


class Attention(nn.Module):
    """One head. The softmax takes off what the bias of the keys adds, whose gradient is what rounding leaves."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.query, self.key, self.value = (nn.Linear(4, 4, dtype=torch.float64) for _ in range(3))

    def forward(self, x):
        query, key, value = self.query(x), self.key(x), self.value(x)
        mask = torch.full((len(x), len(x)), -torch.inf, dtype=query.dtype).triu(1)
        return (query @ key.mT / 2 + mask).softmax(-1) @ value


class Network(nn.Module):
    """A Function among torch's own layers."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(normal(3, 4))
        self.norm = nn.BatchNorm1d(3).double()

    def forward(self, x):
        return self.norm(torch.tanh(Linear.apply(x, self.weight)))


def layer(cls, *args):
    torch.manual_seed(0)
    return cls(*args).double()


INDEX = torch.tensor([2, 0, 1, 1])
X, Y, SQUARE = normal(3, 4), normal(4, 5, seed=1), normal(3, 3) + 4 * torch.eye(3, dtype=DOUBLE)
POSITIVE = normal(4).abs() + 0.5
Z = normal(3, dtype=COMPLEX)

RIGHT = {
    "matmul": (torch.matmul, X, Y),
    "softmax": (lambda x: x.softmax(-1), X),
    "layer_norm": (lambda x, w, b: functional.layer_norm(x, (4,), w, b), X, normal(4), normal(4, seed=1)),
    "max": (lambda x: x.max(-1), X),
    "sort": (lambda x: x.sort(), X),
    "where": (torch.where, X > 0, X, normal(3, 4, seed=2)),
    "complex mul": (torch.mul, Z, normal(3, dtype=COMPLEX, seed=1)),
    "complex times real": (torch.mul, Z, normal(3)),
    "abs of complex": (torch.abs, Z),
    "rfft": (torch.fft.rfft, normal(8)),
    "svdvals": (torch.linalg.svdvals, normal(4, 3)),
    "inv": (torch.linalg.inv, SQUARE),
    "logarithm of a determinant": (LOGDET, SQUARE[:2, :2]),
    "conv2d": (functional.conv2d, normal(2, 3, 6, 5), normal(4, 3, 2, 3), normal(4)),
    "max_pool2d": (lambda x: functional.max_pool2d(x, 2), normal(2, 3, 6, 6)),
    "embedding": (functional.embedding, INDEX, normal(5, 3)),
    "gather": (lambda x, i: x.gather(0, i), normal(5), INDEX),
    "cumprod": (lambda x: x.cumprod(0), normal(5)),
    "relu at ties": (torch.relu, torch.zeros(3, dtype=DOUBLE)),
    "relu at NaN": (torch.relu, torch.tensor([1.0, -1.0, math.nan, 2.0], dtype=DOUBLE)),
    "exp at infinity": (torch.exp, torch.tensor([1.0, math.inf, -math.inf], dtype=DOUBLE)),
    "pow": (torch.pow, POSITIVE, normal(4)),
    "broadcast": (torch.mul, normal(3, 1), normal(1, 4)),
    "view": (lambda x: x.view(-1), X),
    "transpose": (lambda x: x.t(), X),
    "expand": (lambda x: x.expand(5, 3), normal(3)),
    "chunk": (lambda x: x.chunk(2), normal(4, 3)),
    "list of tensors": (torch.cat, [normal(3), normal(2)]),
    "sum": (torch.sum, normal(3)),
    "scalar": (torch.sin, normal()),
    "empty": (torch.sin, normal(0, 3)),
    "float32": (torch.matmul, normal(5, 6, dtype=torch.float32), normal(6, 7, dtype=torch.float32)),
    "float16": (torch.tanh, normal(5, dtype=torch.float16)),
    "bfloat16": (torch.matmul, normal(5, 6, dtype=torch.bfloat16), normal(6, 7, dtype=torch.bfloat16)),
    "dropout": (lambda x: functional.dropout(x, 0.5), normal(10)),
    "running statistics": (
        lambda x, mean, var: functional.batch_norm(x, mean, var, training=True),
        normal(4, 3).requires_grad_(), torch.zeros(3, dtype=DOUBLE), torch.ones(3, dtype=DOUBLE),
    ),
    "sparse": (torch.sparse.mm, SQUARE.relu().to_sparse(), normal(3, 2)),
    "in place on a copy": (lambda x: x.clone().exp_(), normal(3)),
    "steps": (torch.round, normal(3)),
    "Function": (SIN, X),
    "complex Function": (function(torch.mul, lambda g, x, y: (g * y.conj(), g * x.conj())), Z, Z + 1),
    "Linear": (Linear.apply, normal(5, 4), normal(3, 4), normal(3)),
    "in place, marked": (InPlace.apply, X),
    "returns its input": (function(lambda x: x, lambda grad, x: grad), X),
    "returns a view": (function(lambda x: x.view(-1), lambda grad, x: grad.reshape(x.shape)), X),
    "two outputs, None": (SinAndCos.apply, X),
    "whole output, number": (Sorted.apply, X, 2.0),
    "NumPy": (plain(_numpy_forward, once_differentiable(_numpy_backward)), X),
    "both modes": (CUBE, X),
    "own vmap": (MATMUL, X, Y),
    "random": (plain(_drop, lambda ctx, grad: grad * ctx.saved_tensors[0]), X),
    "custom_op": (scale, X, 2.0),
    "aten": (torch.ops.aten.mul.Tensor, normal(3), normal(3, seed=1)),
    "nn.Linear": (layer(nn.Linear, 4, 3), normal(5, 4)),
    "nn.GRU": (layer(nn.GRU, 3, 4), normal(5, 2, 3)),
    "nn.MultiheadAttention": (layer(nn.MultiheadAttention, 8, 2), *(normal(3, 2, 8, seed=i) for i in range(3))),
    "nn.BatchNorm1d": (layer(nn.BatchNorm1d, 3), normal(4, 3)),
    "a network": (Network(), normal(5, 4)),
    "attention": (Attention(), normal(3, 4)),
}  # fmt: skip
