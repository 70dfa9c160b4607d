# Derivatives that PyTorch's own tutorials and notes have published wrong, what the checker says, and right operators.
# Names and texts are shortened, the mistakes are theirs. Some were mended years ago, and live on in what was copied.
import textwrap
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from scipy.signal import convolve2d, correlate2d
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

import torchgraft as tg

# Creating extensions using NumPy and SciPy, old editions: the gradient of the input takes the transposed filter, that
# of the filter is a convolution. gradcheck(module, input), as the page has it, looks at the first of the two alone.


class ScipyFilter(Function):
    @staticmethod
    def forward(ctx, input, filter):
        ctx.save_for_backward(input, filter)
        return torch.from_numpy(correlate2d(input.detach().numpy(), filter.detach().numpy(), mode="valid"))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        input, filter = (tensor.detach() for tensor in ctx.saved_tensors)
        grad_input = convolve2d(grad_output.numpy(), filter.t().numpy(), mode="full")
        grad_filter = convolve2d(input.numpy(), grad_output.numpy(), mode="valid")
        return torch.from_numpy(grad_input), torch.from_numpy(grad_filter)


# The same page, since: the formulas are right, the filter's gradient has float32's digits, and a second derivative
# through this backward is lost without a word.


class ScipyFilterOfToday(Function):
    @staticmethod
    def forward(ctx, input, filter):
        ctx.save_for_backward(input, filter)
        return torch.from_numpy(correlate2d(input.detach().numpy(), filter.detach().numpy(), mode="valid"))

    @staticmethod
    def backward(ctx, grad_output):
        grad_output, (input, filter) = grad_output.detach().numpy(), (t.detach().numpy() for t in ctx.saved_tensors)
        grad_input = convolve2d(grad_output, filter, mode="full")
        grad_filter = correlate2d(input, grad_output, mode="valid")
        return torch.from_numpy(grad_input), torch.from_numpy(grad_filter).to(torch.float)


@tg.op(batch="loop")
@tg.domain(kh="[1, inf)", kw="[1, inf)")
def scipy_filter(
    input: Float[np.ndarray, "h w"], filter: Float[np.ndarray, "kh kw"]
) -> Float[np.ndarray, "h-kh+1 w-kw+1"]:
    """The correlation of a picture and a filter, where they overlap fully."""
    if not filter.size:
        raise ValueError("the filter is empty")
    return correlate2d(input, filter, mode="valid")


@scipy_filter.vjp("input")
def _(grad: np.ndarray, filter: np.ndarray):
    return convolve2d(grad, filter, mode="full")


@scipy_filter.vjp("filter")
def _(grad: np.ndarray, input: np.ndarray):
    return correlate2d(input, grad, mode="valid")


# The same page: the gradient of an FFT magnitude is the inverse FFT. (The Function is called bad there. It was copied.)


class FftMagnitude(Function):
    @staticmethod
    def forward(ctx, input):
        return torch.from_numpy(np.abs(np.fft.rfft2(input.detach().numpy())))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        return torch.from_numpy(np.fft.irfft2(grad_output.numpy()))


@tg.op
def fft_magnitude(x: Float[np.ndarray, "h w"]) -> Float[np.ndarray, "h w//2+1"]:
    """The amplitudes of a real picture's frequencies."""
    return np.abs(np.fft.rfft2(x)).astype(x.dtype)


@fft_magnitude.vjp("x")
def _(grad: np.ndarray, x: np.ndarray):
    spectrum = np.fft.rfft2(x)
    size = np.abs(spectrum)
    weighted = np.zeros(x.shape, spectrum.dtype)  # what rfft2 leaves out counts as zero
    weighted[:, : grad.shape[-1]] = grad * np.divide(spectrum, size, out=np.zeros_like(spectrum), where=size > 0)
    return np.fft.fft2(weighted.conj()).real.astype(x.dtype)


# Extending PyTorch, the note, in old editions: squeeze(0) takes the only axis away from a bias of one feature.


class Linear(Function):
    @staticmethod
    def forward(ctx, input, weight, bias):
        ctx.save_for_backward(input, weight)
        return input.mm(weight.t()) + bias

    @staticmethod
    def backward(ctx, grad_output):
        input, weight = ctx.saved_tensors
        return grad_output.mm(weight), grad_output.t().mm(input), grad_output.sum(0).squeeze(0)


@tg.op
def linear(
    input: Float[Tensor, "*batch n"], weight: Float[Tensor, "m n"], bias: Float[Tensor, "m"]
) -> Float[Tensor, "*batch m"]:
    """y = x W^T + b."""
    return input @ weight.mT + bias


@linear.vjp("input")
def _(grad, weight):
    return grad @ weight


@linear.vjp("weight")
def _(grad, input):
    return torch.einsum("...m,...n->mn", grad, input)


@linear.vjp("bias")
def _(grad):
    return grad.sum_to_size(grad.shape[-1:])


# Fusing convolution and batch norm: once_differentiable stands on two of the three Functions, and is missing on the
# third, whose backward reads statistics that forward kept on ctx. Second derivatives take them for constants.


def statistics(y):
    """Means and deviations of the channels."""
    return y.mean((0, 2, 3), keepdim=True), (y.var((0, 2, 3), keepdim=True) + 1e-6).sqrt()


def conv_bn_gradient(grad, x, weight, mean, deviation):
    """Of a convolution, computed again, and its standardisation."""
    y = functional.conv2d(x, weight)
    n, out = y.numel() / y.shape[1], (y - mean) / deviation
    of_mean, of_deviation = (g.sum((0, 2, 3), keepdim=True) for g in (grad, grad * out))
    grad = (grad - of_mean / n - out * of_deviation / (n - 1)) / deviation
    grad_weight = functional.conv2d(x.transpose(0, 1), grad.transpose(0, 1)).transpose(0, 1)
    return functional.conv_transpose2d(grad, weight), grad_weight


class FusedConvBN(Function):
    @staticmethod
    def forward(ctx, x, weight):
        y = functional.conv2d(x, weight)
        ctx.save_for_backward(x, weight)
        ctx.mean, ctx.deviation = statistics(y)
        return (y - ctx.mean) / ctx.deviation

    @staticmethod
    def backward(ctx, grad):
        return conv_bn_gradient(grad, *ctx.saved_tensors, ctx.mean, ctx.deviation)


@tg.op
@tg.domain(n="[2, inf)", c="positive", d="positive", kh="[1, h]", kw="[1, w]")
def conv_bn(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "d c kh kw"]) -> Float[Tensor, "n d h-kh+1 w-kw+1"]:
    """A convolution, standardised over all but its channels."""
    y = functional.conv2d(x, weight)
    mean, deviation = statistics(y)
    return (y - mean) / deviation


@conv_bn.vjp("x", "weight")
def _(grad, x, weight):  # the statistics are functions of the inputs here
    return conv_bn_gradient(grad, x, weight, *statistics(functional.conv2d(x, weight)))


# Custom C++ and CUDA extensions, the LLTM cell: the bias comes back with an axis more (keepdim), which newer versions
# of PyTorch sum away; and here as well second derivatives take what forward saved for constants.


def cell(x, weight, bias, state):
    """Its gates and its new state."""
    update, output, candidate = (x @ weight.mT + bias).chunk(3, 1)
    return update, output, candidate, state + functional.elu(candidate) * update.sigmoid()


def cell_gradient(grad_out, grad_new, update, output, candidate, new):
    """The gradients of the three gates side by side, and of the state."""
    grad_new = grad_new + grad_out * output.sigmoid() * (1 - new.tanh() ** 2)
    of_update = grad_new * functional.elu(candidate) * update.sigmoid() * (1 - update.sigmoid())
    of_output = grad_out * new.tanh() * output.sigmoid() * (1 - output.sigmoid())
    of_candidate = grad_new * update.sigmoid() * candidate.clamp(max=0).exp()
    return torch.cat([of_update, of_output, of_candidate], 1), grad_new


class LLTM(Function):
    @staticmethod
    def forward(ctx, x, weight, bias, state):
        *gates, new = cell(x, weight, bias, state)
        ctx.save_for_backward(x, weight, *gates, new)
        return new.tanh() * gates[1].sigmoid(), new

    @staticmethod
    def backward(ctx, grad_out, grad_new):
        x, weight, *saved = ctx.saved_tensors
        gates, state = cell_gradient(grad_out, grad_new, *saved)
        return gates @ weight, gates.mT @ x, gates.sum(0, keepdim=True), state


class CellState(NamedTuple):
    out: Float[Tensor, "batch m"]
    new: Float[Tensor, "batch m"]


@tg.op
def lltm(
    x: Float[Tensor, "batch n"], weight: Float[Tensor, "3*m n"], bias: Float[Tensor, "3*m"],
    state: Float[Tensor, "batch m"],
) -> CellState:  # fmt: skip
    """The new output and state of the cell."""
    _, output, _, new = cell(x, weight, bias, state)
    return CellState(new.tanh() * output.sigmoid(), new)


@lltm.vjp("x", "weight", "bias", "state")
def _(grad_out, grad_new, x, weight, bias, state):
    gates, state = cell_gradient(grad_out, grad_new, *cell(x, weight, bias, state))
    return gates @ weight, gates.mT @ x, gates.sum(0), state


# Extending torch.func, the note: in NumpyTake's vmap, a negative axis is counted from the place of the batch axis
# (x_bdim - 1), and should be from the number of axes. It comes right where that place is the first.


class Take(Function):
    @staticmethod
    def forward(x, index, dim):
        return torch.from_numpy(np.take_along_axis(x.numpy(), index.numpy(), dim))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])
        ctx.shape, ctx.dim = inputs[0].shape, inputs[2]

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).scatter_add(ctx.dim, index, grad), None, None

    @staticmethod
    def vmap(info, in_dims, x, index, dim):
        x_bdim, index_bdim, _ = in_dims
        logical_dim = x.dim() if x_bdim is None else x_bdim - 1
        dim = dim if dim >= 0 else dim + logical_dim
        x, index = (
            t.expand(info.batch_size, *t.shape) if bdim is None else t.movedim(bdim, 0)
            for t, bdim in ((x, x_bdim), (index, index_bdim))
        )
        return Take.apply(x, index, dim + 1), 0


@tg.op
def take(x: Float[np.ndarray, "*batch n"], index: Int64[np.ndarray, "*batch k"]) -> Float[np.ndarray, "*batch k"]:
    """Elements along the last axis."""
    return np.take_along_axis(x, index, -1)


@take.vjp("x")
def _(grad, x, index):
    return torch.zeros_like(x).scatter_add(-1, index, grad)


# Python custom operators: the gradient of PIL's crop is pasted by PIL, by way of bytes. It has eight bits, and what is
# not between 0 and 1 wraps around.


class Crop(Function):
    @staticmethod
    def forward(ctx, picture, top, left, height, width):
        ctx.corner, ctx.shape = (top, left), picture.shape
        return picture[:, top : top + height, left : left + width].clone()

    @staticmethod
    def backward(ctx, grad):
        (top, left), (_, height, width) = ctx.corner, grad.shape
        pasted = grad.new_zeros(ctx.shape)
        pasted[:, top : top + height, left : left + width] = (grad * 255).to(torch.int64) % 256 / 255
        return pasted, None, None, None, None


@tg.op
@tg.domain(top="[0, h]", left="[0, w]", height="[0, h - top]", width="[0, w - left]")
def crop(
    picture: Float[Tensor, "c h w"], top: int, left: int, height: int, width: int
) -> Float[Tensor, "c {height} {width}"]:
    """A part of a picture."""
    return picture[:, top : top + height, left : left + width].clone()


@crop.vjp("picture")
def _(grad, picture, top, left):
    height, width = grad.shape[1:]
    right, below = picture.shape[2] - left - width, picture.shape[1] - top - height
    return functional.pad(grad, (left, right, top, below))


def normal(*shapes):
    """Tensors to check with."""
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes)


MISTAKES = {
    "numpy_extensions_tutorial, old editions": (ScipyFilter.apply, scipy_filter, normal((4, 5), (2, 2))),
    "numpy_extensions_tutorial": (ScipyFilterOfToday.apply, scipy_filter, normal((4, 5), (2, 2))),
    "numpy_extensions_tutorial, FFT": (FftMagnitude.apply, fft_magnitude, normal((2, 4))),
    "notes/extending, old editions": (Linear.apply, linear, normal((3, 2), (1, 2), (1,))),
    "custom_function_conv_bn_tutorial": (FusedConvBN.apply, conv_bn, normal((2, 1, 3, 3), (2, 1, 2, 2))),
    "cpp_extension": (LLTM.apply, lltm, normal((2, 2), (3, 2), (3,), (2, 1))),
    "notes/extending.func": (
        lambda x, index: Take.apply(x, index, -1), take, (*normal((3,)), torch.tensor([2, 0, 1])),
    ),
    "python_custom_ops": (Crop.apply, crop, (*normal((2, 4, 5)), 1, 2, 2, 3)),
}  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)  # the tensors are tiny
    for page, (mistake, operator, arguments) in MISTAKES.items():
        report = tg.check(mistake, *arguments)
        print(page)
        for finding in report.findings[:2]:
            print("    published:", textwrap.shorten(f"{finding.title}: {finding.cause}", 105))
        print("    operator: ", tg.check(operator, *arguments).verdict)
