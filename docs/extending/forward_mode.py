import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


def derivative(f):
    """By forward mode."""
    return lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1]


def show(name, f):
    x = torch.tensor(1.0)
    print(f"{name:22}", derivative(f)(x).item(), derivative(derivative(f))(x).item())


for Function in (torch.autograd.Function, tg.Function):

    class Cube(Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad_output

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * tangent

    show(Function.__module__.split(".")[0], Cube.apply)


@tg.op
def cube(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return x**3


@cube.partial("x")
def _(x):
    return 3 * x**2


show("operator", cube)
