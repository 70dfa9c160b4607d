"""Losses of digits in PyTorch that the checker finds, each against a reference of 40 digits.

An alarm on one of PyTorch's own operators is a false one, unless its derivative or its values really have fewer digits
than the dtype. Where mpmath knows the function, that is computed here; else, in float32, the float64 version of the
operator is the reference.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import mpmath
import torch
from _opinfo import Sample
from torch import Tensor
from torch.utils import _pytree as pytree

LOST = 256
"""Roundings of the dtype that a right implementation stays below."""

Function = Callable[[Any], Any]


def _polygamma(n: int) -> tuple[Function, Function]:
    return lambda x: mpmath.polygamma(n, x), lambda x: mpmath.polygamma(n + 1, x)


FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "digamma": _polygamma(0),
    "polygamma_polygamma_n_0": _polygamma(1),  # whatever its name says
    "special_polygamma_special_polygamma_n_0": _polygamma(1),
    "special_ndtr": (mpmath.ncdf, mpmath.npdf),
    "nn_functional_hardsigmoid": (
        lambda x: min(max(x / 6 + 0.5, mpmath.mpf(0)), mpmath.mpf(1)),
        lambda x: mpmath.mpf(1) / 6 if abs(x) < 3 else mpmath.mpf(0),
    ),
    "sinc": (mpmath.sincpi, lambda x: (mpmath.cospi(x) - mpmath.sincpi(x)) / x if x else mpmath.mpf(0)),
}
"""Elementwise functions of one tensor, and their derivatives."""


def lost(sample: Sample) -> float:
    """The largest relative error of values or gradient, in roundings of the dtype; 0 where there is no reference."""
    name = sample.name.partition("#")[0]
    dtype = sample.tensors[0].dtype
    if name in FUNCTIONS:
        errors = _by_mpmath(sample, *FUNCTIONS[name])
    elif dtype == torch.float32:
        errors = _by_float64(sample)
    else:
        return 0.0
    return errors / torch.finfo(dtype).eps


def _by_mpmath(sample: Sample, function: Function, derivative: Function) -> float:
    """Element by element."""
    x = sample.tensors[0].detach().requires_grad_()
    (value,) = _outputs(sample, (x, *sample.tensors[1:]))
    (gradient,) = torch.autograd.grad(value.sum(), x)
    worst = mpmath.mpf(0)
    with mpmath.workdps(40):
        for at, made, slope in zip(x.reshape(-1), value.reshape(-1), gradient.reshape(-1), strict=True):
            for got, right in ((made, function(mpmath.mpf(at.item()))), (slope, derivative(mpmath.mpf(at.item())))):
                worst = max(worst, abs(mpmath.mpf(got.item()) - right) / abs(right) if right else mpmath.mpf(0))
    return float(worst)


def _by_float64(sample: Sample) -> float:
    """The gradient of a random combination of the outputs, relative to its largest element."""
    exact = tuple(_doubled(t) for t in sample.tensors)
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(o.shape, generator=generator) for o in _outputs(sample, sample.tensors)]
    worst = 0.0
    for rough, right in zip(*(_gradients(sample, given, weights) for given in (sample.tensors, exact)), strict=True):
        worst = max(worst, float((rough.double() - right).abs().max() / right.abs().max().clamp(min=1e-300)))
    return worst


def _doubled(tensor: Tensor) -> Tensor:
    return tensor.detach().double().requires_grad_(tensor.requires_grad) if tensor.is_floating_point() else tensor


def _gradients(sample: Sample, tensors: tuple[Tensor, ...], weights: list[Tensor]) -> list[Tensor]:
    outputs = _outputs(sample, tensors)
    wanted = [t for t in tensors if t.requires_grad]
    given = [w.to(o.dtype) for w, o in zip(weights, outputs, strict=True)]
    found = torch.autograd.grad(outputs, wanted, given, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(wanted, found, strict=True)]


def _outputs(sample: Sample, tensors: tuple[Tensor, ...]) -> list[Tensor]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        leaves = pytree.tree_leaves(sample.function(*tensors))
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad]
