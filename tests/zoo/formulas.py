"""Wrong formulas: what a slip on paper, or a line copied from another function, makes of a derivative."""

import math

import torch
from torch.autograd import Function

from .bug import Bug, function, given, normal
from .observe import scaled

GRADIENT = {"gradient"}


def sum_of(x):
    return x.sum()


def softmax(x):
    return torch.softmax(x, -1)


def swish(x):
    return x * torch.sigmoid(x)


def normalized(x):
    return x / x.square().sum(-1, keepdim=True).sqrt()


def normalized_gradient(grad, x):
    norm = x.square().sum(-1, keepdim=True).sqrt()
    return (grad - x * (grad * x).sum(-1, keepdim=True) / norm**2) / norm


def softmax_gradient(grad, x):
    weighted = grad * softmax(x)
    return weighted - softmax(x) * weighted.sum(-1, keepdim=True)


def scanned(started):
    """The scan h[t] = a[t] h[t - 1] + b[t] from an initial state; its backward knows the state, or takes zeros."""

    class Scan(Function):
        @staticmethod
        def forward(ctx, a, b, start=None):
            states = [torch.zeros_like(b[0]) if start is None else start]
            for factor, term in zip(a, b, strict=True):
                states.append(factor * states[-1] + term)
            ctx.given = start is not None
            ctx.save_for_backward(a, torch.stack(states))
            return torch.stack(states[1:])

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            a, states = ctx.saved_tensors
            carried, found = torch.zeros_like(grad[0]), []
            for factor, part in zip(a.flip(0), grad.flip(0), strict=True):
                found.insert(0, carried + part)
                carried = factor * found[0]
            before = states[:-1] if started else torch.cat([torch.zeros_like(states[:1]), states[1:-1]])
            found = torch.stack(found)
            return found * before, found, carried if ctx.given else None

    return Scan.apply


def scan(a, b, start=None):
    states = [torch.zeros_like(b[0]) if start is None else start]
    for factor, term in zip(a, b, strict=True):
        states.append(factor * states[-1] + term)
    return torch.stack(states[1:])


def softplus(x):
    return torch.logaddexp(x, torch.zeros_like(x))


BUGS = [
    Bug(
        name="initial_state_forgotten",
        wrong=scanned(started=False),
        right=scanned(started=True),
        truth=scan,
        inputs=normal((5, 2), (5, 2)),
        probe=normal((5, 2), (5, 2), (2,)),
        expects=GRADIENT,
        cause=("a tensor for start", "first index", "missing", "zero"),
        source="recurrences whose initial state is optional",
    ),
    Bug(
        name="sign",
        wrong=function("Cos", lambda x: x.cos(), lambda grad, x: grad * x.sin()),
        right=function("Cos", lambda x: x.cos(), lambda grad, x: -grad * x.sin()),
        truth=torch.cos,
        inputs=normal((3, 4)),
        expects=GRADIENT,
        cause=("sign",),
        source="a minus lost in copying",
    ),
    Bug(
        name="half",
        wrong=function("Square", lambda x: x * x, lambda grad, x: grad * x),
        right=function("Square", lambda x: x * x, lambda grad, x: 2 * grad * x),
        truth=torch.square,
        inputs=normal((3, 4)),
        expects=GRADIENT,
        cause=("1/2", "half", "0.5"),
        source="the 2 of a square, absorbed into a learning rate in papers",
    ),
    Bug(
        name="twice",
        wrong=function("Sin", lambda x: x.sin(), lambda grad, x: 2 * grad * x.cos()),
        right=function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos()),
        truth=torch.sin,
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("factor 2", "factor of 2", "twice", "2 times", "double"),
        source="a gradient added on two branches",
    ),
    Bug(
        name="mean_for_sum",
        wrong=function("Sum", sum_of, lambda grad, x: grad.expand_as(x) / x.numel()),
        right=function("Sum", sum_of, lambda grad, x: grad.expand_as(x).clone()),
        truth=torch.sum,
        inputs=normal((3, 4)),
        expects=GRADIENT,
        cause=("1/12", "1/N", "mean", "number of elements"),
        source="losses with reduction=mean and reduction=sum share one backward",
    ),
    Bug(
        name="sum_for_mean",
        wrong=function("Mean", lambda x: x.mean(-1), lambda grad, x: grad.unsqueeze(-1).expand_as(x).clone()),
        right=function("Mean", lambda x: x.mean(-1), lambda grad, x: grad.unsqueeze(-1).expand_as(x) / x.shape[-1]),
        truth=lambda x: x.mean(-1),
        inputs=normal((3, 5)),
        expects=GRADIENT,
        cause=("factor 5", "N", "mean", "size", "5 times"),
        source="the same, the other way round",
    ),
    Bug(
        name="missing_pi",
        wrong=function("SinPi", lambda x: (math.pi * x).sin(), lambda grad, x: grad * (math.pi * x).cos()),
        right=function("SinPi", lambda x: (math.pi * x).sin(), lambda grad, x: math.pi * grad * (math.pi * x).cos()),
        truth=lambda x: (math.pi * x).sin(),
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("pi",),
        source="the inner derivative of an argument that is scaled",
    ),
    Bug(
        name="missing_factor_x",
        wrong=function("SinOfSquare", lambda x: x.square().sin(), lambda grad, x: 2 * grad * x.square().cos()),
        right=function("SinOfSquare", lambda x: x.square().sin(), lambda grad, x: 2 * grad * x * x.square().cos()),
        truth=lambda x: x.square().sin(),
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("factor input", "factor x", "chain", "1/x", "~ x", "divided by x"),
        source="the chain rule, half applied",
    ),
    Bug(
        name="missing_factor_exp",
        wrong=function("Exp", lambda x: x.exp(), lambda grad, x: grad.clone()),
        right=function("Exp", lambda x: x.exp(), lambda grad, x: grad * x.exp()),
        truth=torch.exp,
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("exp", "e^", "output"),
        source="a log-scale parameter whose gradient is taken for that of its logarithm",
    ),
    Bug(
        name="missing_factor_reciprocal",
        wrong=function("Log", lambda x: x.log(), lambda grad, x: grad.clone()),
        right=function("Log", lambda x: x.log(), lambda grad, x: grad / x),
        truth=torch.log,
        inputs=given([0.3, 0.8, 1.7, 2.5, 4.0]),
        expects=GRADIENT,
        cause=("factor input", "1/x", "factor x", "chain", "~ x"),
        source="the same of a logarithm",
    ),
    Bug(
        name="extra_factor",
        wrong=function("Tanh", lambda x: x.tanh(), lambda grad, x: grad * (1 - x.tanh() ** 2) * x.cos()),
        right=function("Tanh", lambda x: x.tanh(), lambda grad, x: grad * (1 - x.tanh() ** 2)),
        truth=torch.tanh,
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("cos",),
        source="a factor of the next function in the chain, applied in this one",
    ),
    Bug(
        name="input_for_output",
        wrong=function("Sigmoid", lambda x: x.sigmoid(), lambda grad, x: grad * x * (1 - x)),
        right=function("Sigmoid", lambda x: x.sigmoid(), lambda grad, x: grad * x.sigmoid() * (1 - x.sigmoid())),
        truth=torch.sigmoid,
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("output", "input", "x(1", "element"),
        source="y(1 - y) with the tensor that was saved, which is x: Caffe's in-place layers, hand-written cells",
    ),
    Bug(
        name="ignores_upstream",
        wrong=function("Softplus", softplus, lambda grad, x: x.sigmoid()),
        right=function("Softplus", softplus, lambda grad, x: grad * x.sigmoid()),
        truth=softplus,
        inputs=normal((3, 4)),
        expects=GRADIENT | {"linear"},
        cause=("upstream", "grad_output", "cotangent"),
        source="losses tested by loss.backward() alone, where the upstream gradient is 1",
    ),
    Bug(
        name="zero",
        wrong=function("Atan", lambda x: x.atan(), lambda grad, x: torch.zeros_like(x)),
        right=function("Atan", lambda x: x.atan(), lambda grad, x: grad / (1 + x * x)),
        truth=torch.atan,
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("zero",),
        source="a backward left for later",
    ),
    Bug(
        name="constant_off",
        wrong=function("Cube", lambda x: x**3, lambda grad, x: grad * (3 * x**2 + 0.125)),
        right=function("Cube", lambda x: x**3, lambda grad, x: grad * 3 * x**2),
        truth=lambda x: x**3,
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("constant", "0.125", "off by"),
        source="weight decay or an epsilon added within backward",
    ),
    Bug(
        name="dropped_term",
        wrong=function("Swish", swish, lambda grad, x: grad * x.sigmoid()),
        right=function("Swish", swish, lambda grad, x: grad * x.sigmoid() * (1 + x * (1 - x.sigmoid()))),
        truth=torch.nn.functional.silu,
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("term", "product", "element", "output"),
        source="the product rule, one half of it",
    ),
    Bug(
        name="clamps_upstream",
        wrong=function("Sinh", lambda x: x.sinh(), lambda grad, x: grad.clamp(-1, 1) * x.cosh()),
        right=function("Sinh", lambda x: x.sinh(), lambda grad, x: grad * x.cosh()),
        truth=torch.sinh,
        inputs=normal((5,)),
        expects=GRADIENT | {"linear"},
        cause=("clamp", "linear", "clip"),
        source="gradient clipping within backward",
        shown_by=scaled(100.0),
    ),
    Bug(
        name="absolute_upstream",
        wrong=function("Sinh", lambda x: x.sinh(), lambda grad, x: grad.abs() * x.cosh()),
        right=function("Sinh", lambda x: x.sinh(), lambda grad, x: grad * x.cosh()),
        truth=torch.sinh,
        inputs=normal((5,)),
        expects=GRADIENT | {"linear"},
        cause=("linear", "upstream", "sign", "abs"),
        source="guided backpropagation, left in a training layer",
        shown_by=scaled(-1.0),
    ),
    Bug(
        name="diagonal_softmax",
        wrong=function("Softmax", softmax, lambda grad, x: grad * softmax(x) * (1 - softmax(x))),
        right=function("Softmax", softmax, softmax_gradient),
        truth=softmax,
        inputs=normal((3, 4)),
        expects=GRADIENT,
        cause=("element by element", "diagonal", "sum", "off-diagonal", "between", "entries", "elementwise"),
        source="the sigmoid's y(1 - y) for the softmax, in many a network from scratch",
    ),
    Bug(
        name="norm_held_constant",
        wrong=function("Normalized", normalized, lambda grad, x: grad / x.square().sum(-1, keepdim=True).sqrt()),
        right=function("Normalized", normalized, normalized_gradient),
        truth=normalized,
        inputs=normal((3, 4)),
        expects=GRADIENT,
        cause=("others is missing", "norm", "sum", "constant", "term", "entries", "projection", "diagonal"),
        source="normalisations whose statistics are taken for constants",
    ),
]
