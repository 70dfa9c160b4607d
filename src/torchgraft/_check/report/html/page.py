"""The page: what was checked, how it ended, and the findings of each target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ...colors import DARK, LIGHT, Theme, ink, scale
from ...finding import Verdict
from ..summary import KINDS, WORDS, Check, checks, counts, effort, remark, tally, worst
from .card import badge, card, kind
from .markup import Markup, markup, prose, tag

if TYPE_CHECKING:
    from ..report import Report


def html_page(reports: Sequence[Report]) -> str:
    """A page that needs no other file, no script and no network.

    Args:
        reports: of one target or of several; those that did not pass come first.
    """
    order = list(Verdict)
    reports = sorted(reports, key=lambda report: -order.index(report.verdict))
    single = len(reports) == 1
    name = reports[0].target if single else f"{len(reports)} targets"
    head = tag(
        "head", tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"), tag("title", f"{name} - torchgraft check"), _style(),
    )  # fmt: skip
    body = tag(
        "body", _header(name, reports), None if single else _overview(reports),
        tag("main", (_section(report, number, single) for number, report in enumerate(reports, 1))),
        tag("footer", f"torch {torch.__version__}"),
    )  # fmt: skip
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _style() -> Markup:
    css = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    light, dark = (_palette(theme) for theme in (LIGHT, DARK))
    return Markup(f"<style>\n{css}{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n</style>")


def _palette(theme: Theme) -> str:
    """The classes of cells, by their level, and of the text in them."""
    return "\n".join(
        f".c{step} rect {{ fill: {color} }} .c{step} text {{ fill: {ink(color)} }}"
        for step, color in scale(theme).items()
    )


def _header(name: str, reports: Sequence[Report]) -> Markup:
    verdict = worst(report.verdict for report in reports)
    if len(reports) == 1:
        (report,) = reports
        lines = [f"{KINDS.get(report.kind, report.kind)}: {tally(report)}", effort(report)]
        strip = _strip([check.verdict for check in checks(report)])
    else:
        verdicts = [report.verdict for report in reports]
        words = (f"{number} {one.replace('_', ' ').lower()}" for one, number in counts(verdicts).items())
        lines = [", ".join(words) or "nothing was checked"]
        strip = _strip(verdicts)
    return tag(
        "header", tag("p", "torchgraft check", class_="product"), tag("h1", name), badge(verdict),
        (tag("p", line, class_="tally" if line is lines[0] else "effort") for line in lines), strip, class_="top",
    )  # fmt: skip


def _strip(verdicts: Sequence[Verdict]) -> Markup | None:
    """How much of it ended how, as a bar."""
    if not verdicts:
        return None
    parts = counts(verdicts).items()
    text = ", ".join(f"{number} {verdict}" for verdict, number in parts)
    boxes = (tag("span", class_=kind(verdict), style=f"flex-grow: {number}") for verdict, number in parts)
    return tag("div", boxes, class_="strip", role="img", aria_label=text)


def _overview(reports: Sequence[Report]) -> Markup:
    rows = (
        tag("tr", tag("td", badge(report.verdict)), tag("th", tag("a", report.target, href=f"#target-{number}"),
            scope="row"), tag("td", _told(report)))
        for number, report in enumerate(reports, 1)
    )  # fmt: skip
    return tag("nav", tag("table", tag("tbody", rows), class_="overview"), aria_label="targets")


def _told(report: Report) -> Markup | str:
    """How a target ended, in one line: the checks counted, or why there are none."""
    return prose(checks(report)[0].said) if report.results and report.verdict is Verdict.SKIPPED else tally(report)


def _section(report: Report, number: int, single: bool) -> Markup:
    name = KINDS.get(report.kind, report.kind)
    heading = markup(
        tag("h2", report.target, badge(report.verdict)), tag("p", f"{name}; {effort(report)}", class_="effort")
    )
    if report.ok and not single:
        content = tag("details", tag("summary", tally(report)), _table(checks(report)))
        return tag("section", heading, content, _cards(report), id=f"target-{number}")
    content = markup(
        tag("p", remark(report), class_="remark") if remark(report) else None,
        _checks(report, single),
        _cards(report),
    )
    return tag("section", None if single else heading, content, id=f"target-{number}")


def _cards(report: Report) -> Iterator[Markup]:
    return (card(finding, place) for place, finding in enumerate(report.findings, 1))


def _checks(report: Report, single: bool) -> Iterator[Markup]:
    """What did not pass, as a table; what did, or was skipped, folded away where it is not all."""
    every = checks(report)
    folded = [check for check in every if check.verdict in (Verdict.PASS, Verdict.SKIPPED)]
    other = [check for check in every if check not in folded]
    if other:
        yield _table(other)
    for verdict in (Verdict.PASS, Verdict.SKIPPED):
        rows = [check for check in folded if check.verdict is verdict]
        if rows:
            title = f"{len(rows)} {'check' if len(rows) == 1 else 'checks'} {WORDS[verdict]}"
            alone = single or report.verdict is Verdict.SKIPPED
            yield tag("details", tag("summary", title), _table(rows), open="" if alone and not other else None)


def _table(rows: Sequence[Check]) -> Markup:
    """A table of checks."""
    lines = (
        tag("tr", tag("td", badge(row.verdict)), tag("th", row.name, scope="row"), tag("td", prose(row.said)),
            tag("td", f"{row.share} cases" if row.share else "", class_="share"))
        for row in rows
    )  # fmt: skip
    return tag("table", tag("tbody", lines), class_="checks")
