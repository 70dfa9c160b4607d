"""Ranks speak with each other as often as they do for torch's own linear map, and never unasked."""

import pytest
import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode

try:
    from torch.distributed.tensor.debug import ExplicitRedistributionContext
except ImportError:
    from torch.distributed.tensor._utils import ExplicitRedistributionContext

from examples.correlate2d_c import correlate2d
from examples.dct import dct

from . import operators as ops
from .ranks import mesh_of, on_ranks
from .table import EXACT, full, lay, real

R, P, S0, S1 = Replicate(), Partial(), Shard(0), Shard(1)

SERVED = [torch.nn.functional.linear, ops.linear, ops.linear_np, ops.linear_c, ops.linear_cpp]


def counted(function):
    """What a function returns, and the collectives that it took, by name."""
    with CommDebugMode() as counter:
        value = function()
    counts = counter.get_comm_counts()
    return value, {str(packet).rpartition(".")[2]: count for packet, count in counts.items() if count}


WAYS = {
    "batch": ((S0, R), {}, {}, {"all_reduce": 1}),
    "column": ((R, S0), {}, {}, {}),
    "row": ((S1, S1), {}, {}, {}),
    "whole": ((R, R), {}, {}, {}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", range(len(SERVED)), ids=lambda i: f"{i} {SERVED[i].__name__}")
@on_ranks(2)
def test_as_many_as_of_torch(function, way):
    places, forward, backward, use = WAYS[way]
    x, w = [lay(t, mesh_of(2), [p]).requires_grad_() for t, p in zip((real(6, 4), real(2, 4)), places, strict=True)]
    out, of_forward = counted(lambda: SERVED[function](x, w))
    seed = lay(real(6, 2), mesh_of(2), [R if p == P else p for p in out.placements])
    gradients, of_backward = counted(lambda: torch.autograd.grad(out, (x, w), seed))
    _, of_use = counted(lambda: full(gradients[1]) if places[1] == R else None)
    assert (of_forward, of_backward) == (forward, backward), (of_forward, of_backward)
    assert {name.replace("_coalesced", ""): n for name, n in of_use.items()} == use, of_use


@on_ranks(2)
def test_a_kernel_in_c_takes_none_for_a_batch():
    x, kernel = lay(real(4, 5, 6), mesh_of(2), [S0]).requires_grad_(), lay(real(2, 3), mesh_of(2), [R]).requires_grad_()
    out, forward = counted(lambda: correlate2d(x, kernel))
    gradients, backward = counted(lambda: torch.autograd.grad(out, (x, kernel), torch.ones_like(out)))
    assert (forward, backward) == ({}, {})
    assert [g.placements for g in gradients] == [(S0,), (P,)]


@on_ranks(2)
def test_an_axis_that_is_not_cut_is_gathered_once():
    x = lay(real(4, 6), mesh_of(2), [S1]).requires_grad_()
    out, forward = counted(lambda: dct(x))
    assert forward == {"all_gather_into_tensor": 1}, forward
    _, backward = counted(lambda: torch.autograd.grad(out, x, torch.ones_like(out)))
    assert backward == {}, backward


@on_ranks(2)
def test_sums_stay_sums_through_what_is_linear():
    x = lay(real(4, 6), mesh_of(2), [P]).requires_grad_()
    out, forward = counted(lambda: dct(x))
    assert forward == {}
    assert out.placements == (P,)
    seed = lay(real(4, 6), mesh_of(2), [R])
    (gradient,), backward = counted(lambda: torch.autograd.grad(out, x, seed))
    assert backward == {}
    assert gradient.placements == (R,)


@on_ranks(2)
def test_unasked_communication_can_be_refused():
    x, good = lay(real(4, 6), mesh_of(2), [S1]), lay(real(4, 6), mesh_of(2), [S0])
    with ExplicitRedistributionContext():
        torch.testing.assert_close(full(dct(good)), dct(full(good)), **EXACT)
        with pytest.raises(
            RuntimeError, match=r"dct: x lies as \[Shard\(dim=1\)\], and is wanted as \[Replicate\(\)\]"
        ):
            dct(x)
        linear = ops.linear(lay(real(6, 4), mesh_of(2), [S1]), lay(real(2, 4), mesh_of(2), [S1]))
        assert linear.placements == (P,)
        with pytest.raises(RuntimeError, match="linear: w lies as"):
            ops.linear(lay(real(60, 4), mesh_of(2), [S0]), lay(real(2, 4), mesh_of(2), [S1]))
    dct(x)


@on_ranks(2)
def test_unasked_communication_of_a_gradient_can_be_refused():
    x, seed = lay(real(4, 6), mesh_of(2), [S0]).requires_grad_(), lay(real(4, 6), mesh_of(2), [P])
    out = dct(x)
    with (
        ExplicitRedistributionContext(),
        pytest.raises(RuntimeError, match=r"the gradient of dct: \w+ lies as \[Partial\(sum\)\]"),
    ):
        torch.autograd.grad(out, x, seed)


@pytest.mark.slow
@on_ranks(4)
def test_data_and_tensor_parallel_at_once():
    mesh = mesh_of(2, 2)
    x, w = lay(real(6, 4), mesh, (S0, R)).requires_grad_(), lay(real(2, 4), mesh, (R, S0)).requires_grad_()
    for function in SERVED:
        out, forward = counted(lambda function=function: function(x, w))
        assert forward == {}, forward
        assert out.placements == (S0, S1)
        gradients, backward = counted(lambda out=out: torch.autograd.grad(out, (x, w), torch.ones_like(out)))
        assert backward == {}, backward
        assert [g.placements for g in gradients] == [(S0, P), (P, S0)]
