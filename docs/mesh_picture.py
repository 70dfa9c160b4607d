"""The picture of docs/mesh.md, how two ranks share y = x W^T: `python docs/mesh_picture.py` writes it."""

import sys
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

RANKS, GREY, INK = ("#8ecae6", "#f4a58a"), "#e3e5e8", "#333333"
WHOLE, ROWS, COLUMNS = "whole", "rows", "columns"
BATCH, N, M = 2.0, 3.0, 2.4  # the lengths of the axes, as drawn


def draw() -> Figure:
    """One panel for each way to cut the call."""
    figure = Figure(figsize=(11, 2.5), layout="constrained")
    panels = figure.subplots(1, 3, width_ratios=(1, 1, 1.35))
    for axes, title, cuts in zip(
        panels,
        ('"*batch"', 'parallel="m"', 'reduction="n"'),
        ((ROWS, WHOLE, ROWS), (WHOLE, COLUMNS, COLUMNS), (COLUMNS, ROWS, "sum")),
        strict=True,
    ):
        panel(axes, title, *cuts)
    handles = [Rectangle((0, 0), 1, 1, facecolor=colour, edgecolor=INK) for colour in (*RANKS, GREY)]
    figure.legend(handles, ["rank 0", "rank 1", "both"], loc="outside lower center", ncols=3, frameon=False)
    return figure


def panel(axes: Axes, title: str, x: str, weight: str, y: str) -> None:
    """The product of x and the transposed weight, each cut in its way."""
    axes.set_title(title, family="monospace", fontsize=13)
    middle = N / 2
    at = matrix(axes, 0, middle, "$x$", ("*batch", "n"), (BATCH, N), x)
    at = sign(axes, at, middle, r"$\times$")
    at = matrix(axes, at, middle, "$W^T$", ("n", "m"), (N, M), weight)
    at = sign(axes, at, middle, "=")
    if y == "sum":
        at = matrix(axes, at, middle, "$y_0$", ("*batch", "m"), (BATCH, M), RANKS[0])
        at = sign(axes, at, middle, "+")
        at = matrix(axes, at, middle, "$y_1$", ("*batch", "m"), (BATCH, M), RANKS[1])
    else:
        at = matrix(axes, at, middle, "$y$", ("*batch", "m"), (BATCH, M), y)
    axes.set(xlim=(-0.6, at), ylim=(-0.75, N + 0.5), aspect="equal")
    axes.axis("off")


def matrix(
    axes: Axes, left: float, middle: float, name: str, labels: tuple[str, str], size: tuple[float, float], cut: str
) -> float:
    """Draw a matrix whose parts have the colours of their ranks; return where it ends."""
    height, width = size
    bottom = middle - height / 2
    if cut == ROWS:
        parts = [((left, bottom + height / 2), width, height / 2), ((left, bottom), width, height / 2)]
    elif cut == COLUMNS:
        parts = [((left, bottom), width / 2, height), ((left + width / 2, bottom), width / 2, height)]
    else:
        parts = [((left, bottom), width, height)]
    colours = RANKS if len(parts) == 2 else [GREY if cut == WHOLE else cut]
    for (corner, w, h), colour in zip(parts, colours, strict=True):
        axes.add_patch(Rectangle(corner, w, h, facecolor=colour, edgecolor=INK, linewidth=1.2))
    axes.text(left + width / 2, middle - N / 2 - 0.45, name, ha="center", va="center", fontsize=12, color=INK)
    small = {"ha": "center", "va": "center", "fontsize": 10, "color": INK, "family": "monospace"}
    axes.text(left - 0.25, middle, labels[0], rotation=90, **small)
    axes.text(left + width / 2, bottom + height + 0.27, labels[1], **small)
    return left + width + 0.2


def sign(axes: Axes, left: float, middle: float, text: str) -> float:
    """Write a sign between two matrices; return where it ends."""
    axes.text(left + 0.3, middle, text, ha="center", va="center", fontsize=17, color=INK)
    return left + 1.2


if __name__ == "__main__":
    draw().savefig(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "mesh.png", dpi=150)
