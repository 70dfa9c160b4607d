import numpy as np
import torch
from jaxtyping import Complex, Float

import torchgraft as tg


class BadFFTFunction(tg.Function):
    def forward(self, input):
        return torch.from_numpy(np.abs(np.fft.rfft2(input.numpy())))

    def backward(self, grad_output):
        return torch.from_numpy(np.fft.irfft2(grad_output.numpy()))


@tg.op
def rfft2(x: Float[np.ndarray, "h w"]) -> Complex[np.ndarray, "h w//2+1"]:
    return np.fft.rfft2(x)


@rfft2.vjp("x")
def _(grad: np.ndarray, x: np.ndarray):  # the transpose: frequencies that rfft2 leaves out count as zero
    full = np.zeros(x.shape, grad.dtype)
    full[:, : grad.shape[-1]] = grad
    return np.fft.fft2(full.conj()).real


x = torch.rand(4, 4, dtype=torch.float64, requires_grad=True)
# The first amplitude is the sum of the pixels: its derivative by each of them is 1.
for name, fft_magnitude in {"tutorial": BadFFTFunction(), "operator": lambda x: rfft2(x).abs()}.items():
    (gradient,) = torch.autograd.grad(fft_magnitude(x)[0, 0], x)
    right = torch.autograd.gradcheck(fft_magnitude, x, raise_exception=False)
    print(f"{name}: derivative {gradient[0, 0].item()}, gradcheck {right}")
