"""What an operator can do, read from its record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._record import Record


@dataclass(frozen=True)
class Capability:
    """One answer.

    Attributes:
        answer: ``yes``, ``derived``, ``loop`` or ``no``.
        how: how it is done, or what to add.
    """

    answer: str
    how: str = ""

    def __str__(self) -> str:
        return f"{self.answer}: {self.how}" if self.how else self.answer


def capabilities(record: Record) -> dict[str, Capability]:
    return {}


def describe(record: Record) -> Any:
    return repr(record)
