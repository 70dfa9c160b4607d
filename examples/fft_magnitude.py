# The amplitudes of a picture's frequencies by NumPy, at any order: two linear operators, the derivative of each made of
# the other, and torch's own abs. The adjoint of rfft2 is not irfft2, which counts most of the half spectrum twice.
import numpy as np
import torch
from jaxtyping import Complex, Float

import torchgraft as tg


@tg.op
def rfft2(x: Float[np.ndarray, "*batch h w"]) -> Complex[np.ndarray, "*batch h w//2+1"]:
    """The half spectrum of a real picture: y_kl = sum of x_mn exp(-2 pi i (km/h + ln/w)), for l from 0 to w//2."""
    return np.fft.rfft2(x)


@tg.op
def rfft2_adjoint(
    spectrum: Complex[np.ndarray, "*batch h {width}//2+1"], width: int
) -> Float[np.ndarray, "*batch h {width}"]:
    """The transpose of `rfft2` for pictures of this width: x_mn = Re sum of y_kl exp(2 pi i (km/h + ln/w)).

    The sum has one term for each y_kl. irfft2 adds the conjugates of the inner columns (neither l = 0 nor l = w/2), and
    so has the real parts of these twice: they go in by half. The formula is that of JAX (`_rfft_transpose` in
    jax/_src/lax/fft.py); PyTorch fills the spectrum with zeros (`fft_r2c_backward` in FunctionsManual.cpp).
    """
    halved = spectrum.copy()
    halved[..., 1 : (width + 1) // 2] /= 2
    return np.fft.irfft2(halved, s=(spectrum.shape[-2], width), norm="forward")


@rfft2.vjp("x")  # not an adjoint, which may not read x: widths 8 and 9 have half spectra of the same width
def _(grad, x):
    return rfft2_adjoint(grad, x.shape[-1]).to(x.dtype)


@rfft2_adjoint.adjoint("spectrum")
def _(grad):
    return rfft2(grad)


def fft_magnitude(x):
    """|rfft2(x)|; where it is zero, torch's abs has the subgradient zero."""
    return rfft2(x).abs()


if __name__ == "__main__":
    torch.manual_seed(0)
    rows, columns = torch.arange(8.0)[:, None], torch.arange(9.0)
    pattern = torch.cos(2 * torch.pi * (rows / 8 + 2 * columns / 9))
    wanted, x = fft_magnitude(pattern), (0.1 * torch.randn(8, 9)).requires_grad_()

    optimizer = torch.optim.LBFGS([x], max_iter=3, line_search_fn="strong_wolfe")  # a picture from its amplitudes

    def loss():
        optimizer.zero_grad()
        value = (fft_magnitude(x) - wanted).square().mean()
        value.backward()
        return value

    for step in range(4):
        print(f"step {step}  loss {optimizer.step(loss).item():.2e}")
    row, column = divmod(int(fft_magnitude(x).argmax()), 5)
    print(f"the loudest frequency: {row} over the height, {column} over the width")
    blank = torch.zeros(8, 9, requires_grad=True)
    fft_magnitude(blank).sum().backward()
    print("gradient of a blank picture:", blank.grad.abs().max().item())
