"""Generated modules under the parallelisms of torch: what all ranks make together, one process makes alone."""

import functools

import pytest
import torch
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint as recomputed

import torchgraft as tg
from examples.dct import dct
from examples.gelu_scalar import gelu

from . import operators as ops
from .ranks import mesh_of, on_ranks
from .table import EXACT, full, real

R, P, S0, S1 = Replicate(), Partial(), Shard(0), Shard(1)

Linear = tg.module(ops.linear, parameters=("w", "b"))
InNumPy = tg.module(ops.linear_np, parameters=("w", "b"))
InC = tg.module(ops.linear_c, parameters=("w", "b"))
InCpp = tg.module(ops.linear_cpp, parameters=("weight", "bias"))
Looped = tg.module(ops.linear_loop, parameters=("w",))
Lookup = tg.module(ops.looked_up, parameters=("table",))
Sums = tg.module(ops.moments, parameters=("shift",))


class Net(nn.Module):
    """A layer in each language, with an operator that has no parameters between them."""

    def __init__(self):
        super().__init__()
        self.up = InNumPy(6, 8)
        self.middle = InC(8, 8)
        self.down = Linear(8, 3)

    def forward(self, x):
        return self.down(dct(gelu(self.middle(torch.tanh(self.up(x))))))


def made(kind=Net):
    """A network whose numbers all ranks agree on."""
    torch.manual_seed(0)
    return kind().double()


def data(rows=8, columns=6):
    torch.manual_seed(1)
    return real(rows, columns)


def train(model, x, steps=2):
    """The losses of some steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def same_parameters(model, alone):
    expected = dict(alone.named_parameters())
    for name, parameter in model.named_parameters():
        value = full(parameter) if isinstance(parameter, DTensor) else parameter.detach()
        torch.testing.assert_close(
            value, expected[name].detach(), **EXACT, msg=lambda text, name=name: f"{name}: {text}"
        )


# -- copies, and shards of parameters ---------------------------------------------------------------------------------


@on_ranks(2)
def test_distributed_data_parallel():
    alone = made()
    train(alone, data())
    model = DistributedDataParallel(made())
    train(model, data()[distributed.get_rank() :: 2])
    same_parameters(model.module, alone)


@on_ranks(2)
def test_fully_shard():
    """Two steps: the memory of gathered parameters is freed between them, that of arrays in NumPy kernels too."""
    alone = made()
    train(alone, data())
    model = made()
    for layer in (model.up, model.middle, model.down):
        fully_shard(layer, mesh=mesh_of(2))
    fully_shard(model, mesh=mesh_of(2))
    train(model, data()[distributed.get_rank() :: 2])
    assert {p.placements for p in model.parameters()} == {(S0,)}
    same_parameters(model, alone)


@on_ranks(2)
def test_recomputation_under_fully_shard():
    alone = made()
    train(alone, data())
    model = made()
    fully_shard(model.up, mesh=mesh_of(2))
    fully_shard(model, mesh=mesh_of(2))
    train(Recomputed(model), data()[distributed.get_rank() :: 2])
    same_parameters(model, alone)


class Recomputed:
    """A model that is computed again in the backward pass."""

    def __init__(self, model):
        self.model = model

    def parameters(self):
        return self.model.parameters()

    def __call__(self, x):
        return recomputed(self.model, x, use_reentrant=False)


@on_ranks(2)
def test_distribute_module():
    alone = made()
    losses = train(alone, data())
    mesh = mesh_of(2)
    model = distribute_module(made(), mesh)
    found = train(model, distributed_rows(data(), mesh))
    for one, other in zip(found, losses, strict=True):
        torch.testing.assert_close(full(one), other, **EXACT)
    same_parameters(model, alone)


def distributed_rows(x, mesh):
    rank, ranks = mesh.get_local_rank(), mesh.size()
    return DTensor.from_local(x.chunk(ranks)[rank], mesh, [S0], run_check=False)


# -- shards of an axis ------------------------------------------------------------------------------------------------


class Pair(nn.Module):
    def __init__(self, first=Linear, second=Linear):
        super().__init__()
        self.up, self.down = first(6, 8), second(8, 3)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


LANGUAGES = {"torch": Linear, "NumPy": InNumPy, "C": InC, "C++": InCpp}


@pytest.mark.parametrize("language", LANGUAGES)
@on_ranks(2)
def test_column_then_row(language):
    kind = functools.partial(Pair, LANGUAGES[language], LANGUAGES[language])
    alone = made(kind)
    x = data(5)
    losses = train(alone, x)
    model = made(kind)
    parallelize_module(model, mesh_of(2), {"up": tg.ShardAxis("m"), "down": tg.ShardAxis("n")})
    weights = [next(layer.parameters()) for layer in (model.up, model.down)]
    assert [w.placements for w in weights] == [(S0,), (S1,)]
    with CommDebugMode() as counter:
        out = model(x)
    assert type(out) is torch.Tensor
    assert counter.get_total_counts() == 1, counter.get_comm_counts()
    for one, other in zip(train(model, x), losses, strict=True):
        torch.testing.assert_close(one, other, **EXACT)
    same_parameters(model, alone)


@on_ranks(2)
def test_layouts_and_outputs():
    alone = made(lambda: Linear(6, 4))
    x = data(5)
    expected = alone(x)
    cases = [
        ("m", {}, (5, 2), S1),
        ("m", {"output_layouts": R}, (5, 4), R),
        ("m", {"use_local_output": False}, None, S1),
        ("n", {"input_layouts": R}, (5, 4), R),
        ("n", {"input_layouts": [R], "output_layouts": [S0]}, None, S0),
        ("n", {"input_layouts": R, "use_local_output": False}, None, R),
        ("n", {"input_layouts": R, "output_layouts": P, "use_local_output": False}, None, P),
    ]
    for axis, options, shape, placement in cases:
        model = parallelize_module(made(lambda: Linear(6, 4)), mesh_of(2), tg.ShardAxis(axis, **options))
        out = model(x)
        assert isinstance(out, DTensor) == (not options.get("use_local_output", True))
        if not isinstance(out, DTensor):
            assert shape is None or out.shape == shape
            out = DTensor.from_local(out, mesh_of(2), [placement], run_check=False, shape=(5, 4), stride=(4, 1))
        assert out.placements == (placement,)
        torch.testing.assert_close(full(out), expected.detach(), **EXACT)
    model = parallelize_module(made(lambda: Linear(6, 4)), mesh_of(2), tg.ShardAxis("n"))
    cut = x.chunk(2, -1)[mesh_of(2).get_local_rank()]  # By default, a plain input is taken for its own part.
    torch.testing.assert_close(model(cut), expected, **EXACT)


@on_ranks(2)
def test_shard_axis_of_other_operators():
    mesh, x = mesh_of(2), data(5)
    for axis in "mn":
        alone, model = made(lambda: Looped(6, 4)), made(lambda: Looped(6, 4))
        parallelize_module(model, mesh, tg.ShardAxis(axis, input_layouts=R, output_layouts=R))
        torch.testing.assert_close(model(x), alone(x), **EXACT)
        torch.testing.assert_close(model(x=x), alone(x), **EXACT)
    alone, model = made(lambda: Lookup(5, 4)), made(lambda: Lookup(5, 4))
    parallelize_module(model, mesh, tg.ShardAxis("m", output_layouts=R))
    index = torch.tensor([[3, 0], [4, 4]])
    torch.testing.assert_close(model(index), alone(index), **EXACT)
    sums = [made(lambda: Sums(6)) for _ in range(2)]
    with torch.no_grad():
        for each in sums:
            each.shift.copy_(torch.arange(6))
    parallelize_module(sums[0], mesh, tg.ShardAxis("m", input_layouts=R, output_layouts=R))
    both = sums[0](x[None])
    assert isinstance(both, ops.Moments)
    for one, other in zip(both, sums[1](x[None]), strict=True):
        torch.testing.assert_close(one, other, **EXACT)


@on_ranks(2)
def test_arguments_that_forward_does_not_know():
    model = parallelize_module(made(lambda: Linear(6, 4)), mesh_of(2), tg.ShardAxis("m"))
    with pytest.raises(TypeError, match="argument"):
        model(data(5), data(5))
    with pytest.raises(TypeError, match="argument"):
        model(y=data(5))


@on_ranks(2)
def test_a_frozen_weight_stays_frozen():
    model = made(lambda: Linear(6, 4))
    model.w.requires_grad_(False)
    parallelize_module(model, mesh_of(2), tg.ShardAxis("m"))
    assert (model.w.requires_grad, model.b.requires_grad) == (False, True)
    assert "ShardAxis('m'" in repr(tg.ShardAxis("m"))


@pytest.mark.slow
@on_ranks(4)
def test_fully_shard_and_shard_axis():
    alone = made(Pair)
    train(alone, data())
    mesh = mesh_of(2, 2)
    model = made(Pair)
    parallelize_module(model, mesh["inner"], {"up": tg.ShardAxis("m"), "down": tg.ShardAxis("n")})
    for layer in (model.up, model.down, model):
        fully_shard(layer, mesh=mesh["outer"])
    train(model, data()[mesh.get_coordinate()[0] :: 2])
    assert model.down.w.placements == (S0, S1)
    same_parameters(model, alone)


# -- checkpoints, pipelines -------------------------------------------------------------------------------------------


def test_a_checkpoint_is_loaded_with_another_sharding(tmp_path):
    save_and_load(folder=str(tmp_path))


@on_ranks(2)
def save_and_load(folder):
    model = made(Pair)
    parallelize_module(model, mesh_of(2), {"up": tg.ShardAxis("m"), "down": tg.ShardAxis("n")})
    train(model, data())
    checkpoint.save({"model": get_model_state_dict(model)}, checkpoint_id=folder)
    for shard in (
        lambda other: fully_shard(other, mesh=mesh_of(2)),
        lambda other: parallelize_module(other, mesh_of(2), {"up": tg.ShardAxis("n"), "down": tg.ShardAxis("m")}),
        lambda other: None,
    ):
        other = made(Pair)
        shard(other)
        state = {"model": get_model_state_dict(other)}
        checkpoint.load(state, checkpoint_id=folder)
        set_model_state_dict(other, state["model"])
        for (name, one), (_, two) in zip(other.named_parameters(), model.named_parameters(), strict=True):
            value = full(one) if isinstance(one, DTensor) else one.detach()
            torch.testing.assert_close(value, full(two), **EXACT, msg=lambda text, name=name: f"{name}: {text}")


@on_ranks(2)
def test_two_stages_of_a_pipeline():
    alone = made(Pair)
    x = data()
    alone(x).square().sum().backward()
    rank = distributed.get_rank()
    model = made(Pair)
    part = (nn.Sequential(model.up, nn.Tanh()), model.down)[rank]
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=lambda out, target: (out - target).square().sum(),
                             scale_grads=False)  # fmt: skip
    if rank == 0:
        schedule.step(x)
    else:
        schedule.step(target=torch.zeros(8, 3, dtype=torch.float64))
    own = (model.up, model.down)[rank]
    expected = (alone.up, alone.down)[rank]
    for (name, one), two in zip(own.named_parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, **EXACT, msg=lambda text, name=name: f"{name}: {text}")
