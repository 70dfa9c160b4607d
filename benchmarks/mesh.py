"""What an operator costs on a mesh, beside torch's own functions on DTensors of the same placements.

Collectives are counted by torch's CommDebugMode. Times are those of one rank among 64 and 1,024 that a fake process
group pretends: it sends nothing, so that what is left is the work of the CPU, whose time is taken. Run it as

    python benchmarks/mesh.py            # prints the table
    python benchmarks/mesh.py --write    # and puts it into docs/benchmarks.md, and the collectives into docs/mesh.md
"""

# ruff: noqa: RUF001 - Chinese has commas of its own

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

import torchgraft as tg
from torchgraft import _torch
from torchgraft._mesh.choice import choose

sys.path.insert(0, str(Path(__file__).parent))

from _timing import ROOT, Row, difference, interleave, put, ratio, run, us


@tg.op(parallel="m", reduction="n")
def linear(x: Float[Tensor, "*batch n"], weight: Float[Tensor, "m n"]) -> Float[Tensor, "*batch m"]:
    return x @ weight.mT


@linear.vjp("x")
def _(grad, weight):
    return grad @ weight


@linear.vjp("weight")
def _(grad, x):
    return grad.flatten(0, -2).mT @ x.flatten(0, -2)


@tg.op
def softmax(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    return torch.softmax(x, -1)


@softmax.vjp("x")
def _(grad, out):
    return out * (grad - (grad * out).sum(-1, keepdim=True))


@contextmanager
def fake_mesh(*sizes: int) -> Iterator[Any]:
    """A mesh of ranks of which this process is the first, and the others do not exist."""
    ranks = torch.Size(sizes).numel()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        yield dist.init_device_mesh("cpu", sizes)
    finally:
        dist.destroy_process_group()


# -- collectives ------------------------------------------------------------------------------------------------

Counts = tuple[str, str, str]
"""Collectives of a forward pass, of a backward pass, and of bringing the weight's gradient to where the weight lies."""


def counted(function: Callable[[], Any]) -> tuple[str, Any]:
    """The collectives of a call, and what it returns."""
    with CommDebugMode() as mode:
        result = function()
    found = {str(name).rpartition(".")[2]: count for name, count in mode.get_comm_counts().items() if count}
    return ", ".join(f"{count} {name}" for name, count in found.items()) or "0", result


def of_function(function: Callable[..., Any], *inputs: Any) -> Counts:
    """Collectives of a function of DTensors, the last of which is the weight."""
    forward, out = counted(lambda: function(*inputs))
    places = [Replicate() if placement.is_partial() else placement for placement in out.placements]
    cotangent = DTensor.from_local(torch.ones_like(out.to_local()), out.device_mesh, places, run_check=False)
    backward, gradients = counted(lambda: torch.autograd.grad(out, inputs, cotangent))
    weight, _ = counted(lambda: gradients[-1].redistribute(placements=inputs[-1].placements))
    return forward, backward, weight


def of_layers(layer: Callable[[int, int], nn.Module], up: ParallelStyle, down: ParallelStyle, mesh: Any) -> Counts:
    """Collectives of two layers, the first cut along its outputs and the second along its inputs."""
    layers = parallelize_module(nn.Sequential(layer(8, 16), nn.Tanh(), layer(16, 8)), mesh, {"0": up, "2": down})
    x = torch.randn(8, 8, requires_grad=True)
    forward, out = counted(lambda: layers(x))
    weight = layers[0].weight
    backward, _ = counted(lambda: out.sum().backward())
    last, _ = counted(lambda: weight.grad.redistribute(placements=weight.placements))
    return forward, backward, last


def collectives() -> dict[str, tuple[Counts, str, Counts]]:
    """What is cut, and the collectives of torchgraft, and of a rival, by name."""
    replicate, rows, columns = Replicate(), Shard(0), Shard(1)
    with fake_mesh(8) as mesh:

        def placed(placement: Placement) -> Any:
            return distribute_tensor(torch.randn(16, 16), mesh, [placement]).requires_grad_()

        def both(ours: Any, theirs: Any, name: str, *placements: Placement) -> tuple[Counts, str, Counts]:
            inputs = [placed(placement) for placement in placements]
            return of_function(ours, *inputs), name, of_function(theirs, *inputs)

        def module(n: int, m: int) -> nn.Module:
            return tg.module(linear, parameters=("weight",))(n=n, m=m)

        def plain(n: int, m: int) -> nn.Module:
            return nn.Linear(n, m, bias=False)

        return {
            "a batch axis": both(linear, functional.linear, "F.linear", rows, replicate),
            "`parallel`: columns of the outputs": both(linear, functional.linear, "F.linear", replicate, rows),
            "`reduction`: the terms of the sum": both(linear, functional.linear, "F.linear", columns, columns),
            "an axis that is gathered": both(softmax, lambda x: torch.softmax(x, -1), "softmax", columns),
            "two layers: `parallel`, then `reduction`": (
                of_layers(module, tg.ShardAxis("m"), tg.ShardAxis("n"), mesh),
                "ColwiseParallel, RowwiseParallel",
                of_layers(plain, ColwiseParallel(), RowwiseParallel(), mesh),
            ),
        }  # fmt: skip


def collective_rows() -> list[Row]:
    return [
        Row(f"collectives, {what}", " / ".join(ours), f"{rival} {' / '.join(theirs)}",
            "the same" if ours == theirs else "others", "the same")
        for what, (ours, rival, theirs) in collectives().items()
    ]  # fmt: skip


CHINESE = {
    "| what is cut | forward | backward | the weight's gradient | torch's own |":
        "| 切分什么 | 前向 | 反向 | 权重的梯度 | torch 自己的函数 |",
    "a batch axis": "批量轴",
    "`parallel`: columns of the outputs": "`parallel`：输出的各列",
    "`reduction`: the terms of the sum": "`reduction`：和的各项",
    "an axis that is gathered": "被收集的轴",
    "two layers: `parallel`, then `reduction`": "两层：先 `parallel`，后 `reduction`",
    ": the same": "：相同",
    "ColwiseParallel, RowwiseParallel": "ColwiseParallel、RowwiseParallel",
}  # fmt: skip


def table_of_collectives() -> str:
    """The table of docs/mesh.md."""
    lines = ["| what is cut | forward | backward | the weight's gradient | torch's own |", "|---|---|---|---|---|"]
    for what, (ours, rival, theirs) in collectives().items():
        beside = f"{rival}: {'the same' if ours == theirs else ' / '.join(theirs)}"
        lines.append(f"| {what} | {' | '.join(ours)} | {beside} |")
    return "\n".join(lines)


def in_chinese(table: str) -> str:
    """The table with Chinese words."""
    for english, chinese in CHINESE.items():
        table = table.replace(english, chinese)
    return table


# -- times ------------------------------------------------------------------------------------------------------


def timed(sizes: Sequence[int], x: Sequence[Placement], weight: Sequence[Placement]) -> list[Row]:
    """A call, and one with its backward pass, on parts of 8 x 16 and 16 x 16 numbers."""
    ranks = " x ".join(f"{size:,}" for size in sizes)
    with fake_mesh(*sizes) as mesh:
        a = DTensor.from_local(torch.randn(8, 16), mesh, x, run_check=False)
        w = DTensor.from_local(torch.randn(16, 16), mesh, weight, run_check=False)

        def both(function: Callable[..., Any], a: Any, w: Any) -> Callable[[], object]:
            a, w = a.detach().requires_grad_(), w.detach().requires_grad_()
            cotangent = torch.ones_like(function(a, w))
            return lambda: torch.autograd.grad(function(a, w), (a, w), cotangent)

        with torch.no_grad():
            calls = interleave(
                {"op": lambda: linear(a, w), "torch": lambda: functional.linear(a, w)}, 100, clock=process_time
            )
        passes = interleave({"op": both(linear, a, w), "torch": both(functional.linear, a, w)}, 30, clock=process_time)
    return [
        Row(f"{what}, {ranks} ranks", us(times["op"]), f"F.linear {us(times['torch'])}",
            f"{ratio(times['op'], times['torch']):.2f} x", bar)
        for what, times, bar in (
            ("no-grad call on DTensors", calls, "1.3 x"), ("forward + backward on DTensors", passes, "1.5 x"),
        )
    ]  # fmt: skip


def calls() -> list[Row]:
    one = [Shard(0)], [Replicate()]
    two = [Shard(0), Replicate()], [Replicate(), Shard(0)]
    return [*timed([64], *one), *timed([1024], *one), *timed([128, 8], *two)]


def choosing() -> list[Row]:
    """The choice of a cut alone, and a call for whose placements none was chosen yet, over one for which it was."""
    return [
        row
        for sizes, x, weight in (
            ([1024], [Shard(0)], [Replicate()]),
            ([128, 8], [Shard(0), Replicate()], [Replicate(), Shard(0)]),
        )
        for row in chosen(sizes, x, weight)
    ]


def chosen(sizes: Sequence[int], x: Sequence[Placement], weight: Sequence[Placement]) -> list[Row]:
    with fake_mesh(*sizes) as mesh, torch.no_grad():
        a = DTensor.from_local(torch.randn(8, 16), mesh, x, run_check=False)
        w = DTensor.from_local(torch.randn(16, 16), mesh, weight, run_check=False)
        memo = _torch.memo_of(mesh)

        def new() -> None:
            memo.clear()
            linear(a, w)

        record, tensors = linear._record, [a, w]
        plan = record.plan(tensors)
        ways = {
            "choice": lambda: choose(record, tensors, plan, tensors, mesh), "new": new, "known": lambda: linear(a, w)
        }  # fmt: skip
        times = interleave(ways, 30, clock=process_time)
    where = f"{' x '.join(f'{size:,}' for size in sizes)} ranks"
    over = difference(times["new"], times["known"])
    alone = us(times["choice"])
    return [
        Row(f"choosing a cut, {where}", alone, "", alone, "80 us" if len(sizes) == 1 else ""),
        Row(f"call with new placements, {where}", us(times["new"]), f"known placements {us(times['known'])}",
            f"+{over:.0f} us", ""),
    ]  # fmt: skip


PLAIN = """
import statistics, sys, time, torch, torchgraft as tg
from jaxtyping import Float
from torch import Tensor

@tg.op
def scale(x: Float[Tensor, "n"], factor: float) -> Float[Tensor, "n"]:
    return x * factor

def median():
    times = []
    for _ in range(60):
        start = time.process_time()
        for _ in range(1000):
            scale(x, 2.0)
        times.append((time.process_time() - start) / 1000)
    return statistics.median(times)

torch.set_num_threads(1)
x = torch.randn(8)
with torch.no_grad():
    median()
    assert "torch.distributed.tensor" not in sys.modules
    before = median()
    import torch.distributed.tensor
    median()
    print(before, median())
"""


def plain_calls(rounds: int = 5) -> list[Row]:
    """A call with plain tensors, before DTensors are imported and after: each process can tell it once."""
    pairs = []
    for _ in range(rounds):
        done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=True)
        pairs.append([float(word) for word in done.stdout.split()])
    before, after = ([pair[i] for pair in pairs] for i in (0, 1))
    return [
        Row("no-grad call on a plain tensor, DTensors imported", us(after), f"before the import {us(before)}",
            f"{statistics.median(b - a for a, b in pairs) * 1e6:+.2f} us", "")
    ]  # fmt: skip


BENCHMARKS = {"collectives": collective_rows, "calls": calls, "choosing": choosing, "plain": plain_calls}

if __name__ == "__main__":
    run("mesh", __doc__, BENCHMARKS)
    if "--write" in sys.argv:
        text = table_of_collectives()
        put("collectives", text, [ROOT / "docs/mesh.md"])
        put("collectives", in_chinese(text), [ROOT / "docs/mesh.zh.md"])
