"""The pictures of a finding in matplotlib, for notebooks: the same as on the page."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from ..colors import LIGHT, ink, level, scale
from ..finding import Finding
from ..numerals import power, printable, shown, typeset
from .picture import Map, Maps, maps
from .trace import Trace, step_name, trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW = 8  # columns whose cells are wide enough for a number
FRAME = "#000000"
POINT, UNDER, SOFT = "#1f5c99", "#b3261e", "#5d646d"  # the page's
WIDTH = 10.0


def draw(finding: Finding) -> Figure | None:
    """The figure of a finding; None where it has no numbers to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    jacobians = maps(finding.evidence) if finding.evidence else None
    steps = trace(finding.evidence) if finding.evidence else None
    if jacobians is None and steps is None:
        return None
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        error.add_note("Finding.plot() needs matplotlib: pip install 'torchgraft[report]'")
        raise
    rows = (jacobians is not None) + (steps is not None)
    figure = pyplot.figure(figsize=(WIDTH, 1 + 3.4 * rows), layout="constrained")
    parts = figure.subfigures(rows, 1, squeeze=False)[:, 0]
    if jacobians is not None:
        _maps(jacobians, parts[0].subplots(1, 3))
        parts[0].supxlabel(_folded(jacobians.caption), fontsize=9, color=SOFT)
    if steps is not None:
        _ladder(steps, parts[-1].subplots(1, 1))
        parts[-1].supxlabel(_folded(steps.caption), fontsize=9, color=SOFT)
    lines = [printable(text.replace("`", "")) for text in (finding.title, finding.cause) if text]
    figure.suptitle("\n".join(map(_folded, lines)), fontsize=12)
    if figure.canvas.required_interactive_framework is None:  # shown by who returns it, else by pyplot as well
        pyplot.close(figure)
    return figure


def _folded(text: str) -> str:
    """Lines that fit the figure; a dollar sign is no formula."""
    return textwrap.fill(typeset(text), 110).replace("$", r"\$")


def _maps(maps: Maps, axes: list[Axes]) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    colors = ListedColormap(list(scale(LIGHT).values())).with_extremes(bad="#c9c5bb")
    for map, at in zip(maps.maps, axes, strict=True):
        low, high = map.center - map.limit, map.center + map.limit
        image = at.imshow(np.array(map.values), cmap=colors, vmin=low, vmax=high, interpolation="nearest")
        at.set_title(map.title)
        at.set_xlabel("inputs")
        at.set_ylabel("outputs")
        _names(at, maps)
        bar = at.figure.colorbar(image, ax=at, orientation="horizontal", ticks=[low, map.center, high], shrink=0.8)
        bar.set_ticklabels([typeset(text) for text in (map.ends[0], shown(map.center), map.ends[1])])
        if len(maps.columns) <= FEW and len(maps.rows) <= 2 * FEW:
            _values(at, map)
    for row, column in sorted(maps.wrong):
        axes[2].add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=FRAME, linewidth=1.5))


def _names(at: Axes, maps: Maps) -> None:
    for names, set_ticks, rotation in ((maps.rows, at.set_yticks, 0), (maps.columns, at.set_xticks, 90)):
        stride = math.ceil(len(names) / FEW)
        labels = [name.replace("$", r"\$") for name in names[::stride]]
        set_ticks(range(0, len(names), stride), labels, fontsize=8, rotation=rotation)


def _values(at: Axes, map: Map) -> None:
    """The numbers in the cells."""
    palette = scale(LIGHT)
    for row, values in enumerate(map.values):
        for column, value in enumerate(values):
            text = map.text((row, column), 34 // len(values))
            color = palette[level(value - map.center, map.limit)] if math.isfinite(value) else LIGHT.zero
            faint = 0.4 if map.marks.get((row, column)) == "0/0" else 1.0
            at.text(
                column, row, typeset(text or ""), ha="center", va="center", fontsize=7, color=ink(color), alpha=faint
            )


def _ladder(trace: Trace, at: Axes) -> None:
    """Distances from the estimate that was used, with error bars that end at the axis where they are infinite."""
    at.set_xscale("log", base=2)
    at.set_yscale("asinh", linear_width=trace.linear)
    at.set_ylim(-trace.reach, trace.reach)
    at.axhline(0, color=SOFT, linewidth=0.8)
    bars = [min(bar, 3 * trace.reach) for bar in trace.bars]
    at.errorbar(
        trace.steps, trace.offsets, bars, fmt="o", markersize=4, capsize=3, color=POINT, label="estimate and its error"
    )
    place = trace.steps[trace.chosen], trace.offsets[trace.chosen]
    at.plot(*place, "o", markersize=11, fillstyle="none", color="black", label="step that was used", zorder=4)
    if trace.along is not None:
        at.axhline(trace.along, color=UNDER, linestyle="--", label="derivative under test")
    ticks = [
        (sign * 10.0**k, typeset(text) + power(10, k)) for k in trace.exponents() for sign, text in ((1, ""), (-1, "-"))
    ]
    at.set_yticks([0, *(tick for tick, _ in ticks)], ["0", *(text for _, text in ticks)])
    at.minorticks_off()
    stride = math.ceil(len(trace.steps) / 8)
    at.set_xticks(trace.steps[::stride], [step_name(step) for step in trace.steps[::stride]])
    at.invert_xaxis()
    at.set_xlabel("step of the differences")
    at.set_ylabel("distance from the\nnumeric derivative")
    at.grid(axis="y", alpha=0.3)
    at.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
