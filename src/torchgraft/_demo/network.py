"""The network: every layer is an operator of `examples/`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._examples.filter_bank_c import FilterBank, filter_bank
from .._examples.linear import linear
from .._examples.scipy_layer import Filter2d, filter2d
from .._examples.softplus import softplus
from .._nn.module import module
from .._op import Op

Linear = module(linear, parameters=("weight", "bias"))


@dataclass(frozen=True)
class Filter:
    """A first layer: two of them differ in who computes it, and in nothing else.

    Attributes:
        language: of the kernel.
        function: that computes it, as a picture names it.
        operator: behind the layer.
        layer: with the axes `filters`, `kh` and `kw`, a kernel and a bias.
    """

    language: str
    function: str
    operator: Op[..., Any]
    layer: Callable[..., Any]


SCIPY = Filter("SciPy", "scipy.signal.correlate2d", filter2d, Filter2d)
C = Filter("C", "examples/filter_bank.c", filter_bank, FilterBank)


def operators(first: Filter) -> tuple[Op[..., Any], ...]:
    """The operators of a network, in the order of its layers."""
    return first.operator, softplus, linear


class Network(torch.nn.Module):
    """SciPy or C filters the image, NumPy rectifies, torch maps to ten classes."""

    def __init__(
        self, first: Filter = SCIPY, filters: int = 8, size: int = 3, image: int = 8, classes: int = 10
    ) -> None:
        super().__init__()
        self.first = first
        self.filter = first.layer(filters=filters, kh=size, kw=size)
        torch.nn.init.normal_(self.filter.kernel, std=1 / size)  # Wider than the default, so that softplus bends.
        self.classify = Linear(n=filters * (image - size + 1) ** 2, m=classes)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores (n, 10) of images (n, 8, 8)."""
        maps = softplus(self.filter(images))
        scores: Tensor = self.classify(maps.flatten(1))
        return scores
