"""The network: every layer is an operator of `examples/`."""

from __future__ import annotations

import torch
from torch import Tensor

from .._examples.linear import linear
from .._examples.scipy_layer import Filter2d, filter2d
from .._examples.softplus import softplus
from .._nn.module import module

OPERATORS = (filter2d, softplus, linear)

Linear = module(linear, parameters=("weight", "bias"))


class Network(torch.nn.Module):
    """SciPy filters the image, NumPy rectifies, torch maps to ten classes."""

    def __init__(self, filters: int = 8, size: int = 3, image: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.filter = Filter2d(filters=filters, kh=size, kw=size)
        torch.nn.init.normal_(self.filter.kernel, std=1 / size)  # wider than the default, so that softplus bends
        self.classify = Linear(n=filters * (image - size + 1) ** 2, m=classes)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores (n, 10) of images (n, 8, 8)."""
        maps = softplus(self.filter(images))
        scores: Tensor = self.classify(maps.flatten(1))
        return scores
