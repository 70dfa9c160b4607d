"""Reports as files: JSON for programs, and one HTML page for people."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..finding import Verdict
from ..numerals import printable, typeset
from .plot import INSTALL, has_matplotlib, illustrations
from .result import KINDS, SEVERITY, WORDS, Outcome, checks, counts, effort, remark, tally, worst
from .text import numbers

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

FORMAT = 1  # of the JSON; goes up when a key changes its meaning or goes away


def dumps(report: Outcome) -> str:
    """One report as JSON."""
    return _json(_content(report))


def dumps_all(reports: Sequence[Outcome], *, ok: bool) -> str:
    """Several reports as JSON: under ``targets``, each as `dumps` gives it.

    Args:
        reports: of the targets, in their order.
        ok: True if all together have passed.
    """
    verdict = worst(report.verdict for report in reports)
    return _json({"ok": ok, "verdict": verdict, "targets": [_content(report) for report in reports]})


def _json(content: dict[str, Any]) -> str:
    head = {"format": FORMAT, "torch": torch.__version__}
    return json.dumps(plain(head | content), indent=2, allow_nan=False)


def _content(report: Outcome) -> dict[str, Any]:
    return {
        "target": report.target,
        "kind": report.kind,
        "seed": report.seed,
        "ok": report.ok,
        "verdict": report.verdict,
        "headline": report.headline,
        "declared": report.declared,
        "checks": counts(check.verdict for check in checks(report)),
        "results": report.results,
    }


def plain(value: Any) -> Any:
    """A value made of what JSON has, exact to the last bit."""
    match value:
        case enum.Enum():
            return plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return float(value) if math.isfinite(value) else repr(float(value))
        case complex():
            return {"real": plain(value.real), "imag": plain(value.imag)}
        case Tensor():
            values = None if value.is_meta else plain(value.detach().to_dense().tolist())
            return {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape), "values": values}
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Sequence():
            return [plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return f"<{type(value).__qualname__}>"  # not its repr, which may hold an address


def html_page(reports: Sequence[Outcome]) -> str:
    """A page that needs no other file, no script and no network.

    Args:
        reports: of one target or of several; those that did not pass come first.
    """
    page = _template().render(reports=sorted(reports, key=lambda report: -SEVERITY[report.verdict]))
    return page.strip() + "\n"  # before the page stand the blank lines of its macros


@functools.cache
def _template() -> Template:
    """The template of the page, in which all text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # slow to import, and few write a page

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
