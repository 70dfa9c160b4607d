"""Numbers as reports show them, and text that is safe to show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

FEW = 8  # so many numbers are shown one by one
SUPERSCRIPTS = str.maketrans("-0123456789", "\N{SUPERSCRIPT MINUS}⁰¹²³⁴⁵⁶⁷⁸⁹")


def brief(value: float | complex) -> str:
    """A size, such as an error: two digits."""
    return f"{value:.2g}"


def shown(value: Any, digits: int = 5) -> str:
    """A number, a few numbers, or what a larger tensor is."""
    if isinstance(value, bool) or not isinstance(value, float | complex | int | Tensor):
        return str(value)
    if not isinstance(value, Tensor):
        return f"{value:.{digits}g}"
    value = value.detach()
    if value.layout != torch.strided:
        value = value.to_dense()
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
    for digits in range(4, 18):
        if shown(first, digits) != shown(second, digits):
            enough = min(digits + 1, 17)
            return shown(first, enough), shown(second, enough)
    return shown(first), shown(second)


def worst_entry(first: Any, second: Any) -> tuple[int, ...] | None:
    """Where two large tensors of one shape differ most; None for anything else."""
    if not (isinstance(first, Tensor) and isinstance(second, Tensor)):
        return None
    if first.shape != second.shape or first.numel() <= FEW or first.layout != second.layout != torch.strided:
        return None
    deviation = (first.detach() - second.detach()).abs().nan_to_num(nan=torch.inf)
    return tuple(int(place) for place in torch.unravel_index(deviation.argmax(), deviation.shape))


def power(base: int, exponent: int) -> str:
    """A power as it is printed: ``2⁻⁷``."""
    return f"{base}{str(exponent).translate(SUPERSCRIPTS)}"


def typeset(text: str) -> str:
    """Prose with true minus signs before numbers and in their exponents, where no line breaks."""
    return re.sub(r"(?<![\w\])])-(?=[\d.]|inf)|(?<=\de)-(?=\d)|^-$", "\N{MINUS SIGN}", text)


def printable(text: str) -> str:
    """The text without what would move a terminal's cursor or break a page: control characters are spelled out."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text.replace("\r\n", "\n"))


def subscripts(blocks: Sequence[tuple[str, tuple[int, ...]]], count: int) -> list[str]:
    """A name for each row or column of a Jacobian: ``x[0, 2]``.

    Args:
        blocks: name and shape of each tensor, in order.
        count: of the rows; where it is twice the number of entries, each is a real and an imaginary part.
    """
    names = [name + _subscript(index, shape) for name, shape in blocks for index in range(_size(shape))]
    if 2 * len(names) == count:
        names = [f"{name}.{part}" for name in names for part in ("real", "imag")]
    return names if len(names) == count else [str(index) for index in range(count)]


def _size(shape: Sequence[int]) -> int:
    return torch.Size(shape).numel()


def _subscript(index: int, shape: Sequence[int]) -> str:
    places = []
    for size in reversed(shape):
        index, place = divmod(index, size)
        places.append(str(place))
    return f"[{', '.join(reversed(places))}]" if places else ""
