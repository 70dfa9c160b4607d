# An intermediate that forward keeps for backward has no history: a second derivative then misses what hangs on it.
# Plain PyTorch returns that wrong number; here it is refused, and the rule that reads x instead is right at any order.
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


@tg.op
def cube(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """x to the power of three."""
    return x * x * x


@cube.partial("x")
def _(x):
    return 3 * x * x


@tg.op
def cube_keeping_square(
    x: Float[Tensor, "..."],
) -> tuple[Float[Tensor, "..."], tg.Saved[Float[Tensor, "..."], Literal["square"]]]:
    """The same, with x * x computed once for kernel and rule: good for first derivatives."""
    square = x * x
    return square * x, square


@cube_keeping_square.partial("x")
def _(square):
    return 3 * square


class PlainCube(torch.autograd.Function):
    """The same in plain PyTorch."""

    @staticmethod
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(square)
        return square * x

    @staticmethod
    def backward(ctx, grad):
        (square,) = ctx.saved_tensors
        return 3 * square * grad


def second_derivative(f, x):
    """Of f(x)**2, by autograd twice; for the cube it is that of x**6, 30 x**4."""
    (first,) = torch.autograd.grad(f(x) ** 2, x, create_graph=True)
    return torch.autograd.grad(first, x)[0].item()


if __name__ == "__main__":
    x = torch.tensor(1.0, requires_grad=True)

    print("plain PyTorch, square kept:", second_derivative(PlainCube.apply, x), "- wrong, and nothing says so")
    print("a rule that reads x:       ", second_derivative(cube, x))
    try:
        second_derivative(cube_keeping_square, x)
    except tg.DerivativeError as error:
        print(error)
