"""From a finding to the paragraph about it: on a smaller case where there is one, with cause and reproduction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from .case import Case
from .cause.explain import explain
from .clock import Clock
from .contract import Contract
from .finding import Finding, Verdict
from .generate.within import within
from .report.evidence import with_ladder
from .repro import repro
from .shrink import shrink

PATIENCE = 2.0
"""Seconds that the search for a smaller case may take."""

_EXPLAINED = ("wrong-gradient", "loses-digits", "wrong-at-ties", "nonlinear-backward")


def concluded(contract: Contract, case: Case, finding: Finding) -> Finding:
    """The finding as the smallest case shows it, with its cause, as far as it can be told."""
    if finding.severity is Verdict.PASS:  # a notice
        return finding
    clock, original = Clock(PATIENCE), case

    def again(smaller: Case) -> Finding | None:
        return next((f for f in contract.look(smaller) if f.code == finding.code), None)

    def fails(smaller: Case) -> bool:
        return not clock.over and within(smaller) and again(smaller) is not None

    with _one_thread():
        # Odd targets can break each of these; what is wrong is wrong without them.
        with contextlib.suppress(Exception):
            case = shrink(case, fails)
            finding = again(case) or finding
        if finding.code in _EXPLAINED:
            with contextlib.suppress(Exception):
                finding = explain(case, finding, original=original)
        if finding.evidence is not None:
            with contextlib.suppress(Exception):
                finding = finding.but(evidence=with_ladder(finding.evidence, case))
        with contextlib.suppress(Exception):
            finding = finding.but(repro=finding.repro or repro(case))
    return finding


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Thousands of small calls would mostly wait for one another's threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
