"""Findings, and the verdicts of checks."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .evidence import Evidence
from .report.plot import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Verdict(enum.StrEnum):
    """The end of a check; the later in this list, the worse."""

    SKIPPED = "SKIPPED"
    """The check does not apply, or was not tried; the note says why."""
    PASS = "PASS"
    INCONCLUSIVE = "INCONCLUSIVE"
    """The check could not tell: never a pass."""
    LOSES_DIGITS = "LOSES_DIGITS"
    """Right, to fewer digits than the dtype has."""
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, or that could not be told.

    Attributes:
        code: what it is, a stable name such as ``"wrong-gradient"``.
        severity: `Verdict.FAIL`, `Verdict.LOSES_DIGITS` or `Verdict.INCONCLUSIVE`; `Verdict.PASS` for a notice.
        title: one sentence.
        where: output, input and arguments.
        analytic: what the derivative under test gives, where one number or tensor shows it.
        numeric: what differences of the function give there.
        error: the largest deviation.
        estimate: the deviation that numerics could explain.
        cause: what probably caused it, in words.
        hint: the next step.
        repro: a command that shows it again.
        evidence: for pictures.
        given: False where it shows only for arguments that the caller did not give, and that no annotation admits.
        case: which shows it, where it is another than the one that was looked at; gone once it is explained.

    Example:
        >>> report = tg.check(Sin.apply, torch.randn(4, dtype=torch.float64))
        >>> report.findings[0].cause
        'the gradient has the wrong sign'
    """

    code: str
    severity: Verdict
    title: str
    where: str = ""
    analytic: Any = None
    numeric: Any = None
    error: float | None = None
    estimate: float | None = None
    cause: str | None = None
    hint: str | None = None
    repro: str | None = None
    evidence: Evidence | None = field(default=None, repr=False)
    given: bool = True
    case: Any = field(default=None, repr=False, compare=False)

    @property
    def key(self) -> str:
        """An identity: findings of one thing have one key, whatever the arguments that show it."""
        return f"{self.code}: {self.where.partition(';')[0]}"

    def but(self, **changes: Any) -> Finding:
        """Return a copy with other fields."""
        return replace(self, **changes)

    def plot(self) -> Figure | None:
        """Draw the evidence with matplotlib: the Jacobian by both sides, their ratio, and the ladder of steps.

        Returns:
            A `matplotlib.figure.Figure`, which notebooks show; None where the finding has no numbers to draw.

        Raises:
            ModuleNotFoundError: matplotlib is not installed; a note says how to install it.
        """
        lines = [text.replace("`", "") for text in (self.title, self.cause) if text]
        return figure(self.evidence, lines) if self.evidence else None


class Skip(Exception):
    """A check does not apply to this case; the text says why."""


class LeftOut(Skip):
    """A check has nothing to prove, since a declaration says so; the text names it."""

    def __str__(self) -> str:
        return f"left out: {super().__str__()}"


class Inconclusive(Exception):
    """A check could not tell; the text says why."""
