"""The report of a check as users have it, and its renderings as files: JSON for programs, one HTML page for people."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...errors import CheckError
from ..evidence import printable, typeset
from ..finding import Verdict
from .plot import INSTALL, has_matplotlib, illustrations
from .result import KINDS, SEVERITY, WORDS, Outcome, checks, counts, effort, remark, tally, worst
from .text import layout, numbers, painted, plain, rich_text

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup
    from rich.text import Text

FORMAT = 1  # Goes up when a key of the JSON changes its meaning or goes away.


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
        return _json(_content(self))

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as one HTML file that needs nothing else, and return its path.

        The folder is made where it does not exist. Pictures need matplotlib: ``pip install 'torchgraft[report]'``.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html_page([self]), encoding="utf-8")
        return path


def dumps_all(reports: Sequence[Outcome], *, ok: bool) -> str:
    """Several reports as JSON: under ``targets``, each as `Report.to_json` gives it; `ok` if all together passed."""
    verdict = worst(report.verdict for report in reports)
    return _json({"ok": ok, "verdict": verdict, "targets": [_content(report) for report in reports]})


def _json(content: dict[str, Any]) -> str:
    head = {"format": FORMAT, "torch": torch.__version__}
    return json.dumps(data_of(head | content), indent=2, allow_nan=False)


def _content(report: Outcome) -> dict[str, Any]:
    own = {name: getattr(report, name) for name in ("target", "kind", "seed", "ok", "verdict", "headline", "declared")}
    return own | {"checks": counts(check.verdict for check in checks(report)), "results": report.results}


def data_of(value: Any) -> Any:
    """A value made of what JSON has, exact to the last bit."""
    match value:
        case enum.Enum():
            return data_of(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return float(value) if math.isfinite(value) else repr(float(value))
        case complex():
            return {"real": data_of(value.real), "imag": data_of(value.imag)}
        case Tensor():
            values = None if value.is_meta else data_of(value.detach().to_dense().tolist())
            return {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape), "values": values}
        case np.ndarray() | np.generic():
            return data_of(value.tolist())
        case Mapping():
            return {str(key): data_of(item) for key, item in value.items()}
        case Sequence():
            return [data_of(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: data_of(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return f"<{type(value).__qualname__}>"  # Its repr may hold an address.


def html_page(reports: Sequence[Outcome]) -> str:
    """A page of one report or of several, the worst first, that needs no other file, no script and no network."""
    page = _template().render(reports=sorted(reports, key=lambda report: -SEVERITY[report.verdict]))
    return page.strip() + "\n"  # The macros leave blank lines before the page.


@functools.cache
def _template() -> Template:
    """The template of the page, in which all text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # It is slow to import, and few write a page.

    environment = Environment(
        loader=PackageLoader("torchgraft._check.report", ""), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=lambda value: printable(value) if type(value) is str else value,
    )  # fmt: skip
    environment.filters |= {"prose": prose, "typeset": typeset}
    environment.globals |= {
        "Verdict": Verdict, "KINDS": KINDS, "WORDS": WORDS, "INSTALL": INSTALL, "torch_version": torch.__version__,
        "checks": checks, "counts": counts, "effort": effort, "remark": remark, "tally": tally, "worst": worst,
        "numbers": numbers, "has_matplotlib": has_matplotlib, "illustrations": illustrations,
    }  # fmt: skip
    return environment.get_template("page.html.jinja")


def prose(text: str) -> Markup:
    """Escaped text in which names between backticks are code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(printable(text)))))
