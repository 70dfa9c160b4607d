import torch
from jaxtyping import Float
from torch import Tensor, nn

import torchgraft as tg


@tg.op
def scale(x: Float[Tensor, "*batch n"], weight: Float[Tensor, "n"]) -> Float[Tensor, "*batch n"]:
    return x * weight


class Scale(nn.Module):
    def __init__(self, input_features, bias=True):
        super().__init__()
        self.input_features = input_features
        self.weight = nn.Parameter(torch.empty(input_features))
        self.register_parameter("bias", None)
        self.weight.data.uniform_(-0.1, 0.1)
        if bias is not None:  # it is False, not None
            self.bias.data.uniform_(-0.1, 0.1)

    def extra_repr(self):
        return f"in_features={self.in_features}, bias={self.bias is not None}"


for bias in (False, None):
    try:
        print(Scale(64, bias))
    except AttributeError as error:
        print(error)

print(tg.module(scale, parameters=("weight",))(64))
