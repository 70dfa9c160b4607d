"""The numbers behind a finding, numbers as reports show them, and text that is safe to show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

FEW = 8  # At most so many numbers are shown one by one.


@dataclass(frozen=True)
class Evidence:
    """The numbers behind a finding, of the smallest case that shows it.

    All are real: a complex number is two, its real part and its imaginary part.

    Attributes:
        analytic: the Jacobian that the derivative under test gives, ``(outputs, inputs)``, flattened.
        numeric: the Jacobian by differences of the function.
        estimate: the estimated error of each entry of `numeric`; infinite where differences cannot tell.
        steps: of the difference ladder along the direction that shows the error most.
        ladder: the estimate of the directional derivative at each step.
        bars: its estimated error at each step.
        chosen: the place in `steps` of the step that was used; None where there is no ladder.
        along: what the derivative under test gives along that direction.
        outputs: name and shape of each output, in the order of the rows; empty where they are not known.
        inputs: name and shape of each primal, in the order of the columns.
    """

    analytic: Tensor
    numeric: Tensor
    estimate: Tensor | None = None
    steps: tuple[float, ...] = ()
    ladder: tuple[float, ...] = ()
    bars: tuple[float, ...] = ()
    chosen: int | None = None
    along: float | None = None
    outputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    inputs: tuple[tuple[str, tuple[int, ...]], ...] = ()


def brief(value: float | complex) -> str:
    """A size, such as an error: two digits."""
    return f"{value:.2g}"


def shown(value: Any, digits: int = 5) -> str:
    """A number, a few numbers, or what a larger tensor is."""
    if isinstance(value, Tensor):
        value = value.detach().to_dense()
        if value.numel() <= FEW:
            return shown(value.tolist(), digits)
        numbers = value.is_floating_point() or value.is_complex()
        entries = f" with entries up to {brief(value.abs().max().item())}" if numbers else ""
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{entries}"
    if isinstance(value, list):
        return f"[{', '.join(shown(item, digits) for item in value)}]"
    number = isinstance(value, float | complex | int) and not isinstance(value, bool)
    return f"{value:.{digits}g}" if number else str(value)


def apart(first: Any, second: Any) -> tuple[str, str]:
    """Two values with as many digits as it takes to see that they differ, and one more.

    >>> apart(0.16666667163372, 1 / 6)
    ('0.1666666716', '0.1666666667')
    """
    differ = [k for k in range(4, 18) if shown(first, k) != shown(second, k)]
    # What is rounded up and down may be the same again with the next digit.
    enough = next((k + 1 for k in differ if k + 1 in differ), 17 if differ else 5)
    return shown(first, enough), shown(second, enough)


def listed(names: Sequence[str]) -> str:
    """Names in words, of many the first three.

    >>> listed(["w", "x", "y", "z", "bias"])
    'w, x, y and 2 more'
    """
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def typeset(text: str) -> str:
    """Prose with true minus signs before numbers and in their exponents, where no line breaks."""
    return re.sub(r"(?<![\w\])])-(?=[\d.]|inf)|(?<=\de)-(?=\d)|^-$", "\N{MINUS SIGN}", text)


def printable(text: str) -> str:
    """The text without what would move a terminal's cursor or break a page: control characters are spelled out."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text.replace("\r\n", "\n"))
