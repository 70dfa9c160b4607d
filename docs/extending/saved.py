import warnings
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import torchgraft as tg


def gradient_of_the_maximum(max_pool, x):
    maximum, index = max_pool(x)
    index %= 2  # the caller takes x for a picture of two columns
    return torch.autograd.grad(maximum.sum(), x)[0].tolist()


x = torch.tensor([1.0, 2.0, 9.0, 4.0], requires_grad=True)

for Function in (torch.autograd.Function, tg.Function):

    class MaxPool(Function):
        @staticmethod
        def forward(ctx, x):
            maximum, index = x.max(-1)
            ctx.index, ctx.shape = index, x.shape
            return maximum, index  # once only inputs and outputs could be saved: so it became an output

        @staticmethod
        def backward(ctx, grad_maximum, grad_index):
            return torch.zeros(ctx.shape).scatter(-1, ctx.index[..., None], grad_maximum[..., None])

    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            print("gradient of the maximum, 9:", gradient_of_the_maximum(MaxPool.apply, x))
        except tg.DerivativeError as error:
            print(*(warning.message for warning in caught), error, sep="\n\n", end="\n\n")


@tg.op
def max_pool(
    x: Float[Tensor, "*batch n"],
) -> tuple[Float[Tensor, "*batch"], tg.Saved[Int64[Tensor, "*batch"], Literal["index"]]]:
    return x.max(-1)


@max_pool.vjp("x")
def _(grad, x, index):
    return torch.zeros_like(x).scatter(-1, index[..., None], grad[..., None])


print("operator:", torch.autograd.grad(max_pool(x), x)[0].tolist())
