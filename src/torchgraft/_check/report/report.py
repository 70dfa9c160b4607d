"""The report of a check: what was tried, what was found, and the verdict."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..._errors import CheckError
from ..finding import Finding, Verdict
from .summary import worst

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(frozen=True)
class Result:
    """How one check ended on one case.

    Attributes:
        check: its name, such as ``"gradient"``.
        title: what holds where it passes.
        verdict: how it ended.
        case: the arguments, in words.
        note: why it was skipped, or could not tell.
        findings: what it found.
        seconds: that it took.
    """

    check: str
    title: str
    verdict: Verdict
    case: str = ""
    note: str = ""
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0


@dataclass
class Report:
    """What `check` found.

    ``print(report)`` shows it, in colour on a terminal where rich is installed.

    Attributes:
        target: its name.
        kind: what it is: an operator, a function...
        results: one for each check and case.
        seed: of what was drawn.

    Example:
        >>> report = tg.check(Sin.apply, torch.randn(4, dtype=torch.float64))
        >>> report.ok
        False
        >>> report.to_html("sin.html")
        PosixPath('sin.html')
    """

    target: str
    kind: str
    results: Sequence[Result] = field(default_factory=list)
    seed: int = 0

    @property
    def verdict(self) -> Verdict:
        """The worst of all checks; `Verdict.SKIPPED` where all were skipped, or there was none."""
        return worst(
            [result.verdict for result in self.results]
            + [finding.severity for finding in self._every() if finding.severity is not Verdict.PASS]
        )

    @property
    def ok(self) -> bool:
        """Whether something was checked, and all of that passed; what could not be told has not passed."""
        return self.verdict is Verdict.PASS

    def __bool__(self) -> bool:
        """Return `ok`, so that ``assert tg.check(f)`` asks for a proof."""
        return self.ok

    @property
    def findings(self) -> list[Finding]:
        """All findings, the same thing once, the worst first."""
        found: dict[str, Finding] = {}
        order = list(Verdict)
        for finding in sorted(self._every(), key=lambda f: -order.index(f.severity)):
            found.setdefault(finding.key, finding)
        return list(found.values())

    def _every(self) -> list[Finding]:
        return [finding for result in self.results for finding in result.findings]

    def raise_if_failed(self) -> None:
        """Raise unless `ok`: where nothing could be told, nothing has passed.

        Raises:
            CheckError: the text is the report's; ``error.report`` is the report.
        """
        if not self.ok:
            raise CheckError(self.to_text(), report=self)

    def to_text(self, width: int = 100) -> str:
        """The report as plain text: the verdict, the checks that did not pass, and the findings."""
        from . import text

        return text.plain(text.layout(self, width))

    def __str__(self) -> str:
        if not sys.stdout.isatty():
            return self.to_text()
        from . import text

        return text.painted(text.layout(self, min(shutil.get_terminal_size().columns, 100)))

    def __rich__(self) -> Text:
        from . import text

        return text.rich_text(text.layout(self))

    def to_json(self) -> str:
        """The whole report as JSON: every result, every finding with its numbers.

        Keys keep their names and order, new ones may be added; ``format`` counts changes that break readers. Of two
        runs with one seed only ``seconds`` differ. Numbers that JSON lacks are strings: ``"nan"``, ``"inf"``; a
        complex number is ``{"real": ..., "imag": ...}``, a tensor ``{"dtype": ..., "shape": ..., "values": ...}``.
        """
        from . import data

        return data.dumps(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as one HTML file that needs nothing else, and return its path.

        The folder is made where it does not exist.
        """
        from .html import html_page

        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html_page([self]), encoding="utf-8")
        return path
