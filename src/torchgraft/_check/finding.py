"""What a check says: findings, and the verdict of each check."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Verdict(enum.StrEnum):
    """How a check ended; the later in this list, the worse."""

    SKIPPED = "SKIPPED"
    """It does not apply, or was not tried; the note says why."""
    PASS = "PASS"
    INCONCLUSIVE = "INCONCLUSIVE"
    """It could not tell: never a pass."""
    LOSES_DIGITS = "LOSES_DIGITS"
    """Right, to fewer digits than the dtype has."""
    FAIL = "FAIL"


@dataclass(frozen=True)
class Evidence:
    """The numbers behind a finding, of the smallest case that shows it.

    Attributes:
        analytic: the Jacobian that the derivative under test gives, ``(outputs, inputs)``, flattened.
        numeric: the same by differences of the function.
        estimate: the estimated error of each entry of `numeric`.
        steps: of the difference ladder along the direction that shows the error most.
        ladder: the estimate of the directional derivative at each step.
        bars: its estimated error at each step.
        chosen: the place in `steps` of the step that was used.
        along: what the derivative under test gives along that direction.
        outputs: name and shape of each output, in the order of the rows; empty where they are not known.
        inputs: the same of the primals, for the columns.
    """

    analytic: Tensor
    numeric: Tensor
    estimate: Tensor | None = None
    steps: tuple[float, ...] = ()
    ladder: tuple[float, ...] = ()
    bars: tuple[float, ...] = ()
    chosen: int | None = None
    along: float | None = None
    outputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    inputs: tuple[tuple[str, tuple[int, ...]], ...] = ()


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

    @property
    def key(self) -> str:
        """The same for findings of the same thing, whatever the arguments that show it."""
        return f"{self.code}: {self.where.partition(';')[0]}"

    def but(self, **changes: Any) -> Finding:
        """The same with other fields."""
        return replace(self, **changes)

    def plot(self) -> Figure | None:
        """Draw the evidence with matplotlib: the Jacobian by both sides, their ratio, and the ladder of steps.

        Returns:
            A `matplotlib.figure.Figure`, which notebooks show; None where the finding has no numbers to draw.
        """
        from .report.plot import draw

        return draw(self)


class Skip(Exception):
    """A check does not apply to this case; the text says why."""


class Inconclusive(Exception):
    """A check could not tell; the text says why."""
