"""What a report says first: how each check ended over all its cases, and how many ended how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..finding import Verdict

if TYPE_CHECKING:
    from .report import Report, Result

WORDS = {
    Verdict.FAIL: "failed",
    Verdict.LOSES_DIGITS: "lost digits",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.PASS: "passed",
    Verdict.SKIPPED: "skipped",
}
KINDS = {
    "operator": "torchgraft operator",
    "function": "autograd.Function",
    "library": "torch.library operator",
    "module": "module",
    "callable": "function",
}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of some verdicts; `Verdict.SKIPPED` of none, for nothing was tried."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.SKIPPED)


@dataclass(frozen=True)
class Check:
    """One check, over all its cases.

    Attributes:
        name: of the check.
        title: what holds where it passes.
        results: one for each case.
    """

    name: str
    title: str
    results: Sequence[Result]

    @property
    def verdict(self) -> Verdict:
        """The worst of its cases; a case that was skipped takes nothing from those that passed."""
        return worst(result.verdict for result in self.results)

    @property
    def like(self) -> list[Result]:
        """The cases that ended as the whole did."""
        return [result for result in self.results if result.verdict is self.verdict]

    @property
    def share(self) -> str:
        """How many cases ended so, of those that were tried."""
        tried = sum(result.verdict is not Verdict.SKIPPED for result in self.results)
        return f"{len(self.like)} of {tried}" if tried > 1 else ""

    @property
    def note(self) -> str:
        """Why it ended so: the first reason that was given, and how many others there are."""
        notes = list(dict.fromkeys(result.note for result in self.like if result.note))
        if not notes:
            return ""
        return notes[0] if len(notes) == 1 else f"{notes[0]} (and {len(notes) - 1} more)"

    @property
    def said(self) -> str:
        """The note, else what was found, else the title."""
        found = list(dict.fromkeys(finding.title for result in self.like for finding in result.findings))
        return self.note or "; ".join(found) or self.title


def checks(report: Report) -> list[Check]:
    """The checks of a report, the worst first, else in the order in which they ran."""
    together: dict[str, list[Result]] = {}
    for result in report.results:
        together.setdefault(result.check, []).append(result)
    order = list(Verdict)
    made = [Check(name, results[0].title, results) for name, results in together.items()]
    return sorted(made, key=lambda check: -order.index(check.verdict))


def counts(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """How many there are of each verdict, the worst first, those that do not occur left out."""
    counted = Counter(verdicts)
    return {verdict: counted[verdict] for verdict in reversed(Verdict) if counted[verdict]}


def tally(report: Report) -> str:
    """How the checks ended, in one line: ``"1 check failed, 11 passed, 2 skipped"``."""
    found = counts(check.verdict for check in checks(report))
    if not found:
        return "nothing was checked"
    parts = [f"{number} {WORDS[verdict]}" for verdict, number in found.items()]
    number, rest = parts[0].split(" ", 1)
    parts[0] = f"{number} {'check' if number == '1' else 'checks'} {rest}"
    return ", ".join(parts)


def effort(report: Report) -> str:
    """What was spent, and how to draw the same again: ``"12 cases, 0.9 s, seed 0"``."""
    cases = max((len(check.results) for check in checks(report)), default=0)
    seconds = sum(result.seconds for result in report.results)
    return f"{cases} {'case' if cases == 1 else 'cases'}, {duration(seconds)}, seed {report.seed}"


def duration(seconds: float) -> str:
    """A time as people read it."""
    return f"{seconds:.1f} s" if seconds >= 0.9995 else f"{1e3 * seconds:.0f} ms"


def remark(report: Report) -> str:
    """What a reader may take for a pass and is none; else nothing."""
    verdict = report.verdict
    if not report.results:
        return "Nothing was checked, which is no pass."
    if verdict is Verdict.SKIPPED:
        return "Every check was skipped: nothing was tried, which is no pass."
    if verdict is Verdict.INCONCLUSIVE:
        return "Nothing wrong was seen, but not everything could be told: that is no pass."
    return ""
