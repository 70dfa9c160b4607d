# A layer in C++: an optional tensor is a null pointer, an exception one of Python. Each sample gives a gradient of the
# weight; torchgraft sums them.
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

SOURCE = tg.cpp("linear.cpp")


@tg.op(kernel=SOURCE)
def linear(
    input: Float[Tensor, "*batch n"], weight: Float[Tensor, "m n"], bias: Float[Tensor, "m"] | None = None
) -> Float[Tensor, "*batch m"]:
    """The product with a matrix, and a bias."""


@linear.vjp("input", "weight", kernel=SOURCE)
def linear_vjp(grad, input, weight): ...


@linear.vjp("bias")
def _(grad):
    return grad.sum_to_size(grad.shape[-1])


Linear = tg.module(linear, parameters=("weight", "bias"))

if __name__ == "__main__":
    torch.manual_seed(0)
    layer = Linear(n=64, m=10)
    input = torch.randn(32, 64)
    plain = torch.nn.functional.linear(input, layer.weight, layer.bias)
    print(layer)
    print(f"beside torch: {(layer(input) - plain).abs().max():.1e}")
    parameters = [layer.weight, layer.bias]
    ours = torch.autograd.grad(layer(input).square().sum(), parameters)
    theirs = torch.autograd.grad(plain.square().sum(), parameters)
    for name, one, other in zip(("weight", "bias"), ours, theirs, strict=True):
        print(f"its {name:6}:  {(one - other).abs().max():.1e}")
    try:
        linear(torch.ones(3, 0), torch.ones(2, 0))
    except tg.KernelError as error:
        print(error)
