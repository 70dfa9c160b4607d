"""The report of a check as users have it: the data, and its renderings."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..._errors import CheckError
from .export import dumps, html_page
from .result import Outcome
from .text import layout, painted, plain, rich_text

if TYPE_CHECKING:
    from rich.text import Text


@dataclass
class Report(Outcome):
    """The report of `check`: its verdict, and its findings.

    ``print(report)`` shows it, in colour on a terminal where rich is installed.

    Attributes:
        target: its name.
        kind: what it is: an operator, a function...
        results: one for each check and case.
        seed: of what was drawn.
        declared: what qualifies the verdict, such as ``"to 1e-08"``; the headline shows it.

    Example:
        >>> report = tg.check(Sin.apply, torch.randn(4, dtype=torch.float64))
        >>> report.ok
        False
        >>> report.to_html("sin.html")
        PosixPath('sin.html')
    """

    def __bool__(self) -> bool:
        """Return `ok`, so that ``assert tg.check(f)`` asks for a proof."""
        return self.ok

    def raise_if_failed(self) -> None:
        """Raise unless `ok`: where nothing could be told, nothing has passed.

        Raises:
            CheckError: the text is the report's; ``error.report`` is the report.
        """
        if not self.ok:
            raise CheckError(self.to_text(), report=self)

    def to_text(self, width: int = 100) -> str:
        """The report as plain text: the headline, the checks that did not pass, and the findings."""
        return plain(layout(self, width))

    def __str__(self) -> str:
        if not sys.stdout.isatty():
            return self.to_text()
        return painted(layout(self, min(shutil.get_terminal_size().columns, 100)))

    def __rich__(self) -> Text:
        return rich_text(layout(self))

    def to_json(self) -> str:
        """The whole report as JSON: every result, every finding with its numbers.

        Keys keep their names and order, new ones may be added; ``format`` counts changes that break readers. Of two
        runs with one seed only ``seconds`` differ. Numbers that JSON lacks are strings: ``"nan"``, ``"inf"``; a
        complex number is ``{"real": ..., "imag": ...}``, a tensor ``{"dtype": ..., "shape": ..., "values": ...}``.
        """
        return dumps(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as one HTML file that needs nothing else, and return its path.

        The folder is made where it does not exist. Pictures need matplotlib: ``pip install 'torchgraft[report]'``.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html_page([self]), encoding="utf-8")
        return path
