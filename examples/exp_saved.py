# Saving the result: a rule that asks for `out` keeps the output, which the caller holds anyway, and lets the input go.
# The saved result is still a function of x: derivatives of every order are right.
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


@tg.op
def exp(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The exponential function, which is its own derivative."""
    return torch.exp(x)


@exp.partial("x")
def _(out):
    return out


if __name__ == "__main__":
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
        y = exp(x)
    print("kept for backward:", ["y itself" if tensor.data_ptr() == y.data_ptr() else "a copy" for tensor in kept])

    f = exp
    for order in range(4):
        print(f"derivative {order}:", *(f"{value:8.4f}" for value in torch.vmap(f)(x.detach())))
        f = torch.func.grad(f)
