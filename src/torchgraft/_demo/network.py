"""The network: every layer is an operator of `examples/`."""

from __future__ import annotations

import torch
from torch import Tensor

from .._examples.correlate2d import correlate2d
from .._examples.linear import linear
from .._examples.softplus import softplus

OPERATORS = (correlate2d, softplus, linear)


class Network(torch.nn.Module):
    """SciPy filters the image, NumPy rectifies, torch maps to ten classes."""

    def __init__(self, filters: int = 8, size: int = 3, image: int = 8, classes: int = 10) -> None:
        super().__init__()
        features = filters * (image - size + 1) ** 2
        self.filters = torch.nn.Parameter(torch.randn(filters, size, size) / size)
        self.weight = torch.nn.Parameter(torch.randn(classes, features) / features**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(classes))

    def forward(self, images: Tensor) -> Tensor:
        """Class scores (n, 10) of images (n, 8, 8)."""
        maps = correlate2d(images[:, None], self.filters)  # leading axes broadcast: (n, 1) and (filters,)
        scores: Tensor = linear(softplus(maps).flatten(1), self.weight, self.bias)
        return scores
