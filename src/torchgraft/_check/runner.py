"""Run checks on cases, and turn what they find into findings that explain themselves."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import torch

from .case import Case
from .cause.explain import explain
from .checks.table import Check
from .clock import Clock, OutOfTime
from .finding import Finding, Inconclusive, Skip, Verdict
from .generate.values import within
from .report.evidence import with_ladder
from .report.report import Result
from .repro import repro
from .shrink import shrink

FEW = 4
"""Cases that a check of the cost ``cheap`` sees."""

PATIENCE = 2.0
"""Seconds that the search for a smaller case may take."""

_EXPLAINED = ("wrong-gradient", "loses-digits", "wrong-at-ties", "nonlinear-backward")

Progress = Callable[[str], None]


def run(
    checks: Sequence[Check], cases: Sequence[Case], clock: Clock, progress: Progress = lambda name: None
) -> Iterator[Result]:
    """Run checks, and tell how each ended on each of its cases.

    Args:
        checks: to run, in this order.
        cases: plain ones first.
        clock: what is not begun when its time is over is listed as not tried.
        progress: is told the name of each check before it begins.
    """
    told: set[str] = set()
    for check in checks:
        progress(check.name)
        if clock.over:
            yield _untried(check, clock)
        else:
            yield from _judged(list(_run_cases(check, _cases_for(check, cases), clock, told)))


def run_check(check: Check, case: Case, told: set[str] | None = None) -> Result:
    """Run one check on one case.

    Args:
        check: to run.
        case: to run it on.
        told: keys of what was found already, by whichever check: it is not explained again. New keys are added.
    """
    told = set() if told is None else told
    start, note, found = time.perf_counter(), "", list[Finding]()
    verdict = Verdict.PASS
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # what a target warns of under odd inputs is not what is looked for
        torch.manual_seed(case.seed)  # for what draws random numbers in its backward
        try:
            found = list(check.look(case))
            verdict = max((f.severity for f in found), key=list(Verdict).index, default=Verdict.PASS)
            found = [finding if finding.key in told else conclude(check, case, finding) for finding in found]
            told.update(finding.key for finding in found)
        except Skip as why:
            verdict, note = Verdict.SKIPPED, str(why)
        except Inconclusive as why:
            verdict, note = Verdict.INCONCLUSIVE, str(why)
        except Exception as error:  # the target raised where no check expects it, or a check is wrong: no pass
            verdict, note = Verdict.INCONCLUSIVE, f"raised {type(error).__name__}: {error}".split("\n")[0]
    seconds = time.perf_counter() - start
    return Result(check.name, check.title, verdict, case.label, note, tuple(found), seconds)


def _cases_for(check: Check, cases: Sequence[Case]) -> Sequence[Case]:
    """Select cases by cost: all, the first few, or the last of the first few for a check that runs once."""
    match check.cost:
        case "every":
            return cases
        case "cheap":
            return cases[:FEW]
        case _:
            return cases[: min(FEW, len(cases))][-1:]


def _run_cases(check: Check, cases: Sequence[Case], clock: Clock, told: set[str]) -> Iterator[tuple[Case, Result]]:
    """Run a check case by case, until one fails."""
    for case in cases:
        start = clock.passed
        try:
            result = run_check(check, case, told)
        except OutOfTime:
            yield case, _untried(check, clock, clock.passed - start)
            return
        yield case, result
        if result.verdict in (Verdict.FAIL, Verdict.LOSES_DIGITS):
            return


def _judged(ran: Sequence[tuple[Case, Result]]) -> Iterator[Result]:
    """Downgrade INCONCLUSIVE to SKIPPED for odd cases, where a plain one has passed."""
    passed = any(result.verdict is Verdict.PASS and not case.traits for case, result in ran)
    for case, result in ran:
        if result.verdict is Verdict.INCONCLUSIVE and case.traits and passed:
            note = f"could not be told with {', '.join(sorted(case.traits))}: {result.note}"
            yield Result(result.check, result.title, Verdict.SKIPPED, result.case, note, (), result.seconds)
        else:
            yield result


def _untried(check: Check, clock: Clock, seconds: float = 0.0) -> Result:
    """Nothing is proved by what was not tried, or not to its end."""
    note = f"not tried: the {clock.budget:.3g} s were over"
    return Result(check.name, check.title, Verdict.INCONCLUSIVE, note=note, seconds=seconds)


# -- from a finding to the paragraph about it ---------------------------------------------------------------------


def conclude(check: Check, case: Case, finding: Finding) -> Finding:
    """Return the finding as the smallest case shows it, with its cause and a reproduction, as far as they are known."""
    if finding.severity is Verdict.PASS:  # a notice
        return finding
    clock, original = Clock(PATIENCE), case

    def again(smaller: Case) -> Finding | None:
        return next((f for f in check.look(smaller) if f.code == finding.code), None)

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
    """Compute in one thread: thousands of small calls would mostly wait for one another's threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
