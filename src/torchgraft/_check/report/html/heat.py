"""Heat maps of a Jacobian, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...colors import LEVELS, level
from ...numerals import shown, typeset
from ..picture import Cell, Map, Maps
from .markup import Markup, markup, tag

WIDTH = 320
TALLEST = 300  # the cells together
WIDEST = 56  # a cell
LETTER = 6.1  # the width of a character of the labels
TIPS = 256  # so many cells have a tip each
SMALL = 14  # a cell whose frame is drawn around it, not in it,
FEW = 6  # as long as there are few
LONGEST = 12  # characters of a label


def heat_maps(maps: Maps) -> Markup:
    """The three maps, each a figure, side by side where there is room."""
    figures = (tag("figure", tag("figcaption", tag("b", map.title)), _picture(map, maps)) for map in maps.maps)
    caption = tag("p", typeset(maps.caption), class_="caption") if maps.caption else None
    return tag("div", tag("div", figures, class_="maps"), caption, class_="picture")


class _Grid:
    """Where the cells are: their size, and the margins that the labels need."""

    def __init__(self, maps: Maps) -> None:
        self.rows = [_short(name) for name in maps.rows]
        self.columns = [_short(name) for name in maps.columns]
        self.left = 20 + LETTER * max(map(len, self.rows))
        self.top = 4.0
        self.width = min((WIDTH - self.left - 4) / len(self.columns), WIDEST)
        self.height = min(self.width, TALLEST / len(self.rows), 36.0)
        if len(self.rows) < 4:
            self.height = max(self.height, min(20.0, TALLEST / len(self.rows)))
        self.right = self.left + self.width * len(self.columns)
        self.bottom = self.top + self.height * len(self.rows)

    def place(self, row: int, column: int) -> tuple[float, float]:
        """The upper left corner of a cell."""
        return self.left + column * self.width, self.top + row * self.height


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else "\N{HORIZONTAL ELLIPSIS}" + name[1 - LONGEST :]


def _picture(map: Map, maps: Maps) -> Markup:
    grid = _Grid(maps)
    size = (len(maps.rows), len(maps.columns))
    return tag(
        "svg", tag("title", f"{map.title}: {size[0]} x {size[1]} entries of the Jacobian, colours from {map.ends[0]} "
                   f"to {map.ends[1]}"),
        _cells(map, maps, grid), _outlines(map, maps, grid), _labels(grid), _scale(map, grid),
        viewBox=f"0 0 {WIDTH} {math.ceil(grid.bottom + 68)}", role="img",
    )  # fmt: skip


def _cells(map: Map, maps: Maps, grid: _Grid) -> Iterator[Markup]:
    gap = 1.0 if grid.width > SMALL else 0.0
    tips = len(maps.rows) * len(maps.columns) <= TIPS
    for row, values in enumerate(map.values):
        for column, value in enumerate(values):
            x, y = grid.place(row, column)
            tip = tag("title", _tip(map, maps, row, column)) if tips else None
            box = tag("rect", x=x, y=y, width=grid.width - gap, height=grid.height - gap)
            number = _number(map, (row, column), grid, x + (grid.width - gap) / 2, y + grid.height / 2 + 3.5)
            yield tag("g", tip, box, number, class_=_class(map, value))


def _tip(map: Map, maps: Maps, row: int, column: int) -> str:
    value = map.marks.get((row, column)) or shown(map.values[row][column], 10)
    return f"{maps.rows[row]}, {maps.columns[column]}: {value}"


def _class(map: Map, value: float) -> str:
    return f"c{level(value - map.center, map.limit)}" if math.isfinite(value) else "void"


def _number(map: Map, cell: Cell, grid: _Grid, x: float, y: float) -> Markup | None:
    """What is written into a cell, if it fits."""
    text = map.text(cell, int((grid.width - 2) / LETTER)) if grid.height >= 13 else None
    nothing = "nothing" if map.marks.get(cell) == "0/0" else None
    return tag("text", typeset(text), x=x, y=y, class_=nothing) if text else None


def _outlines(map: Map, maps: Maps, grid: _Grid) -> Iterator[Markup]:
    """A frame around each cell that is wrong, in the map of ratios."""
    if map is not maps.maps[2]:
        return
    for row, column in sorted(maps.wrong):
        x, y = grid.place(row, column)
        if grid.width < SMALL and len(maps.wrong) > FEW:
            yield _frame(x, y, grid.width, grid.height, "wrong thin")
        elif grid.width < SMALL:
            yield _frame(x - 2, y - 2, grid.width + 4, grid.height + 4, "wrong")
        else:
            yield _frame(x + 1.5, y + 1.5, grid.width - 4, grid.height - 4, "halo")
            yield _frame(x, y, grid.width - 1, grid.height - 1, "wrong")


def _frame(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    return tag("rect", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=kind)


def _labels(grid: _Grid) -> Iterator[Markup]:
    step = math.ceil(15 / grid.height) if grid.height < 12 else 1
    for row in range(0, len(grid.rows), step):
        y = grid.place(row, 0)[1] + grid.height / 2 + 3.5
        yield tag("text", grid.rows[row], x=grid.left - 5, y=y, class_="label end")
    step = math.ceil((LETTER * max(map(len, grid.columns)) + 6) / grid.width)
    for column in range(0, len(grid.columns), step):
        x = grid.place(0, column)[0] + grid.width / 2
        if x + LETTER * len(grid.columns[column]) / 2 <= WIDTH or column == 0:
            yield tag("text", grid.columns[column], x=x, y=grid.bottom + 13, class_="label")
    middle = (grid.top + grid.bottom) / 2
    yield tag("text", "outputs", x=10, y=middle, transform=f"rotate(-90 10 {middle:.1f})", class_="label title")
    yield tag("text", "inputs", x=(grid.left + grid.right) / 2, y=grid.bottom + 28, class_="label title")


def _scale(map: Map, grid: _Grid) -> Markup:
    """The colours, with the values at both ends and in the middle."""
    x, y, width, height = 60.0, grid.bottom + 40, 200.0, 8.0
    part = width / (2 * LEVELS + 1)
    boxes = (
        tag("g", tag("rect", x=x + k * part, y=y, width=part + 0.3, height=height), class_=f"c{k - LEVELS}")
        for k in range(2 * LEVELS + 1)
    )
    texts = (
        tag("text", typeset(text), x=x + width * place, y=y + height + 13, class_="label")
        for text, place in ((map.ends[0], 0.0), (shown(map.center), 0.5), (map.ends[1], 1.0))
    )
    return markup(boxes, texts)
