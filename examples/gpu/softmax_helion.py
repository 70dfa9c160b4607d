# A Helion kernel beside a torch one. Without a GPU, HELION_INTERPRET=1 python examples/gpu/softmax_helion.py runs it on
# the CPU.
import helion
import helion.language as hl
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


@helion.kernel(static_shapes=False, autotune_effort="none")
def softmax_rows(x: Tensor) -> Tensor:
    rows, _ = x.shape
    out = torch.empty_like(x)
    for tile in hl.tile(rows):
        values = x[tile, :]
        weights = torch.exp(values - torch.amax(values, dim=1, keepdim=True))
        out[tile, :] = weights / torch.sum(weights, dim=1, keepdim=True)
    return out


def by_helion(x: Tensor) -> Tensor:
    """Softmax over the last axis."""
    return softmax_rows(x.reshape(-1, x.shape[-1])).reshape(x.shape) if x.numel() else torch.empty_like(x)


@tg.op
def softmax(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    return torch.softmax(x, -1)


@softmax.kernel("cuda")
def _(x):
    return by_helion(x)


@softmax.vjp("x")
def _(grad, out):
    return out * (grad - (grad * out).sum(-1, keepdim=True))


if __name__ == "__main__":
    x = torch.randn(3, 5, device="cuda" if torch.cuda.is_available() else "cpu")
    print("Helion", *(f"{value:.4f}" for value in by_helion(x)[0].tolist()))
    print("torch ", *(f"{value:.4f}" for value in torch.softmax(x, -1)[0].tolist()))
    print(softmax)
