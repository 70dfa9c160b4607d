"""The colours of pictures: blue below zero, orange above, which people with any kind of colour vision tell apart.

Colours are mixed in Oklab (B. Ottosson, "A perceptual color space for image processing", 2020), where equal steps look
equal; there are two scales, which end light on a dark page and dark on a light one.
"""

from __future__ import annotations

from typing import NamedTuple

LEVELS = 15
"""Steps on each side of zero."""

Triple = tuple[float, float, float]


class Theme(NamedTuple):
    """The anchors of a scale, from zero outwards."""

    zero: str
    below: tuple[str, ...]
    above: tuple[str, ...]


LIGHT = Theme("#f3f1ec", ("#b4cfe8", "#4f8fcb", "#134b86"), ("#f6cfa6", "#dd8438", "#8f3f08"))
DARK = Theme("#2b2f36", ("#2f567f", "#5c9ede", "#c3e1ff"), ("#7d4a20", "#e4924a", "#ffdcb4"))


def level(value: float, limit: float) -> int:
    """The step of a colour scale, from -`LEVELS` to `LEVELS`, that ends at `limit` on both sides."""
    part = max(-1.0, min(1.0, value / limit)) if limit else 0.0
    return round(part * LEVELS)


def scale(theme: Theme) -> dict[int, str]:
    """The colour of each step."""
    colors = {0: theme.zero}
    for sign, anchors in ((-1, theme.below), (1, theme.above)):
        stops = [oklab(color) for color in (theme.zero, *anchors)]
        for step in range(1, LEVELS + 1):
            place, rest = divmod(step * (len(stops) - 1) / LEVELS, 1)
            first, second = stops[int(place)], stops[min(int(place) + 1, len(stops) - 1)]
            a, b, c = (x + rest * (y - x) for x, y in zip(first, second, strict=True))
            colors[sign * step] = hexadecimal((a, b, c))
    return dict(sorted(colors.items()))


def ink(color: str) -> str:
    """Black or white, whichever is read better on a colour: their contrast to it is never below 4.5."""
    return max("#000000", "#ffffff", key=lambda text: contrast(text, color))


def contrast(first: str, second: str) -> float:
    """The contrast of two colours, from 1 to 21 (WCAG 2.2, "contrast ratio")."""
    dark, light = sorted(luminance(color) for color in (first, second))
    return (light + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    """The relative luminance of a colour (WCAG 2.2)."""
    red, green, blue = linear(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def linear(color: str) -> Triple:
    """Red, green and blue as light: sRGB without its gamma (IEC 61966-2-1)."""
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return _light(red), _light(green), _light(blue)


def _light(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)


def oklab(color: str) -> Triple:
    """A colour's lightness and its place between green and red, blue and yellow."""
    r, g, b = linear(color)
    x = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    y = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    z = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * x + 0.7936177850 * y - 0.0040720468 * z,
        1.9779984951 * x - 2.4285922050 * y + 0.4505937099 * z,
        0.0259040371 * x + 0.7827717662 * y - 0.8086757660 * z,
    )


def hexadecimal(color: Triple) -> str:
    """A colour of Oklab as ``#rrggbb``; what the screen cannot show is cut off."""
    lightness, a, b = color
    x = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    y = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    z = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    channels = (
        4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z,
        -1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z,
        -0.0041960863 * x - 0.7034186147 * y + 1.7076147010 * z,
    )
    return "#" + "".join(f"{round(255 * _coded(min(1.0, max(0.0, c)))):02x}" for c in channels)


def _coded(channel: float) -> float:
    return 12.92 * channel if channel <= 0.0031308 else 1.055 * channel ** (1 / 2.4) - 0.055
