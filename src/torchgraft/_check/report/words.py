"""What a finding says, as labels and text: the same in a terminal, on a page and under a picture."""

from __future__ import annotations

from collections.abc import Iterator

from ..finding import Finding
from ..numerals import apart, brief, shown, worst_entry


def facts(finding: Finding) -> Iterator[tuple[str, str]]:
    """Where, the numbers, the cause, the next step and how to see it again, as far as they are known."""
    if finding.where:
        yield "where", finding.where
    yield from numbers(finding)
    for label in ("cause", "hint", "repro"):
        text: str | None = getattr(finding, label)
        if text:
            yield label, text


def numbers(finding: Finding) -> Iterator[tuple[str, str]]:
    """What both sides gave, and how far they are apart."""
    if finding.analytic is not None and finding.numeric is not None:
        place = worst_entry(finding.analytic, finding.numeric)
        sides = (finding.analytic, finding.numeric)
        analytic, numeric = apart(*(side if place is None else side[place] for side in sides))
        yield "analytic", analytic + (f" at {list(place)}, where both are apart most" if place else "")
        yield "numeric", numeric
    elif finding.analytic is not None:
        yield "analytic", shown(finding.analytic)
    elif finding.numeric is not None:
        yield "numeric", shown(finding.numeric)
    if finding.error is not None:
        explained = "" if finding.estimate is None else f"; numerics explain at most {brief(finding.estimate)}"
        yield "error", brief(finding.error) + explained
