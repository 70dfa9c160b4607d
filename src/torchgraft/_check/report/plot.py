"""The pictures of a finding: the Jacobian by both sides, their ratio, and the ladder of steps.

matplotlib draws them for notebooks (`Finding.plot`) and for the page. It is optional, and only imported to draw.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import io
import math
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..evidence import Evidence, apart, brief, printable, shown, typeset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INSTALL = "pip install 'torchgraft[report]'"
MOST = 32  # Rows and columns of a map: of a larger one, those around the largest deviation.
SLACK = 4  # An error may be so many times its estimate, which is sometimes too small.
ROUNDED = 256 * float(np.finfo(float).eps)  # Relative to the largest entry. Less is never called an error.
FARTHEST = 2.0  # The scale of ratios ends here on both sides of 1.
NEAR = 0.01  # Ratios that are all nearer to 1 are shown as their distances from it.
WIDE = 8  # Up to so many columns have room for a number in each cell.
LONGEST = 12  # Characters of a label.
BESIDE = 30  # Characters of labels that have room side by side.
COLORS = "RdBu_r"  # People with any kind of colour vision tell blue from red.
POINT, UNDER, SOFT, VOID = "#1f5c99", "#b3261e", "#5d646d", "#c9c5bb"
SUPERSCRIPTS = str.maketrans("-0123456789", "\N{SUPERSCRIPT MINUS}⁰¹²³⁴⁵⁶⁷⁸⁹")
STYLE = {
    "svg.hashsalt": "torchgraft", "svg.fonttype": "none", "font.size": 8, "axes.titlesize": 9,
    "axes.titleweight": "bold", "axes.facecolor": "none", "axes.edgecolor": SOFT, "axes.linewidth": 0.6,
    "axes.labelcolor": SOFT,
}  # fmt: skip

Array = NDArray[Any]


class Map(NamedTuple):
    """One heat map, with colours from ``center - limit`` to ``center + limit``, and marks in the place of numbers."""

    title: str
    values: Array
    center: float
    limit: float
    ends: tuple[str, str]
    marks: Array

    @property
    def words(self) -> str:
        rows, columns = self.values.shape
        return f"{self.title}: {rows} x {columns} entries of the Jacobian, colours from {' to '.join(self.ends)}"

    def text(self, row: int, column: int, fits: int) -> str:
        """The mark of a cell, or its number with as many digits as have room; nothing without room."""
        value = self.values[row, column]
        texts = [f"{value + 0.0:.{digits}g}" for digits in (3, 2, 1)]  # Adding 0.0 makes a negative zero positive.
        if self.marks[row, column]:
            texts = [str(self.marks[row, column])]
        elif self.center and self.limit < NEAR and value != self.center:
            texts = [f"{value - self.center:+.1g}"]
        return next((text for text in texts if len(text) <= fits), "")


class Maps(NamedTuple):
    """The heat maps of a finding, the entries that deviate by more than numerics explain, and the entries' names."""

    maps: tuple[Map, Map, Map]
    wrong: Array
    rows: list[str]
    columns: list[str]
    caption: str


@np.errstate(all="ignore")  # Infinite values and NaN are shown as they are.
def heat_maps(evidence: Evidence) -> Maps | None:
    """The heat maps: analytic, numeric, and the first over the second; None where there are no entries."""
    analytic, numeric = (side.double().numpy() for side in (evidence.analytic, evidence.numeric))
    if not numeric.size:
        return None
    noise = _noise(evidence.estimate, numeric)
    unknown = np.isinf(noise)
    numeric = np.where(unknown, np.nan, numeric)
    deviation = np.where(unknown, 0, np.nan_to_num(abs(analytic - numeric), nan=np.inf))
    wrong = (deviation > noise) & (evidence.estimate is not None)
    worst = divmod(int(deviation.argmax()), deviation.shape[1])
    rows, columns = [_around(*pair) for pair in zip(worst, deviation.shape, strict=True)]
    caption = " ".join(_said(wrong, unknown, evidence.estimate, rows, columns))
    names = entry_names(evidence.outputs, len(numeric)), entry_names(evidence.inputs, numeric.shape[1])
    analytic, numeric, noise, wrong = (array[rows, columns] for array in (analytic, numeric, noise, wrong))
    sides = np.concatenate([analytic, numeric])
    limit = float(abs(sides[np.isfinite(sides)]).max(initial=0)) or 1.0
    ends = f"-{brief(limit)}", brief(limit)
    maps = (
        Map("analytic", analytic, 0.0, limit, ends, _marks(analytic)),
        Map("numeric", numeric, 0.0, limit, ends, np.where(np.isinf(noise), "?", _marks(numeric))),
        _ratio(analytic, numeric, noise, wrong),
    )
    return Maps(maps, wrong, names[0][rows], names[1][columns], caption)


def _noise(estimate: Tensor | None, numeric: Array) -> Array:
    """The deviation of each entry that numerics explain; infinite where differences cannot tell."""
    if estimate is None:
        return np.zeros_like(numeric)
    size = float(abs(numeric[np.isfinite(numeric)]).max(initial=0))
    noise: Array = SLACK * estimate.double().numpy() + ROUNDED * size
    return np.where(np.isnan(noise), np.inf, noise)


def _around(place: int, size: int) -> slice:
    """The part of a row or a column that is drawn, with the largest deviation in its middle."""
    start = max(0, min(place - MOST // 2, size - MOST))
    return slice(start, start + MOST)


def _said(wrong: Array, unknown: Array, estimate: Tensor | None, rows: slice, columns: slice) -> Iterator[str]:
    count = int(wrong.sum())
    if count:
        deviate = "entries deviates" if count == 1 else "entries deviate"
        yield f"{count} of {wrong.size} {deviate} by more than numerics explain (framed)."
    elif estimate is not None:
        yield "No entry deviates by more than numerics explain."
    if unknown.any():
        yield f"{unknown.sum()} without a derivative that differences can tell (?)."
    if max(wrong.shape) > MOST:
        part, whole = wrong[rows, columns].shape, wrong.shape
        yield f"Shown are {part[0]} x {part[1]} of {whole[0]} x {whole[1]} entries,"
        yield f"around the largest deviation: rows from {rows.start}, columns from {columns.start}."


def _marks(values: Array) -> Array:
    return np.where(np.isfinite(values), "", values.astype(str))


def _ratio(analytic: Array, numeric: Array, noise: Array, wrong: Array) -> Map:
    """The map of analytic / numeric, around 1; where the numeric entry is zero there is no number, but a mark."""
    zero = abs(numeric) <= noise
    nothing = zero & (abs(analytic) <= noise)
    ratio = np.divide(analytic, numeric, out=np.full_like(numeric, np.nan), where=~zero)
    known = np.isfinite(ratio)
    telling = ratio[known & wrong] if (known & wrong).any() else ratio[known]
    limit = min(float(abs(telling - 1).max(initial=0)) or 1.0, FARTHEST)
    ends = (shown(1 - limit, 3), shown(1 + limit, 3)) if limit >= NEAR else (f"1 - {limit:.2g}", f"1 + {limit:.2g}")
    marks = np.select([nothing, zero, np.isinf(noise)], ["0/0", "x/0", "?"], _marks(ratio))
    ratio = np.where(zero, np.where(nothing, 1.0, 1 + limit * np.sign(analytic)), ratio)
    return Map("ratio", ratio, 1.0, limit, ends, marks)


def entry_names(blocks: Sequence[tuple[str, tuple[int, ...]]], count: int) -> list[str]:
    """A name for each of the `count` rows or columns of a Jacobian, such as ``x[0, 2]``; its number if unknown."""
    names = [f"{name}{list(index) or ''}" for name, shape in blocks for index in np.ndindex(*shape)]
    return names if len(names) == count else [str(index) for index in range(count)]


class Trace(NamedTuple):
    """The ladder as distances from the estimate that was used, on an axis that is linear up to `linear`."""

    steps: tuple[float, ...]
    offsets: list[float]
    bars: list[float]
    chosen: int
    along: float | None
    linear: float
    reach: float
    caption: str


def trace(evidence: Evidence) -> Trace | None:
    """The ladder as it is drawn; None where there is none. Steps without an estimate have offsets that are nan."""
    chosen, along = evidence.chosen, evidence.along
    if chosen is None or not math.isfinite(evidence.ladder[chosen]):
        return None
    bars = [bar if bar >= 0 else math.inf for bar in evidence.bars]
    step, reference, bar = evidence.steps[chosen], evidence.ladder[chosen], bars[chosen]
    offsets = [value - reference for value in evidence.ladder]
    distance = None if along is None or not math.isfinite(along) else along - reference
    sizes = [abs(offset) for offset in (*offsets, distance or 0.0) if offset and math.isfinite(offset)]
    floor = torch.finfo(torch.float64).eps * max(abs(reference), 1e-270)  # Matplotlib cannot divide by less.
    linear = max(bar if math.isfinite(bar) else min(sizes, default=floor), floor)
    under, by = apart(along, reference) if along is not None else ("", shown(reference, 7))
    error = f" (error at most about {brief(bar)})" if math.isfinite(bar) else ""
    said = f"; the derivative under test gives {under}" if along is not None else ""
    caption = f"Along one direction, differences with the step {step_name(step)} give {by}{error}{said}."
    return Trace(evidence.steps, offsets, bars, chosen, distance, linear, 2 * max([*sizes, linear]), caption)


def step_name(step: float) -> str:
    """A step as a power of two, if it is one."""
    mantissa, exponent = math.frexp(step)
    return f"2{str(exponent - 1).translate(SUPERSCRIPTS)}" if mantissa == 0.5 else brief(step)


# -- with matplotlib --------------------------------------------------------------------------------------------------


class Picture(NamedTuple):
    """A picture to be drawn, its size in inches, and its description in words."""

    draw: Callable[[Axes], None]
    width: float
    height: float
    words: str


def _pictures(evidence: Evidence) -> Iterator[tuple[str, list[Picture]]]:
    """The caption and the pictures of the heat maps, then of the ladder."""
    maps, steps = heat_maps(evidence), trace(evidence)
    if maps is not None:
        size = min(2.3 + 0.25 * len(maps.columns), 3.3), 1.3 + min(max(0.28 * len(maps.rows), 0.4), 2.6)
        yield maps.caption, [Picture(partial(_draw_map, map, maps), *size, map.words) for map in maps.maps]
    if steps is not None:
        words = "distance from the numeric derivative, for each step of the differences"
        yield steps.caption, [Picture(partial(_draw_ladder, steps), 4.1, 2.9, words)]


def figure(evidence: Evidence, heading: Sequence[str]) -> Figure | None:
    """All pictures in one figure, below the lines of a heading; None where there is nothing to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    pictures = list(_pictures(evidence))
    if not pictures:
        return None
    heights = [row[0].height + 0.4 for _, row in pictures]
    with _style():
        whole = _figure(10.0, 0.6 + sum(heights))
        whole.suptitle("\n".join(_literal(line) for line in heading), fontsize=12)
        parts = whole.subfigures(len(pictures), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, (caption, row) in zip(parts, pictures, strict=True):
            part.supxlabel(_literal(caption), fontsize=9, color=SOFT)
            for picture, axes in zip(row, part.subplots(1, len(row), squeeze=False)[0], strict=True):
                picture.draw(axes)
        whole.draw_without_rendering()  # Makes the ticks in this style: a later draw has another one.
    whole._repr_png_ = partial(_rendered, whole, "png")  # type: ignore[attr-defined] # Notebooks without pyplot ask for it.
    return whole


def illustrations(evidence: Evidence) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The captions, each with pictures as words and as the address of an image; no pictures without matplotlib."""
    for caption, row in _pictures(evidence):
        yield caption, [(picture.words, _address(picture)) for picture in row] if has_matplotlib() else []


def has_matplotlib() -> bool:
    """Return True if pictures can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def _address(picture: Picture) -> str:
    with _style():
        whole = _figure(picture.width, picture.height)
        whole.set_facecolor("none")
        picture.draw(whole.subplots())
    return f"data:image/svg+xml;base64,{base64.b64encode(_rendered(whole, 'svg')).decode()}"


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _rendered(whole: Figure, format: str) -> bytes:
    file = io.BytesIO()
    with _style():
        whole.savefig(file, format=format, metadata={"Date": None, "Creator": None} if format == "svg" else None)
    return file.getvalue()


@contextlib.contextmanager
def _style() -> Iterator[None]:
    """One look, whatever the user's settings; equal numbers give equal bytes."""
    try:
        from matplotlib import style
    except ModuleNotFoundError as error:
        error.add_note(f"Finding.plot() needs matplotlib: {INSTALL}")
        raise
    with style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")  # The font lacks letters of some names.
        yield


def _literal(text: str) -> str:
    """The text in lines of some width, as it stands: a dollar sign begins no formula."""
    return typeset(printable(textwrap.fill(text, 110))).replace("$", r"\$")


def _draw_map(map: Map, maps: Maps, axes: Axes) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import CenteredNorm
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    colors, norm = colormaps[COLORS].with_extremes(bad=VOID), CenteredNorm(map.center, map.limit)
    image = axes.imshow(np.ma.masked_invalid(map.values), colors, norm, aspect="auto", interpolation="none")
    axes.set(title=map.title, xlabel="inputs", ylabel="outputs")
    _name_ticks(axes, maps)
    beyond = "both" if (abs(map.values - map.center) > map.limit * (1 + 1e-9)).any() else "neither"
    ticks = [map.center - map.limit, map.center, map.center + map.limit]
    bar = axes.figure.colorbar(image, ax=axes, orientation="horizontal", ticks=ticks, extend=beyond, aspect=25)
    bar.set_ticklabels([typeset(text) for text in (map.ends[0], shown(map.center), map.ends[1])])
    if len(maps.columns) <= WIDE and len(maps.rows) <= 2 * WIDE:
        for row, column in np.ndindex(map.values.shape):
            *rgb, _ = image.to_rgba(map.values[row, column])
            ink = "black" if np.dot(rgb, (0.299, 0.587, 0.114)) > 0.5 else "white"
            faint = 0.4 if map.marks[row, column] == "0/0" else 1.0
            text = typeset(map.text(row, column, 34 // len(maps.columns)))
            axes.text(column, row, text, ha="center", va="center", fontsize=7, color=ink, alpha=faint)
    width = 1.6 if len(maps.columns) <= WIDE else 0.8
    halo = withStroke(linewidth=2 * width, foreground="white")
    for row, column in np.argwhere(maps.wrong) if map is maps.maps[2] else ():
        corner = column - 0.5, row - 0.5
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, linewidth=width, path_effects=[halo]))


def _name_ticks(axes: Axes, maps: Maps) -> None:
    for names, set_ticks in ((maps.rows, axes.set_yticks), (maps.columns, axes.set_xticks)):
        places = range(0, len(names), math.ceil(len(names) / WIDE))
        short = [names[place] for place in places]
        short = [name if len(name) <= LONGEST else f"\N{HORIZONTAL ELLIPSIS}{name[1 - LONGEST :]}" for name in short]
        upright = names is maps.columns and len(short) * max(map(len, short)) > BESIDE
        set_ticks(places, [_literal(name) for name in short], rotation=90 if upright else 0)


def _draw_ladder(steps: Trace, axes: Axes) -> None:
    """Draw distances from the estimate that was used; error bars end at the axis where they are infinite."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("asinh", linear_width=steps.linear)
    axes.set_ylim(-steps.reach, steps.reach)
    axes.axhline(0, color=SOFT, linewidth=0.8)
    bars = [min(bar, 3 * steps.reach) for bar in steps.bars]
    label = "estimate and error"
    axes.errorbar(steps.steps, steps.offsets, bars, fmt="o", ms=4, capsize=3, lw=1, color=POINT, label=label)
    place = steps.steps[steps.chosen], steps.offsets[steps.chosen]
    axes.plot(*place, "o", markersize=10, fillstyle="none", color="black", label="step used", zorder=4)
    if steps.along is not None:
        axes.axhline(steps.along, color=UNDER, linestyle="--", label="under test")
    axes.set_yticks(_distances(steps))  # Matplotlib's own are uneven, and overflow for the largest numbers.
    axes.minorticks_off()
    axes.invert_xaxis()
    axes.set(xlabel="step of the differences", ylabel="distance from the\nnumeric derivative")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)


def _distances(steps: Trace) -> list[float]:
    """0 and some powers of ten, whose labels keep clear of that of 0."""
    lowest, highest = math.ceil(math.log10(steps.linear)), math.floor(math.log10(steps.reach))
    powers = [10.0**k for k in range(highest, lowest - 1, -max(1, math.ceil((highest - lowest + 1) / 4)))]
    clear = 0.16 * math.asinh(steps.reach / steps.linear)
    powers = [power for power in powers if math.asinh(power / steps.linear) >= clear]
    return [0.0, *powers, *(-power for power in powers)]
