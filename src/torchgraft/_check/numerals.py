"""Numbers as reports show them, and text that is safe to show."""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor

FEW = 8  # so many numbers are shown one by one


def brief(value: float | complex) -> str:
    """A size, such as an error: two digits."""
    return f"{value:.2g}"


def shown(value: Any, digits: int = 5) -> str:
    """A number, a few numbers, or what a larger tensor is."""
    if isinstance(value, bool) or not isinstance(value, float | complex | int | Tensor):
        return str(value)
    if not isinstance(value, Tensor):
        return f"{value:.{digits}g}"
    value = value.detach().to_dense()
    if value.numel() <= FEW:
        return _nested(value.tolist(), digits)
    kind = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if not (value.is_floating_point() or value.is_complex()):
        return kind
    return f"{kind} with entries up to {brief(value.abs().max().item())}"


def _nested(value: Any, digits: int) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_nested(v, digits) for v in value)}]"
    return shown(value, digits)


def apart(first: Any, second: Any) -> tuple[str, str]:
    """Two values with as many digits as it takes to see that they differ, and one more.

    >>> apart(0.16666667163372, 1 / 6)
    ('0.1666666716', '0.1666666667')
    """
    enough = next((min(k + 1, 17) for k in range(4, 18) if shown(first, k) != shown(second, k)), 5)
    return shown(first, enough), shown(second, enough)


def typeset(text: str) -> str:
    """Prose with true minus signs before numbers and in their exponents, where no line breaks."""
    return re.sub(r"(?<![\w\])])-(?=[\d.]|inf)|(?<=\de)-(?=\d)|^-$", "\N{MINUS SIGN}", text)


def printable(text: str) -> str:
    """The text without what would move a terminal's cursor or break a page: control characters are spelled out."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text.replace("\r\n", "\n"))
