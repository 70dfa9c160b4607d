"""HTML and SVG from Python calls, in which all text is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from ...numerals import printable

EMPTY = frozenset({"meta", "rect", "line", "path", "circle", "br"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Content = str | Iterable[str] | None


def tag(name: str, /, *children: Content, **attributes: str | float | None) -> Markup:
    """An element.

    Args:
        name: of the element.
        children: text, which is escaped, or markup, or several of them; None is left out.
        attributes: their names without a trailing underscore, with hyphens for underscores; None is left out.

    >>> tag("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    pairs = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    opening = "".join(f' {key}="{html.escape(_text(value))}"' for key, value in pairs)
    if name in EMPTY and not children:
        return Markup(f"<{name}{opening}>" if name in ("meta", "br") else f"<{name}{opening}/>")
    return Markup(f"<{name}{opening}>{markup(*children)}</{name}>")


def markup(*children: Content) -> Markup:
    """Several pieces as one."""
    return Markup("".join(_pieces(children)))


def prose(text: str) -> Markup:
    """Text in which names between backticks are code."""
    parts = re.split(r"`([^`\n]+)`", text)
    return markup(tag("code", part) if place % 2 else part for place, part in enumerate(parts))


def _pieces(children: Iterable[Content]) -> Iterable[str]:
    for child in children:
        if isinstance(child, Markup):
            yield child
        elif isinstance(child, str):
            yield html.escape(printable(child))
        elif child is not None:
            yield from _pieces(child)


def _text(value: str | float) -> str:
    """An attribute's text; coordinates to a hundredth."""
    return printable(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
