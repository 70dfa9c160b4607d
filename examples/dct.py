# A linear function is its own derivative in every forward direction; one adjoint adds the backward ones, of any order.
# norm="ortho" scales the rows of the DCT's matrix to an orthonormal basis, so that its transpose is its inverse.
import numpy as np
import scipy.fft
import torch
from jaxtyping import Float

import torchgraft as tg


@tg.op
def dct(x: Float[np.ndarray, "*batch n"]) -> Float[np.ndarray, "*batch n"]:
    """The discrete cosine transform (type II, orthonormal) along the last axis."""
    return scipy.fft.dct(x, norm="ortho")


@dct.adjoint("x")
def _(grad: np.ndarray):
    return scipy.fft.idct(grad, norm="ortho")


if __name__ == "__main__":
    torch.manual_seed(0)
    time = torch.linspace(0, 1, 32, dtype=torch.float64)
    clean = torch.cos(2 * torch.pi * time) + time
    noisy = clean + 0.3 * torch.randn(32, dtype=torch.float64)

    def cost(x):  # near to the data, without high frequencies
        return (x - noisy).square().sum() + (torch.arange(32) * dct(x)).square().sum() / 20

    # The cost is quadratic: one step of Newton's method, which takes a second derivative, ends at the minimum.
    gradient = torch.func.grad(cost)
    smooth = noisy - torch.linalg.solve(torch.func.jacrev(gradient)(noisy), gradient(noisy))
    print(f"largest gradient: {gradient(noisy).abs().max():8.1e} before the step")
    print(f"                  {gradient(smooth).abs().max():8.1e} after it")
    print(f"mean error:       {(noisy - clean).abs().mean():8.2f} noisy")
    print(f"                  {(smooth - clean).abs().mean():8.2f} smoothed")
