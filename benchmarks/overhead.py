"""What an operator costs beside the same code by hand.

Each row is measured against its rival in one run: the two in turn, many rounds, medians. One thread. Run it as

    python benchmarks/overhead.py            # prints the table
    python benchmarks/overhead.py --write    # and puts it into the READMEs
"""

from __future__ import annotations

import numpy as np
import scipy.signal
import torch
from _timing import Row, difference, interleave, ms, ratio, run, us
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

# -- one tensor and one number ----------------------------------------------------------------------------------


def scale_kernel(x, factor):
    return x * factor


@tg.op
def scale(x: Float[Tensor, "n"], factor: float) -> Float[Tensor, "n"]:
    return x * factor


@scale.vjp("x")
def _(grad, factor):
    return grad * factor


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


@torch.library.custom_op("rival::scale", mutates_args=())
def scale_custom(x: Tensor, factor: float) -> Tensor:
    return x * factor


@scale_custom.register_fake
def _(x, factor):
    return torch.empty_like(x)


def _scale_context(ctx, inputs, output):
    ctx.factor = inputs[1]


scale_custom.register_autograd(lambda ctx, grad: (grad * ctx.factor, None), setup_context=_scale_context)


def no_grad_call() -> list[Row]:
    x = torch.randn(8)
    with torch.no_grad():
        times = interleave({"op": lambda: scale(x, 2.0), "kernel": lambda: scale_kernel(x, 2.0)}, 2000)
    recording = interleave({"op": lambda: scale(x, 2.0), "kernel": lambda: scale_kernel(x, 2.0)}, 2000)
    over = difference(times["op"], times["kernel"])
    over_recording = difference(recording["op"], recording["kernel"])
    return [
        Row("no-grad call, 1 tensor, 1 number", us(times["op"]), f"bare kernel {us(times['kernel'])}",
            f"+{over:.2f} us", "+1.2 us"),
        Row("the same with grad mode on", us(recording["op"]), f"bare kernel {us(recording['kernel'])}",
            f"+{over_recording:.2f} us", "+1.2 us"),
    ]  # fmt: skip


def further_tensor() -> list[Row]:
    def first_kernel(a, b, c, d, e):
        return a * 2.0

    @tg.op
    def first_of_one(a: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return a * 2.0

    @tg.op
    def first_of_five(
        a: Float[Tensor, "n"],
        b: Float[Tensor, "n"],
        c: Float[Tensor, "n"],
        d: Float[Tensor, "n"],
        e: Float[Tensor, "n"],
    ) -> Float[Tensor, "n"]:
        return a * 2.0

    a, b, c, d, e = (torch.randn(8) for _ in range(5))
    with torch.no_grad():
        times = interleave({"five": lambda: first_of_five(a, b, c, d, e), "one": lambda: first_of_one(a)}, 2000)
    each = difference(times["five"], times["one"]) / 4
    return [
        Row("each further tensor", us(times["five"]) + " (5)", us(times["one"]) + " (1)", f"+{each:.2f} us", "+0.3 us")
    ]


def with_gradient() -> list[Row]:
    x = torch.randn(8, requires_grad=True)
    seed = torch.ones(8)
    forward = interleave({"op": lambda: scale(x, 2.0), "function": lambda: Scale.apply(x, 2.0)}, 800)
    both = interleave(
        {
            "op": lambda: torch.autograd.grad(scale(x, 2.0), x, seed),
            "function": lambda: torch.autograd.grad(Scale.apply(x, 2.0), x, seed),
            "custom_op": lambda: torch.autograd.grad(scale_custom(x, 2.0), x, seed),
        },
        300,
    )
    return gradient_rows("1 tensor, 1 number", forward, both)


def gradient_rows(what: str, forward: dict[str, list[float]], both: dict[str, list[float]]) -> list[Row]:
    return [
        Row(f"forward with grad, {what}", us(forward["op"]), f"Function {us(forward['function'])}",
            f"{ratio(forward['op'], forward['function']):.2f} x", "1.15 x"),
        Row(f"forward + backward, {what}", us(both["op"]), f"Function {us(both['function'])}",
            f"{ratio(both['op'], both['function']):.2f} x", "1.10 x"),
        Row("", us(both["op"]), f"custom_op {us(both['custom_op'])}",
            f"{ratio(both['custom_op'], both['op']):.2f} x faster", "1.6 x faster"),
    ]  # fmt: skip


# -- six tensors and six other arguments ------------------------------------------------------------------------


def mix_kernel(a, b, c, d, e, f, i, j, k, p, q, r):
    return a * p + b * q + c * r + d * float(i) + e * float(j) + f * float(k)


@tg.op
def mix(
    a: Float[Tensor, "n"], b: Float[Tensor, "n"], c: Float[Tensor, "n"],
    d: Float[Tensor, "n"], e: Float[Tensor, "n"], f: Float[Tensor, "n"],
    i: int, j: int, k: bool, p: float, q: float, r: float,
) -> Float[Tensor, "n"]:  # fmt: skip
    return mix_kernel(a, b, c, d, e, f, i, j, k, p, q, r)


@mix.vjp("a", "b", "c", "d", "e", "f")
def _(grad, i, j, k, p, q, r):
    return grad * p, grad * q, grad * r, grad * float(i), grad * float(j), grad * float(k)


class Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, c, d, e, f, i, j, k, p, q, r):
        ctx.numbers = (i, j, k, p, q, r)
        return mix_kernel(a, b, c, d, e, f, i, j, k, p, q, r)

    @staticmethod
    def backward(ctx, grad):
        i, j, k, p, q, r = ctx.numbers
        grads = grad * p, grad * q, grad * r, grad * float(i), grad * float(j), grad * float(k)
        return *grads, None, None, None, None, None, None


@torch.library.custom_op("rival::mix", mutates_args=())
def mix_custom(
    a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor,
    i: int, j: int, k: bool, p: float, q: float, r: float,
) -> Tensor:  # fmt: skip
    return mix_kernel(a, b, c, d, e, f, i, j, k, p, q, r)


def _mix_context(ctx, inputs, output):
    ctx.numbers = inputs[6:]


mix_custom.register_autograd(Mix.backward, setup_context=_mix_context)


def many_arguments() -> list[Row]:
    tensors = [torch.randn(8, requires_grad=True) for _ in range(6)]
    numbers = (1, 2, True, 0.5, 1.5, 2.5)
    seed = torch.ones(8)
    forward = interleave(
        {"op": lambda: mix(*tensors, *numbers), "function": lambda: Mix.apply(*tensors, *numbers)}, 300
    )
    both = interleave(
        {
            "op": lambda: torch.autograd.grad(mix(*tensors, *numbers), tensors, seed),
            "function": lambda: torch.autograd.grad(Mix.apply(*tensors, *numbers), tensors, seed),
            "custom_op": lambda: torch.autograd.grad(mix_custom(*tensors, *numbers), tensors, seed),
        },
        150,
    )
    return gradient_rows("6 tensors, 6 others", forward, both)


# -- doors: existing Functions, modules -----------------------------------------------------------------------


class HardenedScale(tg.Function):
    forward, backward = staticmethod(Scale.forward), staticmethod(Scale.backward)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight, grad * x


class HardenedProduct(tg.Function):
    forward, backward = staticmethod(Product.forward), staticmethod(Product.backward)


class SetUp(torch.autograd.Function):
    @staticmethod
    def forward(x, weight):
        return x * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    backward = staticmethod(Product.backward)


class HardenedSetUp(tg.Function):
    forward, setup_context = staticmethod(SetUp.forward), staticmethod(SetUp.setup_context)
    backward = staticmethod(SetUp.backward)


@tg.adopt(Scale)
def adopted_scale(x: Float[Tensor, "n"], factor: float) -> Float[Tensor, "n"]: ...


@tg.adopt(Product)
def adopted_product(x: Float[Tensor, "n"], weight: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...


def functions() -> list[Row]:
    x, weight = torch.randn(8, requires_grad=True), torch.randn(8, requires_grad=True)
    seed = torch.ones(8)

    def both(function, *arguments):
        inputs = [a for a in arguments if isinstance(a, Tensor)]
        return lambda: torch.autograd.grad(function(*arguments), inputs, seed)

    def compare(what, bar, rival, **ours):
        functions = {"rival": both(*rival), **{name: both(*call) for name, call in ours.items()}}
        times = interleave(functions, 300)
        return [
            Row(f"{name}, forward + backward, {what}", us(times[name]), f"Function {us(times['rival'])}",
                f"{ratio(times[name], times['rival']):.2f} x", bar[name])
            for name in ours
        ]  # fmt: skip

    bars = {"tg.Function": "1.10 x", "adopted": "1.15 x"}
    one = {"tg.Function": (HardenedScale.apply, x, 2.0), "adopted": (adopted_scale, x, 2.0)}
    two = {"tg.Function": (HardenedProduct.apply, x, weight), "adopted": (adopted_product, x, weight)}
    set_up = {"tg.Function": (HardenedSetUp.apply, x, weight)}
    return [
        *compare("1 tensor, 1 number", bars, (Scale.apply, x, 2.0), **one),
        *compare("2 tensors saved", bars, (Product.apply, x, weight), **two),
        *compare("2 tensors, setup_context", bars, (SetUp.apply, x, weight), **set_up),
    ]


@tg.op
def linear(input: Float[Tensor, "*batch n"], weight: Float[Tensor, "m n"]) -> Float[Tensor, "*batch m"]:
    return input @ weight.mT


class ByHand(torch.nn.Module):
    def __init__(self, n: int, m: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(m, n))

    def forward(self, input):
        return linear(input, self.weight)


def modules() -> list[Row]:
    layer, by_hand, x = tg.module(linear, parameters=("weight",))(8, 4), ByHand(8, 4), torch.randn(2, 8)
    weight = layer.weight
    with torch.no_grad():
        times = interleave(
            {
                "forward": lambda: layer.forward(x),
                "op": lambda: linear(x, weight),
                "module": lambda: layer(x),
                "by hand": lambda: by_hand(x),
            },
            1000,
        )
    over = difference(times["forward"], times["op"])
    return [
        Row("module.forward, 1 parameter", us(times["forward"]), f"the operator {us(times['op'])}",
            f"+{over:.2f} us", "+0.5 us"),
        Row("module(x), 1 parameter", us(times["module"]), f"nn.Module by hand {us(times['by hand'])}",
            f"{ratio(times['module'], times['by hand']):.2f} x", ""),
    ]  # fmt: skip


# -- compiled ---------------------------------------------------------------------------------------------------


def fused() -> list[Row]:
    def wave_kernel(x):
        return torch.sin(x) * 1.01

    @tg.op
    def wave(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return torch.sin(x) * 1.01

    @wave.partial("x")
    def _(x):
        return torch.cos(x) * 1.01

    def five(function):
        def chain(x):
            for _ in range(5):
                x = function(x)
            return x

        return torch.compile(chain, fullgraph=True)

    x = torch.randn(1_000_000)
    ours, plain = five(wave), five(wave_kernel)
    with torch.no_grad():
        times = interleave({"op": lambda: ours(x), "plain": lambda: plain(x)}, 5, 30)
    return [
        Row("5 elementwise in a row, 1e6, compiled", ms(times["op"]), f"plain functions {ms(times['plain'])}",
            f"{ratio(times['op'], times['plain']):.2f} x", "1.1 x")
    ]  # fmt: skip


# -- NumPy and SciPy --------------------------------------------------------------------------------------------


@tg.op
def softplus(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return np.logaddexp(x, x.dtype.type(0))


@tg.op(batch="loop")
def correlate2d(x: Float[np.ndarray, "h w"], kernel: Float[np.ndarray, "kh kw"]) -> Float[np.ndarray, "h-kh+1 w-kw+1"]:
    return scipy.signal.correlate2d(x, kernel, mode="valid")


def numpy_kernel() -> list[Row]:
    x = torch.randn(1_000_000)
    array = x.numpy()
    times = interleave({"op": lambda: softplus(x), "numpy": lambda: np.logaddexp(array, np.float32(0))}, 3, 40)
    return [
        Row("NumPy kernel, 1e6 elements", ms(times["op"]), f"the NumPy call {ms(times['numpy'])}",
            f"{ratio(times['op'], times['numpy']):.3f} x", "1.02 x")
    ]  # fmt: skip


def batch_loop() -> list[Row]:
    x, kernel = torch.randn(256, 8, 8), torch.randn(3, 3)

    def by_hand():
        images, filter_ = x.numpy(), kernel.numpy()
        return torch.from_numpy(np.stack([scipy.signal.correlate2d(image, filter_, mode="valid") for image in images]))

    times = interleave({"op": lambda: correlate2d(x, kernel), "loop": by_hand}, 2, 40)
    return [
        Row('batch="loop", 256 samples of 8x8', ms(times["op"]), f"Python loop {ms(times['loop'])}",
            f"{ratio(times['op'], times['loop']):.2f} x", "1.1 x")
    ]  # fmt: skip


# -- the table --------------------------------------------------------------------------------------------------

BENCHMARKS = {
    "no-grad": no_grad_call,
    "further": further_tensor,
    "gradient": with_gradient,
    "many": many_arguments,
    "functions": functions,
    "modules": modules,
    "numpy": numpy_kernel,
    "loop": batch_loop,
    "fused": fused,
}

if __name__ == "__main__":
    run("overhead", __doc__, BENCHMARKS)
