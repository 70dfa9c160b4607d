# An argument without a gradient: its type, a float, says all. In plain PyTorch backward returns a `None` in its place,
# and nobody minds a tensor there that requires grad: its gradient is lost without a word. Here it is an error.
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


@tg.op
def mul_constant(x: Float[Tensor, "..."], constant: float) -> Float[Tensor, "..."]:
    """A tensor times a number."""
    return x * constant


@mul_constant.adjoint("x")
def _(grad, constant):
    return grad * constant


class MulConstant(torch.autograd.Function):
    """The same in plain PyTorch."""

    @staticmethod
    def forward(ctx, x, constant):
        ctx.constant = constant
        return x * constant

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.constant, None


if __name__ == "__main__":
    x, learned = torch.ones(3, requires_grad=True), torch.tensor(5.0, requires_grad=True)

    mul_constant(x, 5).sum().backward()
    print("gradient of x:          ", x.grad)

    MulConstant.apply(x, learned).sum().backward()
    print("plain, of the constant: ", learned.grad)
    try:
        mul_constant(x, learned)
    except tg.ArgumentError as error:
        print(error)
