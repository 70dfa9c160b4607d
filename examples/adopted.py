# A Function from elsewhere becomes an operator: its author's code stays as it is, a stub below `adopt` says the types.
# Bare, it raises under vmap and torch.func, and its second derivative is wrong without a word; adopted, all is right.
import textwrap

import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


class Swish(torch.autograd.Function):
    """As people write it, with an intermediate result saved."""

    @staticmethod
    def forward(ctx, x):
        gate = torch.sigmoid(x)
        ctx.save_for_backward(x, gate)
        return x * gate

    @staticmethod
    def backward(ctx, grad_output):
        x, gate = ctx.saved_tensors
        return grad_output * gate * (1 + x * (1 - gate))


@tg.adopt(Swish)
def swish(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """x * sigmoid(x)."""


def second_derivative(f, x):
    """By autograd, twice."""
    (first,) = torch.autograd.grad(f(x), x, create_graph=True)
    return torch.autograd.grad(first, x)[0].item()


if __name__ == "__main__":
    x = torch.tensor([-1.0, 0.0, 1.0])

    for name, transform in {"torch.func.grad": torch.func.grad, "torch.vmap": torch.vmap}.items():
        try:
            transform(Swish.apply)(x)
        except RuntimeError as error:
            print(f"bare, {name}:", textwrap.shorten(str(error), 90))
    derivative = torch.vmap(torch.func.grad(swish))
    print("adopted, vmap(grad):", derivative(x))
    print("and compiled:       ", torch.compile(derivative, fullgraph=True, backend="aot_eager")(x))

    x = torch.tensor(1.0, requires_grad=True)
    functions = {"bare": Swish.apply, "adopted": swish, "torch's silu": torch.nn.functional.silu}
    for name, function in functions.items():
        print(f"second derivative at 1, {name + ':':13} {second_derivative(function, x):.4f}")
