# The operator of correlate2d.py again, kernel and adjoints in C: a function sees one image, torchgraft runs the batch
# on torch's threads and sums the kernel's gradient over it. Built at the first call, in a tenth of a second.
import time

import scipy.signal
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

SOURCE = tg.c("correlate2d.c")


@tg.op(kernel=SOURCE)
def correlate2d(
    x: Float[Tensor, "*batch h w"], kernel: Float[Tensor, "kh kw"]
) -> Float[Tensor, "*batch h-kh+1 w-kw+1"]:
    """Cross-correlation of images with a kernel, where they overlap in full."""


@correlate2d.adjoint("x", kernel=SOURCE)
def _(grad, kernel): ...


@correlate2d.adjoint("kernel", kernel=SOURCE)
def _(grad, x): ...


if __name__ == "__main__":
    torch.manual_seed(0)
    images, kernel = torch.randn(256, 28, 28), torch.randn(5, 5, requires_grad=True)

    def by_scipy():
        weights = kernel.detach().numpy()
        return [scipy.signal.correlate2d(image, weights, mode="valid") for image in images.numpy()]

    def by_torch():
        return torch.nn.functional.conv2d(images[:, None], kernel[None, None])[:, 0]

    torch.testing.assert_close(correlate2d(images, kernel), by_torch(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        torch.autograd.grad(correlate2d(images, kernel).square().sum(), kernel),
        torch.autograd.grad(by_torch().square().sum(), kernel),
        rtol=1e-4, atol=1e-2,
    )  # fmt: skip
    print("values and gradients are those of conv2d")
    for name, function in (("C", lambda: correlate2d(images, kernel)), ("conv2d", by_torch), ("SciPy", by_scipy)):
        function()
        start = time.perf_counter()
        function()
        print(f"{name:6} {1e3 * (time.perf_counter() - start):7.2f} ms for 256 images")
