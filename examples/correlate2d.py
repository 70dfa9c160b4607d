# A SciPy function as an operator: its kernel sees one image, torchgraft adds any batch axes in front and loops.
# It is linear in each argument, so that an adjoint, the transposed map, gives both modes and all orders.
import numpy as np
import scipy.signal
import torch
from jaxtyping import Float

import torchgraft as tg


@tg.op(batch="loop")
@tg.domain(kh="[1, h]", kw="[1, w]")
def correlate2d(x: Float[np.ndarray, "h w"], kernel: Float[np.ndarray, "kh kw"]) -> Float[np.ndarray, "h-kh+1 w-kw+1"]:
    """Cross-correlation of an image with a kernel, where they overlap in full."""
    return scipy.signal.correlate2d(x, kernel, mode="valid")


@correlate2d.adjoint("x")
def _(grad: np.ndarray, kernel):
    return scipy.signal.convolve2d(grad, kernel, mode="full")


@correlate2d.adjoint("kernel")
def _(grad: np.ndarray, x):
    return scipy.signal.correlate2d(x, grad, mode="valid")


if __name__ == "__main__":
    torch.manual_seed(0)
    images, kernel = torch.randn(8, 12, 10), torch.zeros(3, 3, requires_grad=True)
    edges = torch.tensor([[1.0, 0.0, -1.0]] * 3)
    optimizer = torch.optim.SGD([kernel], lr=0.05)

    for step in range(41):  # find the kernel that drew the edges
        loss = (correlate2d(images, kernel) - correlate2d(images, edges)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:2}  loss {loss.item():.6f}")
    print(kernel.detach().round(decimals=2))
