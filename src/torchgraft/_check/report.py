"""The report of a check: what was tried, what was found, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .finding import Finding, Verdict


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

    Attributes:
        target: its name.
        kind: what it is: an operator, a function...
        results: one for each check and case.
        seed: of what was drawn.
    """

    target: str
    kind: str
    results: Sequence[Result] = field(default_factory=list)
    seed: int = 0

    @property
    def findings(self) -> list[Finding]:
        """All findings, the same thing once, the worst first."""
        found: dict[tuple[str, str], Finding] = {}
        order = list(Verdict)
        every = [finding for result in self.results for finding in result.findings]
        for finding in sorted(every, key=lambda f: -order.index(f.severity)):
            found.setdefault((finding.code, finding.where.partition(";")[0]), finding)
        return list(found.values())
