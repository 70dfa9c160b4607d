from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int64

import torchgraft as tg


class NumpySort(torch.autograd.Function):
    @staticmethod
    def forward(x, dim):
        index = torch.from_numpy(np.argsort(x.numpy(), axis=dim))
        return x.gather(dim, index), index

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])
        ctx.dim = inputs[1]

    @staticmethod
    def backward(ctx, grad_output, _):
        (index,) = ctx.saved_tensors
        return torch.zeros_like(grad_output).scatter(ctx.dim, index, grad_output), None

    @staticmethod
    def vmap(info, in_dims, x, dim):
        return NumpySort.apply(x.movedim(in_dims[0], 0), dim), (0, 0)  # must be dim + 1


@tg.op
def sort(
    x: Float[np.ndarray, "*batch n"],
) -> tuple[Float[np.ndarray, "*batch n"], tg.Saved[Int64[np.ndarray, "*batch n"], Literal["index"]]]:
    index = np.argsort(x)
    return np.take_along_axis(x, index, -1), index


@sort.vjp("x")
def _(grad, index):
    return torch.zeros_like(grad).scatter(-1, index, grad)


x = torch.tensor([[3.0, 1.0], [2.0, 4.0]])
print("Function:", torch.vmap(lambda row: NumpySort.apply(row, 0)[0])(x).tolist())
print("operator:", torch.vmap(sort)(x).tolist())
print("tangent: ", torch.func.jvp(torch.vmap(sort), (x,), (10 * x,))[1].tolist())
