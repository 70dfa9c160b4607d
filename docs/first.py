import numpy as np
import scipy.fft
import torch
from jaxtyping import Float

import torchgraft as tg


@tg.op
def dct(x: Float[np.ndarray, "*batch n"]) -> Float[np.ndarray, "*batch n"]:
    return scipy.fft.dct(x, norm="ortho")


@dct.adjoint("x")  # dct is linear, and its transpose is its inverse
def _(grad: np.ndarray):
    return scipy.fft.idct(grad, norm="ortho")


def roughness(x):
    return dct(x)[..., 2:].square().sum()


x = torch.tensor([1.0, 3.0, 2.0, 5.0], requires_grad=True)
roughness(x).backward()
print("gradient        ", x.grad)

x, gradient = x.detach(), torch.func.grad(roughness)
print("compiled        ", torch.compile(gradient, fullgraph=True)(x))
print("one per sample  ", torch.vmap(gradient)(torch.stack([x, -x]))[0])
print("Hessian times x ", torch.func.jvp(gradient, (x,), (x,))[1])
