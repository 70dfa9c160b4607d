"""What a call costs on a GPU: to compile, on the host, and in memory traffic."""

from __future__ import annotations

import functools
import importlib
import statistics
import time
from collections.abc import Callable

import torch
from _cuda.place import Place, Result, row
from jaxtyping import Float
from torch import Tensor
from torch.utils.cpp_extension import load_inline

import torchgraft as tg
from examples.gelu_scalar import gelu
from torchgraft._build.cuda import nvrtc, text
from torchgraft._build.cuda.headers import headers
from torchgraft.scipy import special


@tg.op(kernel=tg.c("T plus(T x, T y) { return x + y; }"))
def plus(x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return tg.native


@tg.op(kernel=tg.c("#include <tgmath.h>\nT expo(T x) { return exp(x); }"))
def expo(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return tg.native


@tg.op(kernel=tg.c("#include <math.h>\nT expo_in_double(T x) { return exp(x); }"))
def expo_in_double(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return tg.native


def ratio(one: float, other: float) -> str:
    return f"{one / other:.2f}x"


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3f} ms"


def text_of_gelu(number: int) -> str:
    """The text of one kernel, another one for each number."""
    (native, *_) = gelu._record.natives()
    written = text.emit(native.prototype, dict.fromkeys(("x", "out"), torch.float32), native.source, text.ENTRIES[0])
    return f"{written}// {number}"


@row("NVRTC, one kernel: C text to machine code, cold", "150 ms")
def _(place: Place) -> Result:
    times = []
    for i in range(5):
        start = time.perf_counter()
        nvrtc.compiled(text_of_gelu(i), "sm_90", headers(), "gelu", (), 60.0)
        times.append(time.perf_counter() - start)
    return milliseconds(statistics.median(times)), "", milliseconds(statistics.median(times))


def first_call(place: Place, number: int) -> float:
    """Seconds of the first call of an operator, whose source is another one for each number."""

    @tg.op(kernel=tg.c(f"T first(T x) {{ return x + {number}.0; }}"))
    def first(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return tg.native

    x = torch.ones(8, device=place.device)
    plus(x, x)  # The launcher is built once for a machine.
    start = time.perf_counter()
    first(x)
    place.wait()
    return time.perf_counter() - start


@row("C source to first result, cold", "250 ms")
def _(place: Place) -> Result:
    number = time.time_ns()
    ours = statistics.median(first_call(place, number + i) for i in range(5))
    if not place.is_gpu:
        return milliseconds(ours), "", milliseconds(ours)
    start = time.perf_counter()
    source = f"torch::Tensor first(torch::Tensor x) {{ return x + {number}.0; }}"
    built = load_inline(f"first{number}", "torch::Tensor first(torch::Tensor x);", source, functions=["first"])
    built.first(torch.ones(8, device=place.device))
    place.wait()
    rival = time.perf_counter() - start
    return milliseconds(ours), f"load_inline {rival:.1f} s", f"{rival / ours:.0f} times as fast"


@row("C source to first result, compiled before", "20 ms")
def _(place: Place) -> Result:
    number = time.time_ns()
    first_call(place, number)
    ours = statistics.median(first_call(place, number) for _ in range(5))
    return milliseconds(ours), "", milliseconds(ours)


@row("price of a call on the host, 2 tensors of 8 elements", "that of C on the CPU + the driver's")
def _(place: Place) -> Result:
    x, y = (torch.ones(8, device=place.device) for _ in range(2))
    ours, rival = place.on_host(lambda: plus(x, y), lambda: torch.add(x, y))
    return f"{1e6 * ours:.2f} us", f"torch.add {1e6 * rival:.2f} us", f"{1e6 * (ours - rival):+.2f} us"


@row("forward and backward on the host, 8 elements", "")
def _(place: Place) -> Result:
    x = torch.ones(8, device=place.device, requires_grad=True)
    gradient = torch.ones(8, device=place.device)

    def trained(f: Callable[[Tensor], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(f(x), x, gradient)

    ours, rival = place.on_host(trained(gelu), trained(torch.nn.functional.gelu))
    return f"{1e6 * ours:.2f} us", f"F.gelu {1e6 * rival:.2f} us", ratio(ours, rival)


def traffic(
    what: str, ours: Callable[..., Tensor], theirs: Callable[..., Tensor], dtype: torch.dtype, arity: int
) -> None:
    """A row about large tensors, where the traffic of memory is all."""

    @row(f"{what}, {str(dtype).removeprefix('torch.')}, 1e8 elements", "1.05x")
    def _(place: Place) -> Result:
        values = [torch.rand(place.elements, device=place.device).to(dtype) for _ in range(arity)]
        one, other = place.on_device(lambda: ours(*values), lambda: theirs(*values))
        size = (arity + 1) * values[0].nbytes
        mine, rival = (f"{milliseconds(t)}, {size / t / 1e9:.0f} GB/s" for t in (one, other))
        return mine, f"torch {rival}", ratio(one, other)


for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
    traffic("add", plus, torch.add, dtype, 2)
    traffic("exp", expo, torch.exp, dtype, 1)


@row("exp, float32, with <math.h>, in double as C says", "")
def _(place: Place) -> Result:
    x = torch.rand(place.elements, device=place.device)
    one, other = place.on_device(lambda: expo_in_double(x), lambda: expo(x))
    return milliseconds(one), f"<tgmath.h> {milliseconds(other)}", ratio(one, other)


@row("add, float32, a row for all rows", "1.5x")
def _(place: Place) -> Result:
    y = torch.rand(max(place.elements // 10_000, 1), device=place.device)
    x = torch.rand(place.elements // y.numel(), y.numel(), device=place.device)
    one, other = place.on_device(lambda: plus(x, y), lambda: torch.add(x, y))
    return milliseconds(one), f"torch {milliseconds(other)}", ratio(one, other)


@row("add, float32, of a transposed tensor", "1.5x")
def _(place: Place) -> Result:
    side = int(place.elements**0.5)
    x, y = (torch.rand(side, side, device=place.device) for _ in range(2))
    one, other = place.on_device(lambda: plus(x.T, y), lambda: torch.add(x.T, y))
    return milliseconds(one), f"torch {milliseconds(other)}", ratio(one, other)


@row("forward and backward of gelu, float32, 1e8 elements", "1.1x")
def _(place: Place) -> Result:
    x = torch.randn(place.elements, device=place.device, requires_grad=True)
    gradient = torch.ones_like(x)
    one, other = place.on_device(
        lambda: torch.autograd.grad(gelu(x), x, gradient),
        lambda: torch.autograd.grad(torch.nn.functional.gelu(x), x, gradient),
    )
    return milliseconds(one), f"F.gelu {milliseconds(other)}", ratio(one, other)


def chain(add: Callable[..., Tensor], exp: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Five elementwise operators, one after another."""
    return add(exp(add(exp(x), x)), add(x, x))


@row("5 elementwise in a row, float32, 1e8 elements, compiled", "", needs_gpu=True)
def _(place: Place) -> Result:
    x = torch.rand(place.elements, device=place.device)
    ours, rival = (
        torch.compile(functools.partial(chain, *functions)) for functions in ((plus, expo), (torch.add, torch.exp))
    )
    one, other = place.on_device(lambda: ours(x), lambda: rival(x))
    return milliseconds(one), f"Inductor, which fuses them {milliseconds(other)}", ratio(one, other)


def beside_cupy(name: str, *ranges: tuple[float, float]) -> None:
    """A row about a special function, which memory does not limit."""

    @row(f"{name}, float64, 1e7 elements", "", needs_gpu=True)
    def _(place: Place) -> Result:
        cupyx = importlib.import_module("cupyx.scipy.special")
        cupy = importlib.import_module("cupy")
        values = [
            low + (high - low) * torch.rand(place.elements // 10, dtype=torch.float64, device=place.device)
            for low, high in ranges
        ]
        theirs = [cupy.from_dlpack(value) for value in values]
        ours, rival = getattr(special, name), getattr(cupyx, name)
        one, other = place.on_device(lambda: ours(*values), lambda: rival(*theirs))
        return milliseconds(one), f"CuPy {milliseconds(other)}", ratio(one, other)


beside_cupy("digamma", (-9, 30))
beside_cupy("expi", (-9, 30))
beside_cupy("ellipk", (-9, 0.999))
beside_cupy("gammainc", (0.1, 30), (0, 40))
