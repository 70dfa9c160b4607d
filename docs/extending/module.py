import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

import torchgraft as tg


@tg.op
def linear(
    input: Float[Tensor, "*batch n"], weight: Float[Tensor, "m n"], bias: Float[Tensor, "m"] | None = None
) -> Float[Tensor, "*batch m"]:
    out = input @ weight.mT
    return out if bias is None else out + bias


Linear = tg.module(linear, parameters=("weight", "bias"))


class ByHand(nn.Module):
    """The same."""

    def __init__(self, n, m, *, bias=True, device=None, dtype=None):
        super().__init__()
        self.n, self.m = n, m
        self.weight = nn.Parameter(torch.empty(m, n, device=device, dtype=dtype))
        if bias:
            self.bias = nn.Parameter(torch.empty(m, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self):
        bound = 1 / math.sqrt(self.n) if self.n else 0.0
        for parameter in self.parameters():
            parameter.uniform_(-bound, bound)

    def forward(self, input):
        return linear(input, self.weight, self.bias)

    def extra_repr(self):
        return f"n={self.n}, m={self.m}, bias={self.bias is not None}"


x = torch.randn(2, 64)
for bias in (True, False):
    layers = []
    for module in (Linear, ByHand):
        torch.manual_seed(0)
        layers.append(module(64, 10, bias=bias))
    made, by_hand = layers
    print(made, by_hand, torch.equal(made(x), by_hand(x)), made.load_state_dict(by_hand.state_dict()))
try:
    Linear(64, out_features=10)
except tg.ArgumentError as error:
    print(error)
