"""A report for a terminal: one layout of lines, printed plainly or painted by rich."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..finding import Finding, Verdict
from ..numerals import printable
from .summary import KINDS, Check, checks, effort, remark, tally
from .words import facts

if TYPE_CHECKING:
    from rich.text import Text

    from .report import Report

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
LABEL = 10  # columns of the labels at a finding's facts


def layout(report: Report, width: int = 100) -> list[Line]:
    """All lines: the verdict, a table of the checks that did not pass, the findings."""
    lines = [*_verdict(report, width), *_table(report, width)]
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


def _verdict(report: Report, width: int) -> Iterator[Line]:
    verdict = report.verdict
    kind = KINDS.get(report.kind, report.kind)
    rest = f"{printable(report.target)} ({kind}): {tally(report)}; {effort(report)}"
    indent = len(verdict) + 2
    for number, line in enumerate(_wrapped(rest, width - indent)):
        yield [(f"{verdict}  ", verdict), (line, "strong")] if number == 0 else [(" " * indent + line, "strong")]
    if remark(report):
        yield from ([(line, "")] for line in _wrapped(remark(report), width))


def _table(report: Report, width: int) -> Iterator[Line]:
    """A row for each check that did not pass; those that did are counted above."""
    rows = [check for check in checks(report) if check.verdict is not Verdict.PASS]
    if not rows:
        return
    yield []
    folded = _folded(rows)
    first, second, third = (max(map(len, column)) for column in list(zip(*folded, strict=True))[:3])
    indent = 2 + first + 2 + second + 2 + (third + 2 if third else 0)
    for name, verdict, share, text in folded:
        said = _wrapped(text, max(width - indent, 20))
        head: Line = [(f"  {name:{first}}  ", ""), (f"{verdict:{second}}  ", verdict)]
        if third:
            head.append((f"{share:>{third}}  ", "label"))
        yield [*head, (said[0], "")]
        yield from ([(" " * indent + line, "")] for line in said[1:])


MANY = 3
"""So many checks that ended alike, for the same reason, have one row."""


def _folded(rows: Sequence[Check]) -> list[tuple[str, Verdict, str, str]]:
    """Name, verdict, share and text of each row; checks that say the same note share one, which lists their names."""
    alike: dict[tuple[str, str], list[Check]] = {}
    for row in rows:
        alike.setdefault((row.verdict, row.note or row.name), []).append(row)
    folded = []
    for group in alike.values():
        if len(group) < MANY:
            folded += [(printable(row.name), row.verdict, row.share, printable(row.said)) for row in group]
        else:
            names = ", ".join(row.name for row in group)
            folded.append((f"{len(group)} checks", group[0].verdict, "", printable(f"{group[0].said}\n({names})")))
    return folded


def _finding(number: int, finding: Finding, width: int) -> Iterator[Line]:
    severity = "notice" if finding.severity is Verdict.PASS else finding.severity
    head = f"{number}. "
    title = _wrapped(printable(finding.title), width - len(head))
    yield [(head, "label"), (title[0], "strong")]
    yield from ([(" " * len(head) + line, "strong")] for line in title[1:])
    yield _fact("verdict", [(severity, finding.severity), (f"  {printable(finding.code)}", "label")])
    for label, value in facts(finding):
        style = label if label in STYLES else ""
        for place, line in enumerate(_wrapped(printable(value), width - LABEL - 3, whole=label == "repro")):
            yield _fact(label if place == 0 else "", [(line, style)])


def _fact(label: str, pieces: Line) -> Line:
    return [(f"   {label:{LABEL}}", "label"), *pieces]


def _wrapped(text: str, width: int, *, whole: bool = False) -> list[str]:
    """Lines of at most `width` columns; lines of code, which are indented or `whole`, stay as they are."""
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        keep = whole or line.startswith((" ", "\t"))
        lines += [line] if keep else textwrap.wrap(line, max(width, 20), break_on_hyphens=False) or [""]
    return lines
