"""Lists of DTensors on four ranks that are simulated in this process: ``python -m tests.kinds.lists_on_mesh``."""

import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import torchgraft as tg

from ..simulated import simulated
from .lists import LENGTHS, batched, looped_np, parts, split_c, to_unit, unbound

R, S0, S1 = Replicate(), Shard(0), Shard(1)
PLAIN = {
    batched: lambda x: [part.sin() for part in parts(x)],
    split_c: parts,
    looped_np: lambda x: [part.square() for part in parts(x)],
}


def whole(tensor):
    made = tensor.detach().full_tensor()
    return made.reconcile() if hasattr(made, "reconcile") else made


def compare(op, place, mesh):
    x = torch.randn(8, 6, dtype=torch.float64, requires_grad=True)
    expected = PLAIN[op](x)
    seeds = [torch.randn_like(part) for part in expected]
    laid = distribute_tensor(x.detach(), mesh, [place]).requires_grad_()
    made = op(laid, LENGTHS)
    assert type(made) is list
    assert {part.placements for part in made} == {(S0 if place == S0 else R,)}
    (gradient,) = torch.autograd.grad(made, laid, [distribute_tensor(seed, mesh, [R]) for seed in seeds])
    wanted = torch.autograd.grad(expected, x, seeds)[0]
    for one, other in zip([*made, gradient], [*expected, wanted], strict=True):
        torch.testing.assert_close(whole(one), other.detach())
    (gradient,) = torch.autograd.grad(op(laid, LENGTHS)[1].sum(), laid)  # the other parts have no cotangent
    torch.testing.assert_close(whole(gradient), torch.autograd.grad(PLAIN[op](x)[1].sum(), x)[0])


@tg.op
def copies(x: Float[Tensor, "*batch n"]) -> list[Float[Tensor, "*batch n"]]:
    return [x + i for i in range(x.shape[0])]


@copies.shape
def _(x):
    return [x] * x[0]


def main():
    torch.manual_seed(0)
    with simulated(4) as mesh:
        for op in PLAIN:
            for place in (R, S0, S1):
                compare(op, place, mesh)
        x = torch.arange(1.0, 7.0)
        laid = distribute_tensor(x, mesh, [R])
        torch.testing.assert_close(whole(to_unit([laid, laid])[1]), x / (2 * x.square().sum()).sqrt())
        with pytest.raises(tg.UnsupportedError, match="a mesh needs the length of the list"):
            unbound(distribute_tensor(torch.ones(8, 2), mesh, [S0]))
        with pytest.raises(tg.ShapeError, match="makes a list of another length"):
            copies(distribute_tensor(torch.ones(8, 2), mesh, [S0]))
    print("right")


if __name__ == "__main__":
    main()
