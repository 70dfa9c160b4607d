"""A generated module under `DistributedDataParallel`: two processes have the gradients that one process has."""

import torch
import torch.multiprocessing
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from tests.nn.operators import Linear


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Linear(4, 5), nn.Tanh(), Linear(5, 1, bias=False))


def data() -> torch.Tensor:
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(1))


def train(rank: int, store: str, results: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    model = DistributedDataParallel(network())
    model(data()[rank::2]).square().mean().backward()
    torch.save({name: p.grad for name, p in model.module.named_parameters()}, f"{results}{rank}")
    distributed.destroy_process_group()


def test_two_processes(tmp_path):
    alone = network()
    alone(data()).square().mean().backward()
    expected = {name: p.grad for name, p in alone.named_parameters()}
    torch.multiprocessing.spawn(train, (str(tmp_path / "store"), str(tmp_path / "grad")), nprocs=2)
    for rank in range(2):
        made = torch.load(tmp_path / f"grad{rank}")
        assert made.keys() == expected.keys()
        for name, gradient in made.items():
            torch.testing.assert_close(gradient, expected[name])
