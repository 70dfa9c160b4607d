"""The results of the checks of a target, and how they are summed up: verdict, findings, one line for each check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..finding import Finding, Verdict

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
ROOTS = (
    "input-changed", "gradient-changed", "saved-changed", "mode-output", "nondeterministic-output", "thread-state",
    "state-between-calls",
)  # fmt: skip
"""Codes of findings that others follow from, and that are told before these."""
SEVERITY = {verdict: place for place, verdict in enumerate(Verdict)}


@dataclass(frozen=True)
class Result:
    """The verdict of one check on one case, and what it found.

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
class Outcome:
    """The data of a report, from which its text, JSON and page are made."""

    target: str
    kind: str
    results: Sequence[Result] = field(default_factory=list)
    seed: int = 0
    declared: Sequence[str] = ()

    @property
    def headline(self) -> str:
        """The verdict, and in brackets the declarations that qualify it, such as ``"PASS (to 1e-08)"``."""
        return f"{self.verdict} ({', '.join(self.declared)})" if self.declared else str(self.verdict)

    @property
    def verdict(self) -> Verdict:
        """The worst of all checks; `Verdict.SKIPPED` where all were skipped, or there was none."""
        mistakes = [finding.severity for finding in self._every() if finding.severity is not Verdict.PASS]
        return worst([*(result.verdict for result in self.results), *mistakes])

    @property
    def ok(self) -> bool:
        """True if something was checked, and all of that passed; what could not be told has not passed."""
        return self.verdict is Verdict.PASS

    @property
    def findings(self) -> list[Finding]:
        """All findings, each once, the worst first; of equally bad ones those that explain the others."""

        def rank(finding: Finding) -> tuple[int, int]:
            root = ROOTS.index(finding.code) if finding.code in ROOTS else len(ROOTS)
            return -SEVERITY[finding.severity], root

        found: dict[str, Finding] = {}
        for finding in sorted(self._every(), key=rank):
            found.setdefault(finding.key, finding)
        return list(found.values())

    def _every(self) -> list[Finding]:
        return [finding for result in self.results for finding in result.findings]


@dataclass(frozen=True)
class Check:
    """One check, over all its cases; a case that was skipped takes nothing from those that passed."""

    name: str
    verdict: Verdict  # The worst of its cases.
    share: str  # The number of cases that ended so, of those that were tried: "2 of 3".
    note: str  # The first reason that was given for the verdict, and the number of other reasons.
    said: str  # The note, or what was found, or what holds where it passes.


def checks(report: Outcome) -> list[Check]:
    """The checks of a report, the worst first, else in the order in which they ran."""
    together: dict[str, list[Result]] = {}
    for result in report.results:
        together.setdefault(result.check, []).append(result)
    return sorted(map(_summed_up, together.values()), key=lambda check: -SEVERITY[check.verdict])


def _summed_up(results: Sequence[Result]) -> Check:
    verdict = worst(result.verdict for result in results)
    like = [result for result in results if result.verdict is verdict]
    tried = sum(result.verdict is not Verdict.SKIPPED for result in results)
    share = f"{len(like)} of {tried}" if tried > 1 else ""
    first, *others = dict.fromkeys(result.note for result in like if result.note) or [""]
    note = f"{first} (and {len(others)} more)" if others else first
    findings = [finding for result in like for finding in result.findings]
    found = dict.fromkeys(f.title for f in findings if f.severity is verdict or verdict is Verdict.PASS)
    if found and verdict in (Verdict.FAIL, Verdict.LOSES_DIGITS):
        note = ""  # How it was tried is no matter where something is wrong.
    return Check(results[0].check, verdict, share, note, note or "; ".join(found) or results[0].title)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of some verdicts; `Verdict.SKIPPED` of none, for nothing was tried."""
    return max(verdicts, key=SEVERITY.__getitem__, default=Verdict.SKIPPED)


def counts(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """The number of each verdict, the worst first; those that do not occur are left out."""
    counted = Counter(verdicts)
    return {verdict: counted[verdict] for verdict in reversed(Verdict) if counted[verdict]}


def tally(report: Outcome) -> str:
    """The number of checks that ended so and so, in one line: ``"1 check failed, 11 passed, 2 skipped"``."""
    parts = [f"{number} {WORDS[verdict]}" for verdict, number in counts(c.verdict for c in checks(report)).items()]
    if not parts:
        return "nothing was checked"
    number, rest = parts[0].split(" ", 1)
    return ", ".join([f"{number} {'check' if number == '1' else 'checks'} {rest}", *parts[1:]])


def effort(report: Outcome) -> str:
    """The cost of the check, and the seed that draws the same inputs again: ``"12 cases, 0.9 s, seed 0"``."""
    cases = max(Counter(result.check for result in report.results).values(), default=0)
    seconds = sum(result.seconds for result in report.results)
    return f"{cases} {'case' if cases == 1 else 'cases'}, {duration(seconds)}, seed {report.seed}"


def duration(seconds: float) -> str:
    """A time as people read it."""
    return f"{seconds:.1f} s" if seconds >= 0.9995 else f"{1e3 * seconds:.0f} ms"


def remark(report: Outcome) -> str:
    """A warning where the verdict may be misread; else nothing."""
    if not report.results:
        return "Nothing was checked, which is no pass."
    if report.verdict is Verdict.SKIPPED:
        return "Every check was skipped: nothing was tried, which is no pass."
    if report.verdict is Verdict.INCONCLUSIVE:
        return "Nothing wrong was seen, but not everything could be told: that is no pass."
    mistakes = [finding for finding in report.findings if finding.severity is not Verdict.PASS]
    if mistakes and not any(finding.given for finding in mistakes):
        return "Nothing is wrong with the call that you gave, but with others that the target takes."
    return ""
