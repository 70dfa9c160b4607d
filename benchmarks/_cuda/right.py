"""Whether values on a GPU are those of the CPU, in all the ways in which an operator is called."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from _cuda.place import Place, Result, row, said
from torch import Tensor

import torchgraft as tg
from tests.cuda import ends
from tests.cuda.draws import TOLERANCES, apart, arguments, gradients, listed
from tests.cuda.operators import FLOATS, NAMES, make
from torchgraft._build.cuda import text

DIFFERENTIABLE = ("soft", "noisy")


def moved(values: Sequence[Any], place: Place) -> list[Any]:
    """The arguments on the device, with the strides that they have."""

    def copy(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=place.device).copy_(value)

    # What shares memory with itself cannot be copied into.
    return [v.to(place.device) if isinstance(v, Tensor) and 0 in v.stride() else copy(v) for v in values]


def worst(place: Place, names: Sequence[str], call: Any, slack: float) -> Result:
    """Compare random calls with those on the CPU: the largest error in tolerances, and how many calls are above."""
    largest, wrong, count = 0.0, 0, 0
    on_cpu, on_device = make(), make()
    for name in names:
        for dtype in FLOATS:
            chance = random.Random(f"{name} {dtype}")
            for _ in range(place.cases):
                args, options = arguments(chance, name, dtype)
                made = call(on_device[name], moved(args, place), options)
                expected = call(on_cpu[name], args, options)
                error = max(
                    (apart(one.cpu(), other) for one, other in zip(listed(made), listed(expected), strict=True)),
                    default=0.0,
                ) / (TOLERANCES.get(dtype, 1.0) * slack)
                largest, wrong, count = max(largest, error), wrong + (not error <= 1), count + 1
    return f"{largest:.2g} of the tolerance, {count} calls", "CPU", said(not wrong)


@row("values, random shapes, layouts and dtypes", "right")
def _(place: Place) -> Result:
    return worst(place, NAMES, lambda op, args, options: op(*args, **options), 1)


@row("gradients, random shapes, layouts and dtypes", "right")
def _(place: Place) -> Result:
    return worst(place, DIFFERENTIABLE, lambda op, args, options: gradients(op, args, options), 20)


@row("vmap, jvp and jacrev", "right")
def _(place: Place) -> Result:
    soft = make()["soft"]
    x, y = (torch.randn(5, 7, dtype=torch.float64, device=place.device) for _ in range(2))
    slope = torch.sigmoid(x) * y
    pairs = [
        (torch.vmap(soft, (1, 0), 1)(x, y.T.clone()), torch.nn.functional.softplus(x) * y),
        (torch.func.jvp(soft, (x, y), (x, torch.zeros_like(y)))[1], slope * x),
        (torch.func.jacrev(soft)(x[0], y[0]), torch.diag(slope[0])),
    ]
    return "", "formula", said(all(torch.allclose(made, expected) for made, expected in pairs))


@row("`tg.check`", "PASS")
def _(place: Place) -> Result:
    report = tg.check(make()["soft"], **({"device": "cuda"} if place.is_gpu else {}))
    return report.headline, "", said(report.ok)


@row("2^31 + 1000 elements of float16", "right", needs_gpu=True)
def _(place: Place) -> Result:
    x = torch.ones(2**31 + 1000, dtype=torch.float16, device=place.device)
    x[-1] = 4
    made = make()["root"](x)
    return "", "", said(bool(made[-1] == 2) and bool((made[:-1] == 1).all()))


@row("CUDA graph: capture, and replay with another input", "right", needs_gpu=True)
def _(place: Place) -> Result:
    root, x = make()["root"], torch.ones(1000, device=place.device)
    root(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = root(x) * 2
    x.fill_(9)
    graph.replay()
    torch.cuda.synchronize()
    return "", "", said(bool((made == 6).all()))


@row("CUDA graph: a kernel that is not loaded yet", "refused", needs_gpu=True)
def _(place: Place) -> Result:
    root, x = make()["root"], torch.ones(1000, device=place.device)
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            root(x)
    except tg.KernelError as error:
        return "", "", "refused" if "call it once before" in str(error) else "WRONG"
    return "", "", "WRONG"


@row("a stream that is behind, 50 rounds", "right", needs_gpu=True)
def _(place: Place) -> Result:
    root, stream, right = make()["root"], torch.cuda.Stream(), True
    for _ in range(50):
        x = torch.empty(1_000_000, device=place.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(1_000_000)
            x.fill_(4)
            made = root(x)
        torch.cuda.current_stream().wait_stream(stream)
        x.record_stream(stream)
        right &= bool((made == 2).all())
    return "", "", said(right)


@row("the second device, while the first is current", "right", needs_gpu=True)
def _(place: Place) -> Result:
    if torch.cuda.device_count() < 2:
        return "", "", "no second device"
    made = make()["root"](torch.full((1000,), 4.0, device="cuda:1"))
    return "", "", said(made.device.index == 1 and bool((made == 2).all()))


@row("`torch.compile`, default, with a gradient", "right", needs_gpu=True)
def _(place: Place) -> Result:
    return compiled(place)


@row("`torch.compile`, reduce-overhead, with a gradient", "right", needs_gpu=True)
def _(place: Place) -> Result:
    return compiled(place, mode="reduce-overhead")


def compiled(place: Place, **options: Any) -> Result:
    """The gradient of a compiled function, four times, as graphs of CUDA are captured after some."""
    soft, right = make()["soft"], True
    function = torch.compile(lambda x, y: (soft(x, y) * 2).sum(), fullgraph=True, **options)
    for _ in range(4):
        x, y = (torch.randn(1000, device=place.device, requires_grad=True) for _ in range(2))
        (made,) = torch.autograd.grad(function(x, y), x)
        right &= torch.allclose(made.clone(), 2 * torch.sigmoid(x) * y, atol=1e-5)
    return "", "formula", said(right)


@row("`torch.profiler` names the kernel", "yes", needs_gpu=True)
def _(place: Place) -> Result:
    root, x = make()["root"], torch.ones(1000, device=place.device)
    root(x)
    with torch.profiler.profile() as seen:
        root(x)
        torch.cuda.synchronize()
    names = [event.key for event in seen.key_averages() if "root" in event.key or event.key in text.ENTRIES]
    return ", ".join(names), "", "yes" if text.ENTRIES[0] in names else "NO"


@row("special functions at their ends", "right")
def _(place: Place) -> Result:
    cases = ends.CASES[:: 1 if place.is_gpu else 16]
    wrong = [
        label
        for name, label in cases
        if ends.misses(label, [o.cpu() for o in ends.found(name, label, moved(ends.inputs_of(label), place))], slack=4)
    ]
    return f"{len(cases)} functions", "references in many digits", f"WRONG: {', '.join(wrong)}" if wrong else "right"
