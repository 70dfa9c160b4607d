# A residual that callers never see: the rule must know where each maximum was, and `tg.Saved` keeps that for it alone.
# Of equal maxima the first gets the whole gradient, which is one of the subgradients (amax would divide it among them).
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import torchgraft as tg


@tg.op
def global_max_pool(
    images: Float[Tensor, "*batch c h w"],
) -> tuple[Float[Tensor, "*batch c"], tg.Saved[Int64[Tensor, "*batch c"], Literal["index"]]]:
    """The largest value of each channel."""
    return images.flatten(-2).max(-1)


@global_max_pool.vjp("images")
def _(grad, images, index):
    zeros = torch.zeros_like(images).flatten(-2)
    return zeros.scatter(-1, index[..., None], grad[..., None]).reshape(images.shape)


if __name__ == "__main__":
    image = torch.tensor([[[1.0, 7.0, 3.0], [7.0, 2.0, 5.0]]], requires_grad=True)

    maxima = global_max_pool(image)
    (gradient,) = torch.autograd.grad(maxima, image)
    print("maxima:  ", maxima.tolist(), " one for each channel, and no index")
    print("gradient:", gradient.tolist(), " all of it to the first 7")

    def energy(image):
        return global_max_pool(image).square().sum() / 2

    curvature = torch.func.jacrev(torch.func.grad(energy))(image.detach())
    print("curvature:", curvature.reshape(6, 6).diagonal().tolist(), " of half its square")
