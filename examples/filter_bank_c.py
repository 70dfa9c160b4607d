# The layer of scipy_layer.py in C, beside torch's Conv2d. filter_bank.c includes correlate2d.c; one of its rules asks
# for a workspace: memory for one sample that the function may use, and that nobody passes.
import time
from statistics import median

import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

SOURCE = tg.c("filter_bank.c")


@tg.op(kernel=SOURCE)
def filter_bank(
    x: Float[Tensor, "*batch h w"],
    kernel: Float[Tensor, "filters kh kw"],
    bias: Float[Tensor, "filters"] | None = None,
) -> Float[Tensor, "*batch filters h-kh+1 w-kw+1"]:
    """Cross-correlation of an image with several kernels, each plus its bias."""


@filter_bank.vjp("x", kernel=SOURCE)
def _(grad, kernel, part: Float[tg.Workspace, "h w"]): ...


@filter_bank.vjp("kernel", kernel=SOURCE)
def _(grad, x): ...


@filter_bank.vjp("bias", kernel=SOURCE)
def _(grad): ...


FilterBank = tg.module(filter_bank, parameters=("kernel", "bias"))


if __name__ == "__main__":
    torch.manual_seed(0)
    layer, plain = FilterBank(filters=8, kh=3, kw=3), torch.nn.Conv2d(1, 8, 3)
    with torch.no_grad():
        layer.kernel.copy_(plain.weight[:, 0])
        layer.bias.copy_(plain.bias)
    images = torch.randn(256, 28, 28, requires_grad=True)

    def by_c():
        return torch.autograd.grad(layer(images).square().sum(), [images, *layer.parameters()])

    def by_torch():
        return torch.autograd.grad(plain(images[:, None]).square().sum(), [images, *plain.parameters()])

    print(layer)
    for name, ours, theirs in zip(("images", "kernel", "bias"), by_c(), by_torch(), strict=True):
        error = (ours - theirs.reshape(ours.shape)).norm() / theirs.norm()
        print(f"gradient of {name:6}, beside Conv2d: {error:.0e}")
    times = {by_c: [], by_torch: []}
    for _ in range(10):
        for function, seconds in times.items():
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    c, conv2d = (1e3 * median(seconds) for seconds in times.values())
    print(f"forward and backward: C {c:.1f} ms, Conv2d {conv2d:.1f} ms")
