"""The gradient where elements are equal, for arguments of which none are."""

from __future__ import annotations

from collections.abc import Iterator

from ..case import Case
from ..finding import Finding, Inconclusive, Skip
from ..numeric.gradient import WRONG_AT_TIES, gradient
from ..points import admitted, nearby, paired


def ties(case: Case) -> Iterator[Finding]:
    """Only what is right for elements that differ a little is wrong because of the ties."""
    primals = paired(case)
    if not admitted(case, primals):
        raise Skip("it takes no equal elements")
    equal = case.replaced(primals)
    try:
        if any(gradient(case.replaced(nearby(case)))):
            raise Skip("the gradient is wrong where elements differ already")
        found = [finding for finding in gradient(equal) if finding.code == WRONG_AT_TIES]
    except Inconclusive as why:  # such as a distance, which has its kink there
        raise Skip(f"there is no derivative to compare with where elements are equal: {why}") from why
    if found and not any(gradient(equal.replaced(nearby(equal)))):
        yield from found
