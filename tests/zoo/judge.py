"""Whether the checker found what is wrong with a bug, and said why."""

from __future__ import annotations

import torchgraft as tg

from .bug import Bug


def alarms(report: tg.Report) -> list[tg.Finding]:
    """What a report says is wrong; not its notices."""
    return [finding for finding in report.findings if finding.severity is not tg.Verdict.PASS]


def words(report: tg.Report) -> list[str]:
    """Name, code and title of each alarm; where it could not tell, the reason."""
    said = [
        f"{result.check} {finding.code} {finding.title}"
        for result in report.results
        for finding in result.findings
        if finding.severity is not tg.Verdict.PASS
    ]
    unsure = [r for r in report.results if r.verdict is tg.Verdict.INCONCLUSIVE]
    return [text.lower() for text in (*said, *(f"inconclusive {r.check} {r.note}" for r in unsure))]


def causes(report: tg.Report) -> str:
    return " / ".join(finding.cause or "" for finding in report.findings)


def found(bug: Bug, report: tg.Report) -> bool:
    """Whether the wrong one is refused for a reason that it has."""
    if report.ok or not (alarms(report) or "inconclusive" in bug.expects):
        return False
    return any(word in text for word in bug.expects for text in words(report))


def named(bug: Bug, report: tg.Report) -> bool:
    """Whether a cause has one of the words that say it."""
    return any(word.lower() in causes(report).lower() for word in bug.cause)
