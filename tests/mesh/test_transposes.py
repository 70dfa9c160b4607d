"""The two maps between a mesh and its ranks are transposes of each other; those of torch are not, which is seen."""

import pytest
import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from torchgraft._mesh import call
from torchgraft._mesh.transposes import Place, Side, to_global, to_local

from .ranks import mesh_of, on_ranks
from .table import TABLE, compare, full, lay, real

R, P, S1 = Replicate(), Partial(), Shard(1)


def of_torch_to_local(sides, tensors, watch=None, *, as_wanted=False):
    """The parts of DTensors, by torch's own map."""
    return [
        tensor.redistribute(side.mesh, side.placements).to_local(grad_placements=side.gradient.placements)
        for side, tensor in zip(sides, tensors, strict=True)
    ]


def of_torch_from_local(sides, parts, watch=None):
    """DTensors of the tensors of a rank, by torch's own map."""
    return [
        DTensor.from_local(
            part, side.mesh, side.placements, run_check=False, shape=side.spec.shape, stride=side.spec.stride
        )
        for side, part in zip(sides, parts, strict=True)
    ]


def compare_rows(order):
    """A linear map whose weights are cut by rows: its output is the sum over ranks."""
    compare(TABLE["mesh linear 2"], mesh_of(2), [(Shard(2),), (S1,)], order=order)


@on_ranks(2)
def test_torchs_own_maps_are_wrong_at_the_second_order():
    compare_rows(order=2)
    right = call.to_local, call.to_global
    try:
        call.to_local, call.to_global = of_torch_to_local, of_torch_from_local
        compare_rows(order=1)
        with pytest.raises(AssertionError, match=r"result [3456]"):  # 0 is the output, 1 and 2 the first derivatives.
            compare_rows(order=2)
    finally:
        call.to_local, call.to_global = right
    compare_rows(order=2)


@pytest.mark.parametrize("ways", [(S1, S1), (R, P), (P, R), (R, R)], ids=str)
@on_ranks(2)
def test_transposes(ways):
    """<A x, y> = <x, A' y>, for both maps and the transposes of their transposes."""
    mesh = mesh_of(2)
    placed, of_gradient = ways
    side = Side(mesh, [Place(placed, of_gradient)], (3, 5), torch.float64, "a test")
    x, y = lay(real(3, 5), mesh, [placed]).requires_grad_(), lay(real(3, 5), mesh, [of_gradient])
    (part,) = to_local([side], [x])
    seed = y.to_local().detach().requires_grad_()
    (pulled,) = torch.autograd.grad(part, x, seed, create_graph=True)
    assert pulled.placements == (of_gradient,), pulled.placements
    torch.testing.assert_close(full(pulled), full(y))
    (again,) = torch.autograd.grad(pulled, seed, x.detach())
    assert torch.equal(again, x.to_local()), "the transpose of the transpose is the map"
    (whole,) = to_global([side], [part])
    assert whole.placements == (placed,)
    torch.testing.assert_close(full(whole), full(x))
