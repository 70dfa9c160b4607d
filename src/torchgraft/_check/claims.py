"""Refusals: an operator may refuse what it does not claim, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from .baseline import short
from .case import Case
from .finding import Finding, Skip, Verdict

T = TypeVar("T")


def claimed(case: Case, transform: str) -> bool | None:
    """What a torchgraft operator says of a transform in `Op.capabilities`; None where it does not know, or is none."""
    operator = case.target.operator
    said = None if operator is None else operator.capabilities()[transform]
    return None if said is None or said.answer == "unknown" else bool(said)


class Refused(Exception):
    """The target raises under a transform."""


def attempt(function: Callable[[], T]) -> T:
    """What a function returns.

    Raises:
        Refused: it raises.
    """
    try:
        return function()
    except Exception as error:
        raise Refused(short(error)) from error


def refusal(case: Case, transform: str, why: Refused) -> Iterator[Finding]:
    """What to make of a refusal: a finding where the transform is claimed.

    Raises:
        Skip: it is not.
    """
    if not claimed(case, transform):
        raise Skip(f"refused: {why}") from why
    yield Finding(
        "false-claim",
        Verdict.FAIL,
        f"capabilities() says that {transform} works, and it raises",
        f"{transform}; {case.label}",
        cause=str(why),
        hint=f"if the refusal is right, {case.target.name} must not claim it: please report this",
    )


def unclaimed(case: Case, transform: str) -> Iterator[Finding]:
    """A finding where an operator gives a result that it says it cannot give."""
    if claimed(case, transform) is False:
        yield Finding(
            "false-claim",
            Verdict.FAIL,
            f"capabilities() says that {transform} is refused, and it returns a result",
            f"{transform}; {case.label}",
            hint="an operator must refuse what it cannot do: please report this",
        )
