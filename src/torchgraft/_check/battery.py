"""The battery: every contract on the cases that it is for, in the order of cost, until all are done or time is over."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import get_args

import torch

from . import contracts as contracts  # which adds them
from .case import Case
from .clock import Clock, OutOfTime
from .conclude import concluded
from .contract import CONTRACTS, Contract, Cost
from .finding import Finding, Inconclusive, Skip, Verdict
from .numeric import gradient as gradient  # as does this
from .report.report import Result

FEW = 4
"""Cases that a contract of the cost ``cheap`` sees."""

Progress = Callable[[str], None]


def chosen(only: Iterable[str] = (), skip: Iterable[str] = (), *, inductor: bool = False) -> list[Contract]:
    """The contracts to run: all, or those that are named, without those that cost a compiler unless asked for.

    Raises:
        KeyError: there is no contract of a name.
    """
    only, skip = set(only), set(skip)
    for name in (only | skip) - set(CONTRACTS):
        raise KeyError(name)
    found = [c for c in CONTRACTS.values() if (not only or c.name in only) and c.name not in skip]
    found = [c for c in found if c.cost != "inductor" or inductor or c.name in only]
    return sorted(found, key=lambda c: get_args(Cost).index(c.cost))


def run(
    wanted: Sequence[Contract], cases: Sequence[Case], clock: Clock, progress: Progress = lambda name: None
) -> Iterator[Result]:
    """How each contract ended on each of its cases.

    Args:
        wanted: what is looked at.
        cases: plain ones first.
        clock: what is not begun when its time is over is listed as not tried.
        progress: is told the name of each contract before it begins.
    """
    told: set[str] = set()
    for contract in wanted:
        progress(contract.name)
        if clock.over:
            yield _untried(contract, clock)
            continue
        yield from _settled(list(_looked(contract, _share(contract, cases), clock, told)))


def _share(contract: Contract, cases: Sequence[Case]) -> Sequence[Case]:
    """The cases that a contract sees: the first are the plainest; the one to run once is the last of those."""
    match contract.cost:
        case "every":
            return cases
        case "cheap":
            return cases[:FEW]
        case _:
            return cases[: min(FEW, len(cases))][-1:]


def _looked(contract: Contract, cases: Sequence[Case], clock: Clock, told: set[str]) -> Iterator[tuple[Case, Result]]:
    """Case by case, until one shows that the contract is broken."""
    for case in cases:
        start = clock.passed
        try:
            result = look(contract, case, told)
        except OutOfTime:
            yield case, _untried(contract, clock, clock.passed - start)
            return
        yield case, result
        if result.verdict in (Verdict.FAIL, Verdict.LOSES_DIGITS):
            return


def look(contract: Contract, case: Case, told: set[str] | None = None) -> Result:
    """One contract on one case.

    Args:
        told: what was found already, by whichever contract: it is not explained again. New findings are added.
    """
    told = set() if told is None else told
    start, note, found = time.perf_counter(), "", list[Finding]()
    verdict = Verdict.PASS
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # what a target warns of under odd inputs is not what is looked for
        torch.manual_seed(case.seed)  # for what draws random numbers in its backward
        try:
            found = list(contract.look(case))
            verdict = max((f.severity for f in found), key=list(Verdict).index, default=Verdict.PASS)
            found = [finding if finding.key in told else concluded(contract, case, finding) for finding in found]
            told.update(finding.key for finding in found)
        except Skip as why:
            verdict, note = Verdict.SKIPPED, str(why)
        except Inconclusive as why:
            verdict, note = Verdict.INCONCLUSIVE, str(why)
        except Exception as error:  # the target raised where no contract expects it, or a contract is wrong: no pass
            verdict, note = Verdict.INCONCLUSIVE, f"raised {type(error).__name__}: {error}".split("\n")[0]
    seconds = time.perf_counter() - start
    return Result(contract.name, contract.title, verdict, case.label, note, tuple(found), seconds)


def _settled(looked: Sequence[tuple[Case, Result]]) -> Iterator[Result]:
    """What could not be told on an odd case is no more than skipped, where a plain one has passed."""
    passed = any(result.verdict is Verdict.PASS and not case.traits for case, result in looked)
    for case, result in looked:
        if result.verdict is Verdict.INCONCLUSIVE and case.traits and passed:
            note = f"could not be told with {', '.join(sorted(case.traits))}: {result.note}"
            yield Result(result.check, result.title, Verdict.SKIPPED, result.case, note, (), result.seconds)
        else:
            yield result


def _untried(contract: Contract, clock: Clock, seconds: float = 0.0) -> Result:
    """Nothing is proved by what was not tried, or not to its end."""
    note = f"not tried: the {clock.budget:.3g} s were over"
    return Result(contract.name, contract.title, Verdict.INCONCLUSIVE, note=note, seconds=seconds)
