# An operator in torch: the types say the shapes, the rules ask for what they need by name. PyTorch derives the rest:
# batching, both modes of autograd, any order, compilation; and a frozen weight's `input` is not even kept in memory.
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


@tg.op(parallel="m", reduction="n")
def linear(
    input: Float[Tensor, "*batch n"], weight: Float[Tensor, "m n"], bias: Float[Tensor, "m"] | None = None
) -> Float[Tensor, "*batch m"]:
    """Affine map: y = W x + b."""
    out = input @ weight.mT
    return out if bias is None else out + bias


@linear.vjp("input")
def _(grad, weight):
    return grad @ weight


@linear.vjp("weight")
def _(grad, input):
    return torch.einsum("...m,...n->mn", grad, input)


@linear.vjp("bias")
def _(grad):
    return torch.einsum("...m->m", grad)


if __name__ == "__main__":
    torch.manual_seed(0)
    x, weight, bias = torch.randn(5, 4), torch.randn(3, 4, requires_grad=True), torch.randn(3, requires_grad=True)

    linear(x, weight, bias).square().sum().backward()
    print("gradient of the bias:", bias.grad)

    def loss(weight, x):
        return linear(x, weight).square().sum()

    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weight.detach(), x)
    print("per-sample gradients:", tuple(per_sample.shape))
    print(linear)
