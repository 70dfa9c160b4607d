import numpy as np
import torch
from jaxtyping import Float, Int64

import torchgraft as tg


class CountNonzero(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        return input.new(np.asarray(np.count_nonzero(input.numpy())))


x = torch.tensor([3.0, 0.0, 4.0])
print("input.new, shape:", tuple(CountNonzero.apply(x).shape))


@tg.op
def count_nonzero(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, ""]:
    return np.asarray(np.count_nonzero(x))


try:
    count_nonzero(x)
except tg.KernelError as error:
    print(error)


@tg.op
def count_nonzero(x: Float[np.ndarray, "n"]) -> Int64[np.ndarray, ""]:
    return np.asarray(np.count_nonzero(x))


print("operator:", count_nonzero(x))
