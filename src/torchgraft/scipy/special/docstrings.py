"""Docstrings of the functions, made of what the rows say, and what many of them say alike."""

import re
import textwrap
from collections.abc import Mapping

WIDTH = 116
"""Columns of a docstring without its indentation."""

SHAPE = "In the shape to which the arguments broadcast"
NAN = "NaN outside of the domain, as in SciPy."
BROADCAST = f"{SHAPE}; {NAN}"
LEVEL = f"Values between 0 and 1, in the shape to which the arguments broadcast; {NAN}"

_RELATION = re.compile(" ([<>=]) ")


def docstring(summary: str, arguments: Mapping[str, str], returns: str, raises: str, example: tuple[str, str]) -> str:
    """Make the docstring of a function, in Google's style.

    Args:
        summary: its first paragraphs.
        arguments: their texts by their names.
        returns: as it stands there.
        raises: derivatives that are refused; an empty text for none.
        example: a call, and what it prints.
    """
    shown = f">>> {example[0]}\n{example[1]}"
    parts = [
        *map(_wrapped, summary.split("\n\n")),
        "\n".join(["Args:", *(_wrapped(f"{name}: {text}", 4, 8) for name, text in arguments.items())]),
        f"Returns:\n{_wrapped(returns, 4, 4)}",
        *([f"Raises:\n{_wrapped(f'DerivativeError: {raises} is asked for.', 4, 8)}"] if raises else []),
        f"Example:\n{textwrap.indent(shown, ' ' * 4)}",
    ]
    return "\n\n".join(parts)


def _wrapped(text: str, first: int = 0, further: int = 0) -> str:
    """A text in lines, indented by so many columns; relations such as ``x < 1`` stay together."""
    if first + len(text) <= WIDTH:  # Most are short, and `textwrap` is slow.
        return " " * first + text
    glued = _RELATION.sub("\0\\1\0", text)
    lines = textwrap.fill(glued, WIDTH, initial_indent=" " * first, subsequent_indent=" " * further)
    return lines.replace("\0", " ")
