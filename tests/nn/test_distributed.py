"""A generated module under `DistributedDataParallel`: two processes have the gradients that one process has."""

import os
import time
from datetime import timedelta

import torch
import torch.multiprocessing
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from tests.nn.operators import Linear
from torchgraft._check import children

TIMEOUT = 90


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Linear(4, 5), nn.Tanh(), Linear(5, 1, bias=False))


def data() -> torch.Tensor:
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(1))


def train(rank: int, store: str, results: str) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # whatever the name of this machine resolves to
    torch.set_num_threads(1)
    files = distributed.FileStore(store, 2)
    distributed.init_process_group("gloo", store=files, rank=rank, world_size=2, timeout=timedelta(seconds=TIMEOUT))
    model = DistributedDataParallel(network())
    model(data()[rank::2]).square().mean().backward()
    torch.save({name: p.grad for name, p in model.module.named_parameters()}, f"{results}{rank}")
    distributed.barrier()
    os._exit(0)  # gloo's threads may wait for each other at a regular exit


def test_two_processes(tmp_path):
    alone = network()
    alone(data()).square().mean().backward()
    expected = {name: p.grad for name, p in alone.named_parameters()}
    arguments = (str(tmp_path / "store"), str(tmp_path / "grad"))
    children.fresh()  # the server of "forkserver" imports torch, once for all
    context = torch.multiprocessing.start_processes(train, arguments, nprocs=2, join=False, start_method="forkserver")
    deadline = time.monotonic() + TIMEOUT
    try:
        while not context.join(timeout=1):
            assert time.monotonic() < deadline, "the processes wait for each other"
    finally:
        for process in context.processes:
            process.kill()
    for rank in range(2):
        made = torch.load(tmp_path / f"grad{rank}")
        assert made.keys() == expected.keys()
        for name, gradient in made.items():
            torch.testing.assert_close(gradient, expected[name])
