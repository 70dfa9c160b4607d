import warnings

import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


def second_derivative(f):
    """Of f(x)**2 at 1, by autograd twice."""
    x = torch.tensor(1.0, requires_grad=True)
    (first,) = torch.autograd.grad(f(x) ** 2, x, create_graph=True)
    return torch.autograd.grad(first, x)[0].item()


for Function in (torch.autograd.Function, tg.Function):

    class Sinh(Function):
        @staticmethod
        def forward(ctx, x):
            expx, expnegx = torch.exp(x), torch.exp(-x)
            ctx.save_for_backward(expx, expnegx)
            return (expx - expnegx) / 2

        @staticmethod
        def backward(ctx, grad_output):
            expx, expnegx = ctx.saved_tensors
            return grad_output * (expx + expnegx) / 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.TorchgraftWarning)  # advice to the same effect as the error below
        try:
            print("Function:     ", second_derivative(Sinh.apply))
        except tg.DerivativeError as error:
            print(error)


@tg.op
def sinh(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return (torch.exp(x) - torch.exp(-x)) / 2


@sinh.partial("x")
def _(x):
    return (torch.exp(x) + torch.exp(-x)) / 2


print("operator:     ", second_derivative(sinh))
print("torch's sinh: ", second_derivative(torch.sinh))
