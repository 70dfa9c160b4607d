import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import gradcheck

import torchgraft as tg


@tg.op
def scale(x: Float[Tensor, "n"], weight: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x * weight


@scale.vjp("x", "weight")
def _(grad, x, weight):
    return grad * weight, grad * weight  # the second one is wrong


Scale = tg.module(scale, parameters=("weight",))
layer, x = Scale(3, dtype=torch.float64), torch.randn(3, dtype=torch.float64, requires_grad=True)
print("the module, by its input:    ", gradcheck(layer, x))
print("the operator, by both inputs:", gradcheck(scale, (x, layer.weight), raise_exception=False))
