"""Small operators that together use every feature of a declaration; `cases.py` says what each must equal."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Complex, Float, Int, Int64
from torch import Tensor

import torchgraft as tg
from examples.state import Moved, State, leapfrog


class Summary(NamedTuple):
    cubes: Float[Tensor, "n"]
    energy: Float[Tensor, ""]
    largest: Int64[Tensor, ""]


@tg.op
def summary(x: Float[Tensor, "n"]) -> Summary:
    return Summary(x**3, (x * x).sum(), x.argmax())


@summary.vjp("x")
def _(grad_cubes, grad_energy, x):
    return 3 * x**2 * grad_cubes + 2 * x * grad_energy


@tg.op
def global_max(
    x: Float[Tensor, "*batch n"],
) -> tuple[Float[Tensor, "*batch"], tg.Saved[Int64[Tensor, "*batch"], "index"]]:
    values, index = x.max(-1)
    return values, index


@global_max.vjp("x")
def _(grad, x, index):
    return torch.zeros_like(x).scatter(-1, index.unsqueeze(-1), grad.unsqueeze(-1))


@tg.op
def logsumexp(x: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, ""], tg.Saved[Float[np.ndarray, "n"], "weights"]]:
    shifted = np.exp(x - x.max())
    return np.log(shifted.sum()) + x.max(), shifted / shifted.sum()


@logsumexp.vjp("x")  # reads a floating residual, so that its own derivative would miss that of the residual
def _(grad, weights):
    return grad * weights


@tg.op
def mixture(terms: list[Float[Tensor, "n"]], weights: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return sum(term**2 for term in terms) * weights


@mixture.vjp("terms")
def _(grad, terms, weights):
    return [2 * term * weights * grad for term in terms]


@mixture.vjp("weights")
def _(grad, terms):
    return sum(term**2 for term in terms) * grad


@tg.op
def powers(x: Float[Tensor, "n"], k: int) -> Float[Tensor, "n {k}"]:
    return torch.stack([x ** (i + 1) for i in range(k)], -1)


@powers.vjp("x")
def _(grad, x, k):
    return sum((i + 1) * x**i * grad[..., i] for i in range(k))


@tg.op
def scale_rows(x: Float[Tensor, "n m"], scale: Float[Tensor, "n #m"]) -> Float[Tensor, "n m"]:
    return x * scale


@scale_rows.vjp("x")
def _(grad, scale):
    return grad * scale


@scale_rows.vjp("scale")
def _(grad, x):
    return grad * x


@tg.op
def normalize(x: Float[Tensor, "*batch n"], *, eps: float = 1e-3) -> Float[Tensor, "*batch n"]:
    return x / (x.square().sum(-1, keepdim=True) + eps).sqrt()


@normalize.vjp("x")
def _(grad, x, eps):
    norm = (x.square().sum(-1, keepdim=True) + eps).sqrt()
    return grad / norm - x * (grad * x).sum(-1, keepdim=True) / norm**3


@tg.op
def upsample(x: Tensor, factor: int) -> Tensor:
    return x.repeat_interleave(factor, -1)


@upsample.shape
def _(x, factor):
    return (*x[:-1], factor * x[-1])


@upsample.vjp("x")
def _(grad, factor):
    return grad.reshape(*grad.shape[:-1], grad.shape[-1] // factor, factor).sum(-1)


@tg.op
def hypotenuse(x: Float[np.ndarray, "..."], y: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return np.hypot(x, y)


@hypotenuse.partial("x")
def _(x, out):
    return x / out


@hypotenuse.partial("y")
def _(y, out):
    return y / out


@tg.op
def expm1(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return np.expm1(x)


@expm1.partial("x")  # on arrays: right once, opaque afterwards
def _(x: np.ndarray):
    return np.exp(x)


@tg.op
def complex_exp(z: Complex[np.ndarray, "..."]) -> Complex[np.ndarray, "..."]:
    return np.exp(z)


@complex_exp.partial("z")
def _(out):
    return out


@tg.op(batch="loop")
def modulate(x: Complex[np.ndarray, "n"], filter: Complex[np.ndarray, "n"]) -> Complex[np.ndarray, "n"]:
    return np.fft.fft(x) * filter


@modulate.adjoint("x")
def _(grad: np.ndarray, filter):
    return np.fft.ifft(grad * filter.conj()) * len(filter)


@modulate.adjoint("filter")
def _(grad: np.ndarray, x):
    return grad * np.fft.fft(x).conj()


@tg.op
def spectrum(x: Float[np.ndarray, "n"]) -> Complex[np.ndarray, "n"]:
    return np.fft.fft(x)


@spectrum.adjoint("x")
def _(grad: np.ndarray):
    return (np.fft.ifft(grad) * len(grad)).real


@tg.op
def cube(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x**3


@cube.jvp("x")
def _(x, x_tangent):
    return 3 * x**2 * x_tangent


@tg.op
def fourth(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x**4


@fourth.jvp("x")
def _(x, x_tangent):
    return 4 * x**3 * x_tangent


@fourth.vjp("x")
def _(grad, x):
    return 4 * x**3 * grad


@tg.op
def damp_(y: tg.Mutated[Float[Tensor, "n"]], x: Float[Tensor, "n"]) -> Float[Tensor, ""]:
    y.mul_(torch.sin(x))
    return y.sum()


@damp_.vjp("y")
def _(grad_y, grad_out, x):
    return (grad_y + grad_out) * torch.sin(x)


@damp_.vjp("x")
def _(grad_y, grad_out, x, y):
    return (grad_y + grad_out) * y * torch.cos(x)


@tg.op
def jittered(x: Float[Tensor, "n"], *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "n"]:
    return x**3 * tg.random_uniform(seed, x.shape, dtype=torch.float64).to(x.dtype)


@jittered.vjp("x")
def _(grad, x, seed):
    return 3 * grad * x**2 * tg.random_uniform(seed, x.shape, dtype=torch.float64).to(x.dtype)


@tg.op
def bilinear(x: Float[Tensor, "n"], w: Float[Tensor, "n m"]) -> Float[Tensor, "m"]:
    return x.square() @ w


@bilinear.vjp("x", "w")
def _(grad, x, w):
    return 2 * x * (w @ grad), x.square()[:, None] * grad


@tg.op
def select(x: Float[Tensor, "n"], index: Int[Tensor, "m"]) -> Float[Tensor, "m"]:
    return x[index].sin()


@select.vjp("x")
def _(grad, x, index):
    return torch.zeros_like(x).index_add(0, index, grad * x[index].cos())


@tg.op(batch="loop")
def layer(weight: Float[Tensor, "m n"], x: Float[Tensor, "n"]) -> Float[Tensor, "m"]:
    return torch.tanh(weight @ x)


@layer.vjp("weight")
def _(grad, x, out):
    return ((1 - out**2) * grad)[:, None] * x


@layer.vjp("x")
def _(grad, weight, out):
    return ((1 - out**2) * grad) @ weight


@tg.op
def arctangent(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return np.arctan(x)


@arctangent.vjp("x")
def _(grad: np.ndarray, x):
    return grad / (1 + x**2)


@tg.op
def hyperbolic(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return np.tanh(x)


@hyperbolic.vjp("x")
def _(grad: np.ndarray, out):
    return grad * (1 - out**2)


@hyperbolic.jvp("x")
def _(x_tangent: np.ndarray, out):
    return x_tangent * (1 - out**2)


@tg.op
def blur(x: Float[Tensor, "n"], width: Float[Tensor, ""]) -> Float[Tensor, "n"]:
    return x.square() / (1 + width.square())


@blur.vjp("x")
def _(grad, x, width):
    return 2 * x * grad / (1 + width.square())


blur.nondifferentiable("width")


@tg.op(data_dependent="k <= n")
def chosen(x: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "k"], tg.Saved[Int64[np.ndarray, "k"], "index"]]:
    (index,) = np.nonzero(x > 0)
    return x[index] ** 3, index


@chosen.vjp("x")
def _(grad, x, index):
    return torch.zeros_like(x).index_add(0, index, 3 * grad * x[index] ** 2)


@tg.op(
    kernel=tg.c("""
    #include <math.h>
    void leapfrog_c(T state_position, T state_velocity, T state_mass, double state_strength, double time, T *position,
                    T *velocity) {
        T half = state_velocity - time / 2 * state_strength * sin(state_position) / state_mass;
        *position = state_position + time * half;
        *velocity = half - time / 2 * state_strength * sin(*position) / state_mass;
    }
    """)
)
def leapfrog_c(state: State, time: float) -> Moved:
    return tg.native


leapfrog_c.vjp("state")(leapfrog._record.rules["vjp"]["state_mass"].written)
