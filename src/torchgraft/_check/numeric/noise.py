"""How much the values of a computed function jitter, measured rather than assumed."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SAMPLES = 7
"""How many equidistant points the estimate takes."""

_ORDERS = (4, 5, 6)
_GAMMA = {k: math.factorial(k) ** 2 / math.factorial(2 * k) for k in _ORDERS}


def ecnoise(samples: Tensor) -> Tensor:
    """The standard deviation of the noise in each column of `samples`, from ECnoise [1].

    The k-th differences of a smooth function fade with the k-th power of the spacing, those of noise with standard
    deviation s have the mean square s^2 (2k)! / (k!)^2. The largest estimate of the orders 4, 5 and 6 is taken: with so
    few samples each can be small by chance.

    Args:
        samples: values at `SAMPLES` points of equal, small spacing, ``(SAMPLES, n)``.

    [1] Moré and Wild, "Estimating computational noise", SIAM J. Sci. Comput. 33 (2011), equation (2.3).
    """
    unit = samples.abs().amax(0).clamp(min=torch.finfo(samples.dtype).tiny)  # squares of small values would be zero
    largest, differences = torch.zeros_like(samples[0]), samples / unit
    for k in range(1, _ORDERS[-1] + 1):
        differences = differences[1:] - differences[:-1]
        if k in _ORDERS:
            largest = torch.maximum(largest, _GAMMA[k] * differences.square().mean(0))
    return largest.sqrt() * unit
