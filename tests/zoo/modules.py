"""Modules: parameters are inputs too, and checking `input` alone leaves their gradients unseen."""

import copy

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from .bug import Bug, function, normal
from .observe import interleaved

GRADIENT = {"gradient"}


class Layer(nn.Module):
    """A module that calls a function of its input and its parameters."""

    def __init__(self, call, **shapes):
        super().__init__()
        self.call = call
        for seed, (name, shape) in enumerate(shapes.items()):
            self.register_parameter(name, nn.Parameter(normal(shape, seed=10 + seed)()[0]))

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x, *self.parameters())


def conv_gradient(flip):
    def backward(grad, x, weight):
        of_weight = torch.nn.grad.conv2d_weight(x, weight.shape, grad)
        return functional.conv_transpose2d(grad, weight), of_weight.flip(-2, -1) if flip else of_weight

    return function("Conv", functional_conv, backward, once=True)


def functional_conv(x, weight):
    return functional.conv2d(x, weight)


def affine(x, weight, bias):
    return x @ weight.mT + bias


def affine_gradient(reduce):
    return function("Affine", affine, lambda grad, x, weight, bias: (grad @ weight, grad.mT @ x, reduce(grad)))


def prelu(x, slope):
    return torch.where(x > 0, x, slope * x)


def prelu_gradient(mask):
    def backward(grad, x, slope):
        of_slope = grad * x * (x <= 0) if mask else grad * x
        return torch.where(x > 0, grad, slope * grad), of_slope.sum_to_size(slope.shape)

    return function("PReLU", prelu, backward)


def normalized(x, gain, *, constant=False):
    mean = x.mean(-1, keepdim=True)
    scale = ((x - mean).square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    return gain * (x - mean) * (scale.detach() if constant else scale)


class WeightByData(Layer):
    """Passes the parameter's data."""

    def forward(self, x):
        return self.call(x, self.weight.data, self.bias)


class Captured(Layer):
    """Its Function reads the weight from the module, and knows of no such input."""

    def forward(self, x):
        return function("Gain", lambda x: x * self.weight, lambda grad, x: grad * self.weight)(x)


class CountsCalls(Layer):
    """The gain depends on how often it was called."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.weight / self.calls


def gain(x, weight):
    return x * weight


class Tempered(nn.Module):
    """The sine of numbers over a temperature, which the backward reads from the module, or from ctx."""

    def __init__(self, late):
        super().__init__()
        self.late, self.temperature = late, 2.0

    def forward(self, x: Tensor) -> Tensor:
        return TemperedSine.apply(x, self)


class TemperedSine(Function):
    @staticmethod
    def forward(ctx, x, module):
        ctx.save_for_backward(x)
        ctx.module, ctx.temperature = module, module.temperature
        return torch.sin(x / module.temperature)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        temperature = ctx.module.temperature if ctx.module.late else ctx.temperature
        return grad * torch.cos(x / temperature) / temperature, None


class TemperedByTorch(Tempered):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x / self.temperature)


def as_it_cools(target, inputs):
    """The gradient of calls at two temperatures."""
    x = inputs[0].clone().requires_grad_()
    total = target(x).sum()
    target.temperature = 1.0
    total = total + target(x).sum()
    (gradient,) = torch.autograd.grad(total, x)
    target.temperature = 2.0
    return gradient


class Kept(Layer):
    """A layer that keeps what it calls as a lambda, which reads the parameters of the layer that made it."""

    def __init__(self, call, **shapes):
        super().__init__(call, **shapes)
        self.run = lambda x: call(x, *self.parameters())

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x)


def moved_copy(target, inputs):
    """The output of a copy with other parameters."""
    other = copy.deepcopy(target)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.5)
        return other(*inputs)


BUGS = [
    Bug(
        name="filter_gradient",
        wrong=Layer(conv_gradient(flip=True), weight=(2, 1, 2, 3)),
        right=Layer(conv_gradient(flip=False), weight=(2, 1, 2, 3)),
        truth=Layer(functional_conv, weight=(2, 1, 2, 3)),
        inputs=normal((2, 1, 4, 5)),
        expects=GRADIENT,
        cause=("flip", "revers", "permut", "weight"),
        source="convolution for correlation, hidden by gradcheck(module, input)",
    ),
    Bug(
        name="bias_gradient",
        wrong=Layer(affine_gradient(lambda grad: grad.mean(0)), weight=(2, 3), bias=(2,)),
        right=Layer(affine_gradient(lambda grad: grad.sum(0)), weight=(2, 3), bias=(2,)),
        truth=Layer(functional.linear, weight=(2, 3), bias=(2,)),
        inputs=normal((4, 3)),
        expects=GRADIENT,
        cause=("1/4", "mean", "1/N", "0.25"),
        source="the mean over the batch taken twice",
    ),
    Bug(
        name="slope_gradient",
        wrong=Layer(prelu_gradient(mask=False), weight=(1,)),
        right=Layer(prelu_gradient(mask=True), weight=(1,)),
        truth=Layer(functional.prelu, weight=(1,)),
        inputs=normal((3, 4)),
        expects=GRADIENT,
        cause=("weight", "mask", "term", "sum", "entries", "element", "row"),
        source="the mask of one branch left out in the sum of the other",
    ),
    Bug(
        name="parameter_by_data",
        wrong=WeightByData(affine, weight=(2, 3), bias=(2,)),
        right=Layer(affine, weight=(2, 3), bias=(2,)),
        truth=Layer(functional.linear, weight=(2, 3), bias=(2,)),
        inputs=normal((4, 3)),
        expects=GRADIENT,
        cause=("zero", "None", "missing", "detach", "no gradient"),
        source="weight.data to silence an error",
    ),
    Bug(
        name="statistics_held_constant",
        wrong=Layer(lambda x, gain: normalized(x, gain, constant=True), weight=(5,)),
        right=Layer(normalized, weight=(5,)),
        truth=Layer(lambda x, gain: functional.layer_norm(x, (5,), gain), weight=(5,)),
        inputs=normal((3, 5)),
        expects=GRADIENT,
        cause=("constant", "detach", "row", "entries", "sum", "term", "mean"),
        source="statistics under no_grad, or detached",
    ),
    Bug(
        name="captured_parameter",
        wrong=Captured(gain, weight=(4,)),
        right=Layer(function("Gain", gain, lambda g, x, w: (g * w, (g * x).sum_to_size(w.shape))), weight=(4,)),
        truth=Layer(gain, weight=(4,)),
        inputs=normal((3, 4)),
        expects=GRADIENT | {"captur", "argument"},
        cause=("captur", "argument", "None", "missing", "zero", "no gradient"),
        source="a Function written inside of a module's forward",
    ),
    Bug(
        name="counts_calls",
        wrong=CountsCalls(gain, weight=(4,)),
        right=Layer(gain, weight=(4,)),
        truth=Layer(torch.mul, weight=(4,)),
        inputs=normal((3, 4)),
        shown_by=interleaved,
        expects={"state", "determin", "call", "repeat", "random", "gradient", "inconclusive"},
        cause=("no argument", "state", "call", "differ", "determin"),
        source="warm-up schedules within forward",
    ),
    Bug(
        name="temperature_read_late",
        wrong=Tempered(late=True),
        right=Tempered(late=False),
        truth=TemperedByTorch(late=False),
        inputs=normal((4,)),
        shown_by=as_it_cools,
        expects={"number of the module"},
        cause=("attribute",),
        source="self.temperature or self.scale in a backward, annealed while training",
    ),
    Bug(
        name="lambda_of_the_original",
        wrong=Kept(function("Gain", gain, lambda g, x, w: (g * w, (g * x).sum_to_size(w.shape))), weight=(4,)),
        right=Layer(function("Gain", gain, lambda g, x, w: (g * w, (g * x).sum_to_size(w.shape))), weight=(4,)),
        truth=Layer(gain, weight=(4,)),
        inputs=normal((3, 4)),
        shown_by=moved_copy,
        expects={"copy"},
        cause=("lambda",),
        source="self.act = lambda x: f(x, self.scale), and an average of the weights by copy.deepcopy",
    ),
]
