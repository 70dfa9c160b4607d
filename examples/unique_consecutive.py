# Outputs whose size k is known only after the call: the runs of equal neighbours, and how long each is.
# A C function gets memory for the bound, k <= n, and says how much of it counts.
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import torchgraft as tg


class Runs(NamedTuple):
    values: Float[Tensor, "k"]
    counts: Int64[Tensor, "k"]


@tg.op(data_dependent="k <= n")
def unique_consecutive(x: Float[Tensor, "n"]) -> Runs:
    """The value of each run of equal neighbours, and how many they are."""
    return Runs(*torch.unique_consecutive(x, return_counts=True))


@unique_consecutive.kernel("cpu", tg.c("unique_consecutive.c"))
def _(x): ...


@unique_consecutive.vjp("x")
def _(grad, counts, x):
    """Each element of a run gets an equal part, as those of equal largest elements do in `torch.amax`.

    The derivative is that at one size, along changes that keep equal neighbours equal. There all ways to share a
    cotangent out among a run give the same number; the equal parts are the shortest gradient among them.
    """
    run = torch.repeat_interleave(counts, output_size=x.shape[0])  # the number of the run that each element is in
    return (grad / counts)[run]


@unique_consecutive.samples
def _(generator):
    x = torch.randn(4, dtype=torch.float64, generator=generator)
    yield (x,)
    yield (x.repeat_interleave(torch.tensor([2, 1, 3, 1])),)  # Equal neighbours, which a check moves together.
    yield (x[:0],)


if __name__ == "__main__":
    x = torch.tensor([2.0, 2.0, 0.5, 3.0, 3.0, 3.0], requires_grad=True)

    values, counts = unique_consecutive(x)
    print("values:  ", values.tolist())
    print("counts:  ", counts.tolist())
    values.square().sum().backward()
    print("gradient:", x.grad.tolist())

    compiled = torch.compile(lambda x: unique_consecutive(x).values.sum(), backend="eager", fullgraph=True)
    print("compiled:", compiled(x).item(), compiled(torch.ones(6)).item())  # one graph for all sizes k
    try:
        torch.vmap(unique_consecutive)(torch.randn(2, 6))
    except tg.UnsupportedError as error:
        print(error)
