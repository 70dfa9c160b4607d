# A layer of SciPy: `tg.module` makes an nn.Module of an operator, whose parameters have the shapes that the types say.
# The rules are made of the operator itself (what filters, differentiated, filters again), and so right at every order.
import numpy as np
import scipy.signal
import torch
from jaxtyping import Float

import torchgraft as tg


@tg.op(batch="loop", parallel="filters")
@tg.domain(kh="[1, h]", kw="[1, w]")
def filter2d(
    x: Float[np.ndarray, "h w"],
    kernel: Float[np.ndarray, "filters kh kw"],
    bias: Float[np.ndarray, "filters"] | None = None,
) -> Float[np.ndarray, "filters h-kh+1 w-kw+1"]:
    """Cross-correlation of an image with several kernels, each plus its bias."""
    maps = np.stack([scipy.signal.correlate2d(x, each, mode="valid") for each in kernel])
    return maps if bias is None else maps + bias[:, None, None]


@filter2d.vjp("x")
def _(grad, kernel):
    kh, kw = kernel.shape[-2:]
    grad = torch.nn.functional.pad(grad, (kw - 1, kw - 1, kh - 1, kh - 1))
    return filter2d(grad, kernel.flip(-2, -1)[:, None]).sum((0, 1))  # a batch: each map, and the kernel that made it


@filter2d.vjp("kernel")
def _(grad, x):
    return filter2d(x, grad)


@filter2d.vjp("bias")
def _(grad):
    return grad.sum((-2, -1))


Filter2d = tg.module(filter2d, parameters=("kernel", "bias"))


if __name__ == "__main__":
    torch.manual_seed(0)
    images = torch.randn(8, 12, 10)
    edges = torch.tensor([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]])
    seen = filter2d(images, torch.stack([edges, edges.mT]), torch.tensor([0.5, -0.5]))

    layer = Filter2d(filters=2, kh=3, kw=3)
    print(layer)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    for step in range(121):  # find the kernels and the biases that made what is seen
        loss = (layer(images) - seen).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 30 == 0:
            print(f"step {step:3}  loss {loss.item():.6f}")
    print(layer.kernel.detach().round(decimals=2), layer.bias.detach().round(decimals=2), sep="\n")
