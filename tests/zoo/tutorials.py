"""The published tutorials' own mistakes: they live in the example, each beside a right operator."""

import torch
from torch.nn import functional

from examples.tutorial_mistakes import MISTAKES, cell, statistics

from .bug import Bug
from .observe import mapped, second


def published(page, name, **fields):
    wrong, right, arguments = MISTAKES[page]
    return Bug(name=name, wrong=wrong, right=right, inputs=lambda: arguments, source=page, **fields)


def filtered(x, kernel):
    return functional.conv2d(x[None, None], kernel[None, None])[0, 0]


def conv_bn(x, weight):
    y = functional.conv2d(x, weight)
    mean, deviation = statistics(y)
    return (y - mean) / deviation


def lltm(x, weight, bias, state):
    _, output, _, new = cell(x, weight, bias, state)
    return new.tanh() * output.sigmoid(), new


def cropped(picture, top, left, height, width):
    return picture[:, top : top + height, left : left + width]


SECOND = {"double", "second", "higher", "once", "gradgrad"}

BUGS = [
    published(
        "numpy_extensions_tutorial, old editions",
        "scipy_filter",
        truth=filtered,
        expects={"gradient", "shape"},
        cause=("flip", "revers", "transpos", "permut"),
    ),
    published(
        "numpy_extensions_tutorial",
        "scipy_filter_of_today",
        truth=filtered,
        expects={"gradient", "digits", "dtype"} | SECOND,
        cause=("float32", "dtype", "detach", "NumPy", "numpy", "once_differentiable"),
    ),
    published(
        "numpy_extensions_tutorial, FFT",
        "fft_magnitude",
        truth=lambda x: torch.fft.rfft2(x).abs(),
        expects={"gradient"},
        cause=("element", "row", "entries", "factor", "input", "1/N"),
    ),
    published(
        "notes/extending, old editions",
        "bias_of_one_feature",
        truth=functional.linear,
        expects={"gradient", "shape", "raises"},
        cause=("shape", "squeeze", "axis", "axes", "expected"),
    ),
    published(
        "custom_function_conv_bn_tutorial",
        "fused_conv_bn",
        truth=conv_bn,
        shown_by=second,
        expects=SECOND,
        cause=("intermediate", "saved", "once_differentiable", "second", "ctx", "graph"),
    ),
    published(
        "cpp_extension",
        "lltm",
        truth=lltm,
        shown_by=second,
        expects=SECOND | {"shape", "reduc", "raw"},
        cause=("intermediate", "saved", "once_differentiable", "second", "graph", "shape", "reduc", "axis"),
    ),
    published(
        "notes/extending.func",
        "numpy_take",
        truth=lambda x, index: x.gather(-1, index),
        shown_by=mapped((1, None)),
        expects={"vmap", "batch"},
        cause=("in_dims", "axis", "batch", "vmap", "transpos"),
    ),
    published(
        "python_custom_ops",
        "crop_by_bytes",
        truth=cropped,
        expects={"gradient", "linear"},
        cause=("linear", "clamp", "clip", "upstream", "round", "wrap"),
    ),
]
