"""From a finding to the paragraph about it: on a smaller case where there is one, with cause and reproduction."""

from __future__ import annotations

from .case import Case
from .cause.explain import explain
from .contract import Contract
from .finding import Finding

_EXPLAINED = ("wrong-gradient", "loses-digits", "wrong-at-ties")


def concluded(contract: Contract, case: Case, finding: Finding) -> Finding:
    """The finding with its cause, as far as it can be told."""
    if finding.code not in _EXPLAINED:
        return finding
    try:
        return explain(case, finding)
    except Exception:  # odd numbers can break an explanation; what is wrong is wrong without one
        return finding
