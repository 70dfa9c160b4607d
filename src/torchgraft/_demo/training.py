"""Training with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor

from .digits import Digits
from .network import Network

LEARNING_RATE = 0.01  # It falls to zero along a cosine.
ASKED_ACCURACY = 0.95


@dataclass
class History:
    """Mean training loss and held-out accuracy, one entry for each epoch."""

    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)


def train(
    network: Network, digits: Digits, *, epochs: int, batch: int, part: int = 0, parts: int = 1, shown: bool = True
) -> History:
    """Train the network in place.

    Args:
        part: of each batch that this process trains on, where several processes share it; the loss is that of the part.
        parts: into which a batch is cut.
        shown: with a progress bar.
    """
    history = History()
    optimizer = make_optimizer(network)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    with make_progress(shown) as progress:
        task = progress.add_task("", total=epochs, report="")
        for _ in range(epochs):
            losses = [
                step(network, optimizer, images.chunk(parts)[part], labels.chunk(parts)[part])
                for images, labels in batches(digits, batch)
            ]
            schedule.step()
            history.loss.append(sum(losses) / len(losses))
            history.accuracy.append(accuracy(network, digits.test_images, digits.test_labels))
            report = f"loss {history.loss[-1]:.4f}, held-out accuracy {history.accuracy[-1]:.1%}"
            progress.update(task, advance=1, report=report)
    return history


def make_optimizer(network: Network) -> torch.optim.Optimizer:
    """The optimizer of every run."""
    return torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)


def make_progress(shown: bool) -> Progress:
    """A bar with the figures of the last epoch."""
    return Progress(
        TextColumn("  epoch {task.completed}/{task.total}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[report]}"),
        disable=not shown,
    )


def batches(digits: Digits, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The training digits once, in random order; a last batch that is not full is left out."""
    order = torch.randperm(len(digits.train_labels))
    for chosen in order[: len(order) // batch * batch].split(batch):
        yield digits.train_images[chosen], digits.train_labels[chosen]


def loss_of(network: torch.nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy of a batch."""
    return torch.nn.functional.cross_entropy(network(images), labels)


def step(
    network: Network,
    optimizer: torch.optim.Optimizer,
    images: Tensor,
    labels: Tensor,
    loss_function: Callable[[Network, Tensor, Tensor], Tensor] = loss_of,
) -> float:
    """One step of the optimizer; returns the loss before it."""
    optimizer.zero_grad()
    loss = loss_function(network, images, labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def accuracy(network: Network, images: Tensor, labels: Tensor) -> float:
    """The share of images whose highest score is that of their class."""
    with torch.no_grad():
        correct = network(images).argmax(1) == labels
    return float(correct.double().mean())
