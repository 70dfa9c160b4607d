# Several outputs, one of them an integer and so without a gradient; a list of numbers and a choice as arguments.
# A rule may ask for the cotangent of each of the others, `grad_NAME`: it is zero where nobody used that output.
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import torchgraft as tg


class TopTwo(NamedTuple):
    values: Float[Tensor, "*batch 2"]
    index: Int64[Tensor, "*batch 2"]
    blend: Float[Tensor, "*batch"]


@tg.op
@tg.domain(n="[2, inf)", weights="real^2")
def top_two(
    scores: Float[Tensor, "*batch n"], weights: list[float], order: Literal["largest", "smallest"] = "largest"
) -> TopTwo:
    """The two scores at one end, where they were, and their weighted sum; of equal scores any may be taken."""
    values, index = scores.topk(2, largest=order == "largest")
    first, second = weights
    return TopTwo(values, index, first * values[..., 0] + second * values[..., 1])


@top_two.vjp("scores")
def _(grad_values, grad_blend, scores, index, weights):
    first, second = weights
    gradient = grad_values + torch.stack([first * grad_blend, second * grad_blend], -1)
    return torch.zeros_like(scores).scatter(-1, index, gradient)


if __name__ == "__main__":
    scores = torch.tensor([[0.1, 0.7, 0.4, 0.2], [0.9, 0.3, 0.5, 0.8]], requires_grad=True)

    best = top_two(scores, weights=[0.75, 0.25])
    print("index:   ", best.index.tolist())
    print("blend:   ", [round(value, 3) for value in best.blend.tolist()])
    best.blend.sum().backward()
    print("gradient:", scores.grad.tolist())
    try:
        top_two(scores, [0.5, 0.5], order="best")
    except tg.ArgumentError as error:
        print(error)
