"""The pictures: how the training went, and the filters that it found."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from .digits import Digits
from .network import Network
from .training import ASKED_ACCURACY, History

BLUE, ORANGE, GREY = "#2a6f97", "#c8553d", "#6c757d"
DIVERGING = "RdBu_r"


def draw(network: Network, history: History, digits: Digits, folder: Path) -> list[tuple[Path, str]]:
    """Write both pictures; return where they are and what they show."""
    folder.mkdir(parents=True, exist_ok=True)
    filters = f"the filters that {network.first.language} applied, and what they make of a digit"
    pictures = [
        ("loss.png", draw_curves(history, digits), "loss and held-out accuracy, epoch by epoch"),
        ("filters.png", draw_filters(network, digits), filters),
    ]
    for name, figure, _ in pictures:
        figure.savefig(folder / name, dpi=150)
    return [(folder / name, what) for name, _, what in pictures]


def draw_curves(history: History, digits: Digits) -> Figure:
    """Loss and accuracy over the epochs."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    loss, accuracy = figure.subplots(1, 2)
    epochs = range(1, len(history.loss) + 1)
    loss.plot(epochs, history.loss, color=BLUE, marker=".")
    loss.set_title(f"{len(digits.train_labels)} handwritten digits to train on")
    loss.set(xlabel="epoch", ylabel="mean cross-entropy (nats)", yscale="log")
    loss.yaxis.set_major_formatter("{x:g}")
    accuracy.plot(epochs, [100 * a for a in history.accuracy], color=ORANGE, marker=".")
    asked = f"asked: {ASKED_ACCURACY:.0%}"
    accuracy.axhline(100 * ASKED_ACCURACY, color=GREY, linewidth=0.8, linestyle="--", label=asked)
    accuracy.set_title(f"{len(digits.test_labels)} handwritten digits held out")
    accuracy.set(xlabel="epoch", ylabel="classified correctly (%)", ylim=(None, 100.5))
    accuracy.legend(frameon=False, loc="lower right")
    for axes in (loss, accuracy):
        tidy(axes)
    return figure


def tidy(axes: Any) -> None:
    """Leave out what carries no information."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.locator_params(axis="x", integer=True)


def draw_filters(network: Network, digits: Digits) -> Figure:
    """Each filter above what it makes of one held-out digit."""
    image, label = digits.test_images[0], int(digits.test_labels[0])
    filters = network.filter.kernel.detach()
    with torch.no_grad():
        maps = network.filter(image)
    figure = Figure(figsize=(1.25 * (len(filters) + 1) + 0.8, 3.4), layout="constrained")
    figure.suptitle(f"Filters learned through {network.first.function}", fontsize=12)
    grid = figure.subplots(2, len(filters) + 1)
    grid[0, 0].axis("off")
    show(grid[1, 0], image, "Greys", 0, 1)
    grid[1, 0].set_title(f"a held-out {label}", fontsize=9)
    row(figure, grid[0, 1:], filters, "weight", [f"filter {i}" for i in range(1, len(filters) + 1)])
    row(figure, grid[1, 1:], maps, "response", [""] * len(filters))
    return figure


def row(figure: Figure, axes: Any, images: torch.Tensor, what: str, titles: Iterable[str]) -> None:
    """Images on one scale that is centred at zero."""
    limit = float(images.abs().max())
    for each, image, title in zip(axes, images, titles, strict=True):
        drawn = show(each, image, DIVERGING, -limit, limit)
        each.set_title(title, fontsize=9)
    figure.colorbar(drawn, ax=list(axes), label=what, shrink=0.8, aspect=12)


def show(axes: Any, image: torch.Tensor, colours: str, low: float, high: float) -> Any:
    """One image without ticks."""
    axes.set(xticks=[], yticks=[])
    return axes.imshow(image.numpy(), cmap=colours, vmin=low, vmax=high)
