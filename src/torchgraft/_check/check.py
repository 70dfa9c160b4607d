"""`tg.check`: run the battery on a target."""

from __future__ import annotations

import time
from typing import Any

from .case import Case
from .contract import CONTRACTS, Contract
from .finding import Finding, Inconclusive, Skip, Verdict
from .report import Report, Result
from .target import make_target


def check(target: Any, *inputs: Any, seed: int = 0) -> Report:
    """Prove a derivative: thin slice, to be completed."""
    made = make_target(target)
    args = (dict(target.named_parameters()), *inputs) if made.kind == "module" else inputs
    cases = [Case(made, args, seed=seed)]
    return Report(made.name, made.kind, [_run(c, case) for c in CONTRACTS.values() for case in cases], seed)


def _run(contract: Contract, case: Case) -> Result:
    start, note, found = time.perf_counter(), "", list[Finding]()
    verdict = Verdict.PASS
    try:
        found = list(contract.look(case))
        verdict = max((f.severity for f in found), key=list(Verdict).index, default=Verdict.PASS)
    except Skip as why:
        verdict, note = Verdict.SKIPPED, str(why)
    except Inconclusive as why:
        verdict, note = Verdict.INCONCLUSIVE, str(why)
    seconds = time.perf_counter() - start
    return Result(contract.name, contract.title, verdict, case.label, note, tuple(found), seconds)
