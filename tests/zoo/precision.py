"""Right formulas in too few digits, and what tolerances of 1e-3 let through."""

import math

import numpy as np
import torch

from .bug import Bug, function, given, normal
from .observe import raw, repeated

GRADIENT = {"gradient", "digits", "precision"}


def hard_sigmoid(x):
    return (x / 6 + 0.5).clamp(0, 1)


def hard_sigmoid_gradient(sixth):
    return lambda grad, x: grad * sixth * (x.abs() < 3)


def by_differences(grad, x):
    return grad * ((x + 1e-3).exp() - (x - 1e-3).exp()) / 2e-3


def through_float32(grad, x):
    return grad * torch.from_numpy(np.cos(x.numpy().astype(np.float32)))


def summed_in_half(grad, x):
    return (grad.half() * x.cos().half()).to(x.dtype)


def a_millionth_more_above_one(grad, x):
    return torch.where(x > 1, 1.000001 * grad, grad) * x.cos()


def jittered(grad, x):
    return grad * x.cos() + 1e-12 * torch.from_numpy(np.random.default_rng().standard_normal(x.shape))


SINE = {"truth": torch.sin, "right": function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos())}


def series_of_slope(x):
    """The derivative of expm1(x) / x by its series about 0."""
    terms = [(k + 1) / math.factorial(k + 2) for k in range(20)]
    total = torch.full_like(x, terms[-1])
    for term in reversed(terms[:-1]):
        total = total * x + term
    return total


def quotient(x):
    return torch.where(x == 0, 1.0, torch.expm1(x) / torch.where(x == 0, 1.0, x))


def cancelling(grad, x):
    safe = torch.where(x == 0, 1.0, x)
    return grad * torch.where(x == 0, 0.5, (safe * safe.exp() - safe.expm1()) / safe**2)


def by_the_series(grad, x):
    near = x.abs() < 1
    safe = torch.where(near, 1.0, x)
    far = (safe * safe.exp() - safe.expm1()) / safe**2
    return grad * torch.where(near, series_of_slope(torch.where(near, x, 0.0)), far)


BUGS = [
    Bug(
        name="cancels_near_zero",
        wrong=function("Quotient", quotient, cancelling, once=True),
        right=function("Quotient", quotient, by_the_series, once=True),
        truth=lambda x: quotient(x.double()).to(x.dtype),
        inputs=normal((6,)),
        probe=lambda: (torch.tensor([1e-6, -3e-6, 2e-7]),),
        expects=GRADIENT | {"far off"},
        cause=("rounding", "cancel", "precision", "digits"),
        source="textbook derivatives of expm1(x) / x, sinc and the like, in float32",
        smooth=False,
    ),
    Bug(
        name="float32_constant",
        wrong=function("HardSigmoid", hard_sigmoid, hard_sigmoid_gradient(float(np.float32(1 / 6)))),
        right=function("HardSigmoid", hard_sigmoid, hard_sigmoid_gradient(1 / 6)),
        truth=hard_sigmoid,
        inputs=normal((3, 4)),
        expects=GRADIENT,
        cause=("float32",),
        source="PyTorch's own hardsigmoid_backward in double",
    ),
    Bug(
        name="computed_in_float32",
        wrong=function("Sin", lambda x: x.sin(), lambda grad, x: (grad.float() * x.float().cos()).double()),
        **SINE,
        inputs=normal((3, 4)),
        expects=GRADIENT,
        cause=("float32", "single"),
        source="kernels with float for accumulators",
    ),
    Bug(
        name="computed_in_half",
        wrong=function("Sin", lambda x: x.sin(), summed_in_half),
        **SINE,
        inputs=normal((3, 4)),
        expects=GRADIENT,
        cause=("float16", "half", "precision"),
        source="mixed-precision backward passes that lose the dtype they came with",
    ),
    Bug(
        name="pi_by_hand",
        wrong=function("SinPi", lambda x: (torch.pi * x).sin(), lambda g, x: 3.1416 * g * (torch.pi * x).cos()),
        right=function("SinPi", lambda x: (torch.pi * x).sin(), lambda g, x: torch.pi * g * (torch.pi * x).cos()),
        truth=lambda x: (torch.pi * x).sin(),
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("pi", "3.1416", "constant", "factor"),
        source="constants typed from memory; gelu's 0.044715 and 0.7978845608 have the same fate",
    ),
    Bug(
        name="half_a_thousandth",
        wrong=function("Sin", lambda x: x.sin(), lambda grad, x: 1.0005 * grad * x.cos()),
        **SINE,
        inputs=normal((3, 4)),
        expects=GRADIENT,
        cause=("too large", "factor", "1.0005"),
        source="below gradcheck's rtol of 1e-3",
    ),
    Bug(
        name="one_in_a_million",
        wrong=function("Sin", lambda x: x.sin(), a_millionth_more_above_one),
        **SINE,
        inputs=given([-1.0, -0.5, 0.25, 1.5, 2.5]),
        expects=GRADIENT,
        cause=("x >", "> 0.25", "> 1", "above", "factor", "1.000001", "element"),
        source="approximations for part of the range",
    ),
    Bug(
        name="small_gradients_dropped",
        wrong=function("Faint", lambda x: 5e-6 * x.sin(), lambda grad, x: torch.zeros_like(x)),
        right=function("Faint", lambda x: 5e-6 * x.sin(), lambda grad, x: 5e-6 * grad * x.cos()),
        truth=lambda x: 5e-6 * x.sin(),
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("zero",),
        source="below gradcheck's atol of 1e-5",
    ),
    Bug(
        name="by_differences",
        wrong=function("Exp", lambda x: x.exp(), by_differences, once=True),
        right=function("Exp", lambda x: x.exp(), lambda grad, x: grad * x.exp(), once=True),
        truth=torch.exp,
        inputs=normal((5,)),
        expects=GRADIENT,
        cause=("factor", "digits", "precision", "difference", "1.0000001", "1.00000017"),
        source="backward by finite differences, as wrappers of simulators do it",
    ),
    Bug(
        name="float32_gradient",
        wrong=function("Sin", lambda x: x.sin(), lambda grad, x: grad.float() * x.cos().float()),
        **SINE,
        inputs=normal((3, 4)),
        shown_by=raw,
        expects=GRADIENT | {"dtype"},
        cause=("digits", "float32", "dtype"),
        source="the engine casts it to the input's dtype without a word",
    ),
    Bug(
        name="numpy_in_float32",
        wrong=function("Sin", lambda x: x.sin(), through_float32, once=True),
        right=function("Sin", lambda x: x.sin(), lambda grad, x: grad * torch.from_numpy(np.cos(x.numpy())), once=True),
        truth=torch.sin,
        inputs=normal((3, 4)),
        expects=GRADIENT | {"dtype"},
        cause=("float32", "precision", "single"),
        source="NumPy code with astype(np.float32), which torch.from_numpy keeps",
    ),
    Bug(
        name="jitter",
        wrong=function("Sin", lambda x: x.sin(), jittered, once=True),
        right=function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos(), once=True),
        truth=torch.sin,
        inputs=normal((5,)),
        shown_by=repeated,
        expects={"determin", "repeat", "random", "reentran", "gradient"},
        cause=("no argument", "random", "determin", "differ", "noise"),
        source="atomics and unseeded noise: 'backward is not reentrant' in gradcheck",
    ),
    Bug(
        name="float32_kernel",
        wrong=function("Cube", lambda x: x**3, lambda grad, x: 3.03 * grad * x**2),
        right=function("Cube", lambda x: x**3, lambda grad, x: 3 * grad * x**2),
        truth=lambda x: x**3,
        inputs=normal((3, 4), dtype=torch.float32),
        expects=GRADIENT,
        cause=("too large", "factor", "1.01"),
        source="1 % off in a dtype for which people set rtol to 5e-2",
        smooth=False,
    ),
    Bug(
        name="half_kernel",
        wrong=function("Square", lambda x: x * x, lambda grad, x: grad * x),
        right=function("Square", lambda x: x * x, lambda grad, x: 2 * grad * x),
        truth=torch.square,
        inputs=normal((3, 4), dtype=torch.float16),
        expects=GRADIENT,
        cause=("1/2", "half", "0.5"),
        source="kernels in float16 alone, which gradcheck cannot check",
        smooth=False,
    ),
]
