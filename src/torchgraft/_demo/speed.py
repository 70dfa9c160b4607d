"""The first layer by SciPy and in C: the same numbers, in how much time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

from .digits import Digits
from .network import SCIPY, C, Network
from .training import loss_of, make_optimizer, step


@dataclass(frozen=True)
class Race:
    """A comparison of two networks.

    Attributes:
        times: what was timed, and the median seconds with SciPy and with C.
        difference: the largest of the gradients' differences, each over the norm of its gradient.
    """

    times: list[tuple[str, float, float]]
    difference: float


def race(digits: Digits, *, rounds: int, batch: int) -> Race:
    """Compare two networks with the same weights, by turns, so that a busy machine slows both alike."""
    images, labels = digits.train_images[:batch], digits.train_labels[:batch]
    scipy, c = Network(SCIPY), Network(C)
    c.load_state_dict(scipy.state_dict())
    gradients = zip(*(_gradients(network, images, labels) for network in (scipy, c)), strict=True)
    difference = max(float((ours - theirs).norm() / theirs.norm()) for theirs, ours in gradients)
    times = [
        ("a call of the layer", *_medians(rounds, *(_call(network, images) for network in (scipy, c)))),
        ("a step of the training", *_medians(rounds, *(_step(network, images, labels) for network in (scipy, c)))),
    ]
    return Race(times, difference)


def _gradients(network: Network, images: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss_of(network, images, labels), list(network.parameters()))


def _call(network: Network, images: Tensor) -> Callable[[], object]:
    def call() -> Tensor:
        with torch.no_grad():
            made: Tensor = network.filter(images)
        return made

    return call


def _step(network: Network, images: Tensor, labels: Tensor) -> Callable[[], object]:
    optimizer = make_optimizer(network)
    return lambda: step(network, optimizer, images, labels)


def _medians(rounds: int, *functions: Callable[[], object]) -> tuple[float, float]:
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, seconds in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    one, other = map(median, times)
    return one, other
