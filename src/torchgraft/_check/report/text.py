"""A report for a terminal: one layout of lines, printed plainly or painted by rich."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..evidence import apart, brief, printable, shown
from ..finding import Finding, Verdict
from .result import KINDS, Check, Outcome, checks, effort, remark, tally

if TYPE_CHECKING:
    from rich.text import Text

Line = list[tuple[str, str]]
"""Pieces of text, each with the name of its style."""

STYLES = {
    "FAIL": "bold red",
    "LOSES_DIGITS": "bold magenta",
    "INCONCLUSIVE": "bold yellow",
    "PASS": "bold green",
    "SKIPPED": "dim",
    "strong": "bold",
    "label": "dim",
    "cause": "bold",
    "repro": "cyan",
    "": "",
}
MANY = 3
"""So many checks that ended alike, for the same reason, have one row."""


def layout(report: Outcome, width: int = 100) -> list[Line]:
    """All lines: the headline, a table of the checks that did not pass, the findings."""
    rest = f"{report.target} ({KINDS.get(report.kind, report.kind)}): {tally(report)}; {effort(report)}"
    lines = list(_hanging([(f"{report.headline}  ", report.verdict)], rest, width, "strong"))
    if remark(report):
        lines += _hanging([], remark(report), width)
    lines += _table(report, width)
    return [*lines, [], *paragraphs(report.findings, width)] if report.findings else lines


def paragraphs(findings: Sequence[Finding], width: int = 100) -> list[Line]:
    """The findings, with a blank line between them."""
    lines: list[Line] = []
    for number, finding in enumerate(findings, 1):
        lines += [*([[]] if lines else []), *_finding(number, finding, width)]
    return lines


def plain(lines: Sequence[Line]) -> str:
    """The lines without their styles."""
    return "\n".join("".join(piece for piece, _ in line).rstrip() for line in lines)


def rich_text(lines: Sequence[Line]) -> Text:
    """The lines for a console of rich."""
    from rich.text import Text

    styled = [Text.assemble(*((piece, STYLES[style]) for piece, style in line)) for line in lines]
    return Text("\n").join(styled)


def painted(lines: Sequence[Line]) -> str:
    """The lines with the terminal's colours, as far as it has them; plain without rich."""
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        return plain(lines)
    console = Console(file=io.StringIO(), force_terminal=True, width=10**6)
    with console.capture() as captured:
        console.print(rich_text(lines), soft_wrap=True, highlight=False, end="")
    return captured.get()


def numbers(finding: Finding) -> Iterator[tuple[str, str]]:
    """The values by both sides, and the distance between them, each with a label."""
    sides = {"analytic": finding.analytic, "numeric": finding.numeric}
    known = {label: side for label, side in sides.items() if side is not None}
    texts = apart(*known.values()) if len(known) == 2 else map(shown, known.values())
    yield from zip(known, texts, strict=True)
    if finding.error is not None:
        explained = "" if finding.estimate is None else f"; numerics explain at most {brief(finding.estimate)}"
        yield "error", brief(finding.error) + explained


def _table(report: Outcome, width: int) -> Iterator[Line]:
    """A row for each check that did not pass; those that did are counted above."""
    rows = list(_rows([check for check in checks(report) if check.verdict is not Verdict.PASS]))
    if rows:
        yield []
    first, second, third = (max((len(row[column]) for row in rows), default=0) for column in range(3))
    for row in rows:
        head: Line = [(f"  {row.name:{first}}  ", ""), (f"{row.verdict:{second}}  ", row.verdict)]
        if third:
            head.append((f"{row.share:>{third}}  ", "label"))
        yield from _hanging(head, row.text, width)


class _Row(NamedTuple):
    """A row of the table of checks."""

    name: str
    verdict: Verdict
    share: str
    text: str


def _rows(given: Sequence[Check]) -> Iterator[_Row]:
    """A row for each check; those that say the same note share one, which lists their names."""
    alike: dict[tuple[str, str], list[Check]] = {}
    for check in given:
        alike.setdefault((check.verdict, check.note or check.name), []).append(check)
    for group in alike.values():
        if len(group) < MANY:
            yield from (_Row(printable(check.name), check.verdict, check.share, check.said) for check in group)
        else:
            names = ", ".join(check.name for check in group)
            yield _Row(f"{len(group)} checks", group[0].verdict, "", f"{group[0].said}\n({names})")


def _finding(number: int, finding: Finding, width: int) -> Iterator[Line]:
    """The title, then a line for each fact that is known."""
    yield from _hanging([(f"{number}. ", "label")], finding.title, width, "strong")
    severity = "notice" if finding.severity is Verdict.PASS else finding.severity
    yield [("   verdict   ", "label"), (severity, finding.severity), (f"  {printable(finding.code)}", "label")]
    last = [("cause", finding.cause), ("hint", finding.hint), ("repro", finding.repro)]
    for label, value in [("where", finding.where), *numbers(finding), *last]:
        if value:
            style = label if label in STYLES else ""
            yield from _hanging([(f"   {label:10}", "label")], value, width, style, whole=label == "repro")


def _hanging(head: Line, text: str, width: int, style: str = "", *, whole: bool = False) -> Iterator[Line]:
    """The text beside a head, in lines of `width` columns; code, which is indented or `whole`, stays as it is."""
    indent = sum(len(piece) for piece, _ in head)
    lines: list[str] = []
    for line in printable(text).splitlines() or [""]:
        keep = whole or line.startswith((" ", "\t"))
        lines += [line] if keep else textwrap.wrap(line, max(width - indent, 20), break_on_hyphens=False) or [""]
    for place, line in enumerate(lines):
        yield [*(head if place == 0 else [(" " * indent, "")]), (line, style)]
