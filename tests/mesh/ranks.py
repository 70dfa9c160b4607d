"""Ranks for the tests: processes that are started once for each size of a world, and run test functions all together.

A test function that `on_ranks` decorates runs on every rank. Its arguments travel, so they must be easy to pickle.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
from torch import distributed

TIMEOUT = 60
"""Seconds for one job on all ranks. Jobs that compile say more."""

GRACE = 5
"""Seconds for the other ranks after one has raised: they may wait for it in a collective."""

DIED = "died"
"""The text of a rank whose end of the pipe is closed."""

PRELOADED = ["tests.cases", "tests.mesh.table", "torch.distributed.tensor.debug", "torchgraft._nn.shard_axis"]
"""Modules that one process imports, from which the ranks are forked: an import of torch takes two seconds."""


class RankError(AssertionError):
    """What ranks raised: the traceback of each."""


class Ranks:
    """The ranks of one world."""

    def __init__(self, world: int) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._folder = tempfile.TemporaryDirectory()
        self._ends: list[Connection] = []
        self._processes = []
        for rank in range(world):
            mine, its = context.Pipe()
            process = context.Process(target=_serve, args=(rank, world, self._folder.name, its), daemon=True)
            process.start()
            its.close()
            self._ends.append(mine)
            self._processes.append(process)

    @property
    def alive(self) -> bool:
        return bool(self._processes)

    def run(self, function: Callable[..., Any], arguments: dict[str, Any], timeout: float = TIMEOUT) -> list[Any]:
        """What a test function returned on each rank.

        Raises:
            RankError: a rank raised, died, or was not ready in time. In the last two cases the ranks are gone.
        """
        __tracebackhide__ = True
        for end in self._ends:
            end.send((function.__module__, function.__qualname__, arguments))
        values: dict[int, Any] = {}
        errors: dict[int, str] = {}
        waiting = dict(enumerate(self._ends))
        deadline = time.monotonic() + timeout
        while waiting:
            ready = wait(list(waiting.values()), max(0, deadline - time.monotonic()))
            if not ready:
                break
            for rank, end in list(waiting.items()):
                if end in ready:
                    del waiting[rank]
                    good, value = _received(end)
                    (values if good else errors)[rank] = value
            if errors:
                deadline = min(deadline, time.monotonic() + GRACE)
        for rank in waiting:
            errors[rank] = "was not ready in time"
        if waiting or DIED in errors.values():
            self.stop()
        if errors:
            raise RankError(_report(errors))
        return [values[rank] for rank in sorted(values)]

    def stop(self) -> None:
        """End all ranks."""
        for process in self._processes:
            process.kill()
            process.join()
        for end in self._ends:
            end.close()
        self._processes, self._ends = [], []
        self._folder.cleanup()


def _report(errors: dict[int, str]) -> str:
    """The errors of all ranks, each text once."""
    having: dict[str, list[str]] = {}
    for rank in sorted(errors):
        having.setdefault(errors[rank], []).append(f"rank {rank}")
    return "\n".join(f"{', '.join(whose)}: {text}" for text, whose in having.items())


def _received(end: Connection) -> tuple[bool, Any]:
    try:
        return end.recv()
    except EOFError:
        return False, DIED


def _serve(rank: int, world: int, folder: str, jobs: Connection) -> None:
    """Be one rank, until the other end is closed."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # whatever the name of this machine resolves to
    torch.set_num_threads(1)
    store = distributed.FileStore(f"{folder}/store", world)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=TIMEOUT))
    try:
        while True:
            jobs.send(_done(*jobs.recv()))
    finally:
        os._exit(0)  # gloo's threads may wait for each other at a regular exit


def _done(module: str, name: str, arguments: dict[str, Any]) -> tuple[bool, Any]:
    try:
        torch.manual_seed(0)
        return True, getattr(importlib.import_module(module), name).on_each_rank(**arguments)
    except BaseException:
        return False, traceback.format_exc()


_pools: dict[int, Ranks] = {}


def ranks(world: int) -> Ranks:
    """The ranks of a world, new ones if the last are gone."""
    if world not in _pools or not _pools[world].alive:
        _pools[world] = Ranks(world)
    return _pools[world]


def stop_all() -> None:
    """End the ranks of all worlds."""
    for pool in _pools.values():
        pool.stop()


def on_ranks(world: int, timeout: float = TIMEOUT) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test function on each rank of a world; calls return what each rank returned, if that is anything."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(**arguments: Any) -> list[Any] | None:
            __tracebackhide__ = True
            values = ranks(world).run(function, arguments, timeout)
            return values if any(value is not None for value in values) else None

        run.on_each_rank = function
        return run

    return decorate


@functools.cache
def mesh_of(*shape: int) -> Any:
    """The mesh of this shape, in a rank: one for all tests."""
    from torch.distributed.tensor import init_device_mesh

    return init_device_mesh("cpu", shape, mesh_dim_names=("outer", "inner")[: len(shape)])
