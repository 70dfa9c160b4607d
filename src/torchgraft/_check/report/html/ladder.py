"""The ladder of steps, as SVG: where the differences settle, and where the derivative under test is."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...numerals import power, typeset
from ..trace import Trace, step_name
from .markup import Markup, tag

WIDTH, HEIGHT = 360, 250
LEFT, RIGHT, TOP, BOTTOM = 56, 350, 10, 206


def ladder(trace: Trace) -> Markup:
    """The figure: legend, picture and numbers."""
    picture = tag(
        "svg", tag("title", "Estimates of the derivative for each step"), _grid(trace), _steps(trace), _under(trace),
        _points(trace), viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img",
    )  # fmt: skip
    keys = [("point", "estimate and its error"), ("chosen", "step that was used"), ("under", "derivative under test")]
    keys = keys if trace.along is not None else keys[:2]
    legend = tag("ul", (tag("li", _key(kind), text) for kind, text in keys), class_="legend")
    heading = tag("figcaption", tag("b", "distance from the numeric derivative, for each step"))
    beside = tag("div", legend, tag("p", typeset(trace.caption), class_="caption"))
    return tag("figure", heading, picture, beside, class_="ladder")


def _x(trace: Trace, place: int) -> float:
    first, last = math.log2(trace.steps[0]), math.log2(trace.steps[-1])
    part = (math.log2(trace.steps[place]) - first) / (last - first) if last != first else 0.5
    return LEFT + 12 + part * (RIGHT - LEFT - 24)


def _y(trace: Trace, offset: float) -> float:
    return (TOP + BOTTOM) / 2 - trace.height(offset) * (BOTTOM - TOP) / 2


def _grid(trace: Trace) -> Iterator[Markup]:
    zero = _y(trace, 0)
    yield tag("line", x1=LEFT, x2=RIGHT, y1=zero, y2=zero, class_="zero")
    yield tag("text", "0", x=LEFT - 6, y=zero + 4, class_="label end")
    for exponent in trace.exponents():
        for sign in (1, -1):
            y = _y(trace, sign * 10.0**exponent)
            text = typeset("-" if sign < 0 else "") + power(10, exponent)
            yield tag("line", x1=LEFT, x2=RIGHT, y1=y, y2=y, class_="grid")
            yield tag("text", text, x=LEFT - 6, y=y + 4, class_="label end")


def _steps(trace: Trace) -> Iterator[Markup]:
    stride = math.ceil(len(trace.steps) / 6)
    for place in range(0, len(trace.steps), stride):
        yield tag("text", step_name(trace.steps[place]), x=_x(trace, place), y=BOTTOM + 18, class_="label")
    yield tag("text", "step of the differences", x=(LEFT + RIGHT) / 2, y=BOTTOM + 36, class_="label title")
    middle = (TOP + BOTTOM) / 2
    yield tag("text", "distance", x=10, y=middle, transform=f"rotate(-90 10 {middle})", class_="label title")


def _under(trace: Trace) -> Markup | None:
    if trace.along is None:
        return None
    y = _y(trace, trace.along)
    return tag("line", x1=LEFT, x2=RIGHT, y1=y, y2=y, class_="under")


def _points(trace: Trace) -> Iterator[Markup]:
    for place, (offset, bar) in enumerate(zip(trace.offsets, trace.bars, strict=True)):
        x = _x(trace, place)
        high, low = _y(trace, offset + bar), _y(trace, offset - bar)
        yield tag("path", d=f"M{x - 3:.1f} {high:.1f}h6m-3 0V{low:.1f}m-3 0h6", class_="bar")
        if place == trace.chosen:
            yield tag("circle", cx=x, cy=_y(trace, offset), r=7, class_="chosen")
        yield tag("circle", cx=x, cy=_y(trace, offset), r=3, class_="point")


def _key(kind: str) -> Markup:
    """A small picture for the legend."""
    shapes = {
        "point": [tag("path", d="M5 2h6m-3 0V14m-3 0h6", class_="bar"), tag("circle", cx=8, cy=8, r=3, class_="point")],
        "chosen": [tag("circle", cx=8, cy=8, r=6, class_="chosen"), tag("circle", cx=8, cy=8, r=2.5, class_="point")],
        "under": [tag("line", x1=0, x2=16, y1=8, y2=8, class_="under")],
    }
    return tag("svg", shapes[kind], viewBox="0 0 16 16", aria_hidden="true")
