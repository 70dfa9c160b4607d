# A list of tensors as the output: split by lengths, and a list in and a list out: scaled to a joint norm of 1.
# The shape rule says how many tensors there are; a rule reads `grad` and returns gradients as lists, too.
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


@tg.op
def split(x: Float[Tensor, "n"], lengths: list[int]) -> list[Float[Tensor, "_"]]:
    """The parts of x, one after another; the lengths add up to n."""
    return list(x.split(lengths))


@split.shape
def _(x, lengths):
    if sum(lengths) != x[0]:
        raise ValueError(f"lengths {lengths} do not add up to {x[0]}")
    return [(length,) for length in lengths]


@split.adjoint("x")
def _(grad):
    return torch.cat(grad)


def norm_of(xs):
    return torch.stack([x.square().sum() for x in xs]).sum().sqrt()


@tg.op
def to_unit(xs: list[Float[Tensor, "_"]]) -> list[Float[Tensor, "_"]]:
    """All tensors over their joint norm, as gradients are clipped."""
    norm = norm_of(xs)
    return [x / norm for x in xs]


@to_unit.shape
def _(xs):
    return xs


@to_unit.vjp("xs")
def _(grad, xs):
    norm = norm_of(xs)
    along = sum((g * x).sum() for g, x in zip(grad, xs, strict=True)) / norm**3
    return [g / norm - along * x for g, x in zip(grad, xs, strict=True)]


if __name__ == "__main__":
    x = torch.arange(1.0, 7.0, requires_grad=True)
    first, second, third = split(x, [1, 2, 3])
    print("parts:   ", first.tolist(), second.tolist(), third.tolist())
    (first.sum() + 10 * third.sum()).backward()  # the gradient of the second part is zero
    print("gradient:", x.grad.tolist())
    print("mapped:  ", [tuple(part.shape) for part in torch.vmap(lambda x: split(x, [4, 2]))(torch.ones(5, 6))])
    print("to norm 1", [part.tolist() for part in to_unit([torch.tensor([3.0]), torch.tensor([0.0, 4.0])])])
    for op in (split, to_unit):
        print(str(tg.check(op)).partition(";")[0])
    try:
        split(x, [1, 2])
    except tg.ShapeError as error:
        print(error)
