"""The 1797 handwritten digits that scikit-learn ships: 8 x 8 pixels, ten classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor


@dataclass(frozen=True)
class Digits:
    """Images of shape (n, 8, 8) with values from 0 to 1, and their classes."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load(at_most: int | None = None) -> Digits:
    """The digits, or the first `at_most` of them, a stratified quarter held out; the same split at every call."""
    data = load_digits()
    images, labels = data.images[:at_most] / 16, data.target[:at_most]
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=0.25, stratify=labels, random_state=0
    )
    return Digits(
        torch.tensor(train_images, dtype=torch.float32),
        torch.tensor(train_labels),
        torch.tensor(test_images, dtype=torch.float32),
        torch.tensor(test_labels),
    )
