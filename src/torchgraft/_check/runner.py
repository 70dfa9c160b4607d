"""Run checks on cases, and turn what they find into findings that explain themselves."""

from __future__ import annotations

import contextlib
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from .. import _torch
from .case import Case
from .cause.explain import explain
from .cause.faults import with_fault, with_faults
from .checks.calls import noise
from .checks.table import Check
from .checks.unwritten import filled, with_unwritten
from .children import hangs_in_child, may_fork, survive, threads
from .clock import Clock, OutOfTime
from .code import is_native
from .ended import Ended, Hung
from .endless import GUARD, MINUTE
from .finding import Finding, Inconclusive, Skip, Verdict
from .numeric.gradient import WRONG_AT_TIES, gradient
from .numeric.probe import is_smooth, with_ladder
from .progress import Progress
from .report.result import Result
from .repro import repro
from .shrink import TRIES, shrink
from .target import OWN
from .variations import has_indices, within
from .work import affordable

FEW = 4
"""Cases that a check of the cost ``cheap`` sees."""

CALLS = 4_000
"""Calls of the target that the search for a smaller case may take."""

FEW_TRIES = 2
"""Smaller cases that are tried with checks that need a compiler or children of their own."""

LARGE = 100_000
"""Elements of cases from which on torch has as many threads as it is set to, and one check alone fills memory."""

FEW_ELEMENTS = 64
"""Elements of a derived case whose Jacobians are looked at."""

OUTWEIGHS = 1000
"""The multiple of the noise from call to call that a difference has at least, where it shows something else.

Where each call adds to what the one before has left, calls far apart differ by more than two in a row.
"""

ENDS = 2
"""Checks that may end their process, or try to, before the others of their kind are not tried."""

POINTED = ("GridSampler",)
"""Beginnings of names of torch's nodes whose kernels read where numbers point, whatever they are."""

_EXPLAINED = ("wrong-gradient", "loses-digits", "wrong-at-ties", "nonlinear-backward", "wrong")
"""Codes that Jacobians explain; of "wrong-second-derivative" and "wrong-gradient-at-size" the first words.

Those of a second derivative are the Jacobians of the backward, where the check gives it as a case.
"""


@dataclass
class Memory:
    """Facts that the checks of one target share.

    Attributes:
        told: keys of what was found, by whichever check: it is not explained again.
        ends: number of the ends of children, by what their checks probed; and of those in this process, by None.
        forks: the target can be called in a forked child.
        endless: number of calls in this process that did not end.
    """

    told: set[str] = field(default_factory=set)
    ends: Counter[str | None] = field(default_factory=Counter)
    forks: bool = True
    endless: int = 0


def run(
    checks: Sequence[Check],
    cases: Sequence[Case],
    clock: Clock,
    progress: Progress = lambda number, count, name: None,
    memory: Memory | None = None,
) -> Iterator[Result]:
    """Run checks, and tell how each ended on each of its cases.

    Those that may end the process come last, in one child where there can be one.

    Args:
        checks: to run, in this order.
        cases: plain ones first.
        clock: what is not begun when its time is over is listed as not tried.
        progress: is told of each check before it begins, and of those in one child together.
        memory: of the checks that ran before.
    """
    memory = memory or Memory()
    small = sum(leaf.numel() for case in cases for leaf in case.leaves if isinstance(leaf, torch.Tensor)) < LARGE

    @contextlib.contextmanager
    def prepared() -> Iterator[None]:
        # Small calls in several threads would mostly wait for one another.
        with threads(1 if small else torch.get_num_threads()), filled() if small else contextlib.nullcontext():
            yield

    risky: list[Check] = []
    with prepared(), contextlib.suppress(OutOfTime, _torch.TooMuch):
        if not _survives_calls(checks, cases):
            memory.ends["calls"] += 1
        risky = [check for check in checks if is_risky(check, cases[0])]
    groups = [[check] for check in checks if check not in risky]
    together = may_fork() and not memory.ends.keys() - {None}
    groups += [risky] if risky and together else [[check] for check in risky]
    begun = 1
    for group in groups:
        progress(begun, len(checks), ", ".join(check.name for check in group))
        with prepared():
            results = _survived(group, cases, clock, memory)
        yield from results
        begun += len(group)


def _survived(checks: Sequence[Check], cases: Sequence[Case], clock: Clock, memory: Memory) -> list[Result]:
    """Run checks, in a child if they are risky; the end of its process is the result of the check that ran."""
    if clock.over:
        return [_untried(check, f"the {clock.budget:.3g} s were over") for check in checks]
    apart = memory.forks and (bool(memory.ends.keys() - {None}) or is_risky(checks[0], cases[0]))
    kind = checks[0].probes or "calls" if apart or checks[0].probes == "children" else None
    if memory.endless >= ENDS:
        return [_untried(check, f"{ENDS} calls did not end") for check in checks]
    if memory.ends[None] >= ENDS or (len(checks) == 1 and memory.ends[kind] >= ENDS):
        untried = [_untried(check, f"{ENDS} checks have ended their process") for check in checks]
        # What ends in this process, or with the given arguments, was told before.
        return [replace(result, verdict=Verdict.SKIPPED) for result in untried] if _is_of_torch(cases[0]) else untried
    ended = GUARD.ended
    try:
        results = survive(lambda: _results(checks, cases, clock, memory), apart=apart)
    except Exception as error:  # The process has ended, or a result cannot be pickled.
        if isinstance(error, Hung) and memory.forks and hangs_in_child(cases[0].values):
            memory.forks = False
            return _survived(checks, cases, clock, memory)
        if len(checks) > 1:
            return [result for check in checks for result in _survived([check], cases, clock, memory)]
        results = [_failed(checks[0], cases[0], error)]
        if isinstance(error, Ended):
            memory.ends[kind] += 1
    memory.endless += GUARD.ended - ended
    memory.told.update(finding.key for result in results for finding in result.findings)
    if is_risky(checks[0], cases[0]) and not (memory.forks and may_fork()):
        results = [replace(result, note=result.note or _HERE) for result in results]
    return results


def _failed(check: Check, case: Case, error: Exception) -> Result:
    if isinstance(error, Ended):
        elsewhere = check.probes in ("sizes", "forwards", "children") and error.call not in ("", case.identity)
        if error.call == case.identity and has_indices(case):  # It lives here: others have written where they point.
            elsewhere, error.call = True, f"a call after some with other arguments; {error.call}"
        result = with_faults(case, error.result(check.name), check.look)
        return _noted(result) if type(error) is Ended and elsewhere and _is_of_torch(case) else result
    return Result(check.name, check.title, Verdict.INCONCLUSIVE, note=f"raised {type(error).__name__}: {error}")


def _noted(result: Result) -> Result:
    """Turn findings into notices: torch's kernels are not made for all arguments, and nobody asked for these."""
    words = "with arguments you did not give"
    findings = [f.but(severity=Verdict.PASS, title=f"{f.title}, {words}", given=False) for f in result.findings]
    return replace(result, verdict=Verdict.SKIPPED, note=f"it ends its process {words}", findings=tuple(findings))


def _results(checks: Sequence[Check], cases: Sequence[Case], clock: Clock, memory: Memory) -> list[Result]:
    """Run checks in this process."""
    ran = (list(_run_cases(check, _cases_for(check, cases), clock, memory.told)) for check in checks)
    return [result for results in ran for result in _judged(results)]


def _survives_calls(checks: Sequence[Check], cases: Sequence[Case]) -> bool:
    """Look once in a child whether a C function of an operator ends the process: it may step out of its memory.

    Nothing is kept of what is found. If the child dies, each check has one.
    """
    asked = any(check.look is gradient for check in checks)
    if not asked or cases[0].target.operator is None or not is_native(cases[0].target) or not may_fork():
        return True

    def look() -> None:
        for case in cases:
            with contextlib.suppress(Exception):  # It is told where it is found again.
                list(gradient(case))

    try:
        survive(look, apart=True)
    except Ended:
        return False
    return True


_HERE = "tried last, for a crash would have ended this process: there was no child to try it in"


def is_risky(check: Check, case: Case) -> bool:
    """Return True if a check makes calls of this target that may end the process.

    Native code may fail at a size, and, other than a torchgraft operator's, whose arguments are checked before it is
    called, on whatever its author did not think of: some of torch's own kernels write out of their memory at other
    sizes and indices. Batched gradients end the process where a backward takes ``grad.data``.
    """
    operator = case.target.operator is not None
    if check.probes == "children":
        return False
    if _is_native(case):
        return not operator or check.probes in ("sizes", "forwards")
    if check.probes in ("sizes", "forwards") and (not operator or has_indices(case) or _reads_where_told(case)):
        return True
    return check.probes == "batches" and not operator and _has_functions(case)


def _is_native(case: Case) -> bool:
    if "native" not in case.memo:  # Every check asks.
        case.memo["native"] = is_native(case.target)
    return bool(case.memo["native"])


def _is_of_torch(case: Case) -> bool:
    """Return True if all that computes is torch's own."""
    return case.target.kind not in OWN and not _is_native(case) and not _has_functions(case)


def _reads_where_told(case: Case) -> bool:
    """Return True if a kernel of torch's takes part that crashes where arguments are NaN, or point out of others."""
    return _graph_of(case)[1]


def _has_functions(case: Case) -> bool:
    """Return True if derivatives that are not torch's own take part."""
    return _graph_of(case)[0]


def _graph_of(case: Case) -> tuple[bool, bool]:
    """Tell whether Functions take part, and kernels that read where they are told; every check asks."""
    if "graph" not in case.memo:
        case.memo["graph"] = False, False
        with contextlib.suppress(Exception):  # The check will say what is wrong.
            outputs = case.linearize().outputs
            pointed = any(node.name().startswith(POINTED) for node in _torch.nodes_in_graph(outputs))
            case.memo["graph"] = bool(_torch.functions_in_graph(outputs)), pointed
    return case.memo["graph"]  # type: ignore[no-any-return]


def run_check(check: Check, case: Case, told: set[str]) -> Result:
    """Run one check on one case.

    Args:
        check: to run.
        case: to run it on.
        told: keys of what was found already, by whichever check: it is not explained again. New keys are added.
    """
    start, note, found = time.perf_counter(), "", list[Finding]()
    verdict = Verdict.PASS
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # Warnings of a target under odd inputs are not looked for.
        # A backward that draws must not draw what its forward has drawn by chance. `torch.manual_seed` would seed the
        # generators of all devices too, and keep a traceback for each.
        torch.default_generator.manual_seed(case.seed + 1)
        try:
            looked = list(check.look(case))
            if not check.despite_noise:
                _require_more_than_noise(case, looked)
            found = looked
            verdict = max((f.severity for f in found), key=list(Verdict).index, default=Verdict.PASS)
            found = [f.but(case=None) if f.key in told else _concluded(check, case, f) for f in found]
            told.update(finding.key for finding in found)
        except Skip as why:
            verdict, note = Verdict.SKIPPED, str(why)
        except Inconclusive as why:
            verdict, note = Verdict.INCONCLUSIVE, str(why)
        except Exception as error:  # The target raised where no check expects it, or a check is wrong: no pass.
            if isinstance(error, Ended) and check.probes == "children":
                raise
            verdict, note = Verdict.INCONCLUSIVE, f"raised {type(error).__name__}: {error}".split("\n")[0]
        except _torch.TooMuch:
            verdict, note = Verdict.INCONCLUSIVE, f"a call was ended after {MINUTE:.0f} s of CPU time or more"
    seconds = time.perf_counter() - start
    return Result(check.name, check.title, verdict, case.label, note, tuple(found), seconds)


def _require_more_than_noise(case: Case, found: Sequence[Finding]) -> None:
    """Make sure that calls differ by more than the same call differs from itself.

    Raises:
        Inconclusive: they do not, and so the way in which they are made need not be the cause.
    """
    errors = [f.error for f in found if f.severity is Verdict.FAIL]
    if errors and all(error is not None and error <= OUTWEIGHS * noise(case) for error in errors):
        raise Inconclusive("the same call gives another result each time, which the check of determinism tells")


def _cases_for(check: Check, cases: Sequence[Case]) -> Sequence[Case]:
    """Select cases by cost: all, the first few, or for a check that runs once the last of these in most digits.

    Among the few is one with as many axes as there are: of one axis, or of size 1, layouts and sizes tell little.
    """
    match check.cost:
        case "every":
            return cases
        case "cheap":
            widest = max(cases, key=_axes)
            enough = _axes(widest) == max(map(_axes, cases[:FEW]))
            return cases[:FEW] if enough else [*cases[: FEW - 1], widest]
        case _:
            return [max(reversed(cases[:FEW]), key=lambda case: (_digits(case), _axes(case)))]


def _axes(case: Case) -> int:
    """Return the largest number of axes of a primal, of those along which it has several elements."""
    return max((sum(size > 1 for size in primal.shape) for primal in case.primals if primal.numel()), default=0)


def _digits(case: Case) -> int:
    """Return the bits of the least precise primal: differences in sixteen of them tell little."""
    return min((torch.finfo(primal.dtype).bits for primal in case.primals), default=0)


def _run_cases(check: Check, cases: Sequence[Case], clock: Clock, told: set[str]) -> Iterator[tuple[Case, Result]]:
    """Run a check case by case, until one fails; of those that lose digits the first is told."""
    slight = False
    for case in cases:
        start = clock.passed
        try:
            result = run_check(check, case, told)
        except OutOfTime:
            yield case, _untried(check, f"the {clock.budget:.3g} s were over", clock.passed - start)
            return
        if not (slight and result.verdict is Verdict.LOSES_DIGITS):
            yield case, result
        slight = slight or result.verdict is Verdict.LOSES_DIGITS
        if result.verdict is Verdict.FAIL:
            return


def _judged(ran: Sequence[tuple[Case, Result]]) -> Iterator[Result]:
    """Downgrade INCONCLUSIVE to SKIPPED for odd cases, where one that is no odder has passed."""
    passed = [case.traits for case, result in ran if result.verdict is Verdict.PASS and _has_elements(case)]
    for case, result in ran:
        odd = case.traits or (frozenset() if _has_elements(case) else frozenset({"empty"}))
        if result.verdict is Verdict.INCONCLUSIVE and odd and any(traits <= odd for traits in passed):
            note = f"could not be told with {', '.join(sorted(odd))}: {result.note}"
            yield Result(result.check, result.title, Verdict.SKIPPED, result.case, note, (), result.seconds)
        else:
            yield result


def _has_elements(case: Case) -> bool:
    return not case.primals or any(primal.numel() for primal in case.primals)


def _untried(check: Check, why: str, seconds: float = 0.0) -> Result:
    """Nothing is proved by what was not tried, or not to its end."""
    return Result(check.name, check.title, Verdict.INCONCLUSIVE, note=f"not tried: {why}", seconds=seconds)


# -- from a finding to the paragraph about it ---------------------------------------------------------------------


def _concluded(check: Check, case: Case, finding: Finding) -> Finding:
    """Conclude in a child where the target may end the process at a smaller size."""
    try:
        apart = _is_native(case) or has_indices(case)
        return survive(lambda: conclude(check, case, finding), apart=apart)
    except (Ended, _torch.TooMuch):
        return finding


def conclude(check: Check, case: Case, finding: Finding) -> Finding:
    """Return the finding as the smallest case shows it, with its cause and a reproduction, as far as they are known."""
    if finding.severity is Verdict.PASS:  # It is a notice.
        return finding.but(case=None)
    with threads(1):  # Thousands of small calls would mostly wait for one another's threads.
        if finding.case is not None and (finding.case.target.state or finding.case.target.origin is case.target.origin):
            return _of_variant(finding.case, finding)
        smallest, finding = _smallest(check, case, finding)
        if finding.case is not None or "-second" in finding.code:
            return _explained(smallest, finding, of=finding.case)
        return _explained(smallest, finding, of=smallest, original=case)


def _smallest(check: Check, case: Case, finding: Finding) -> tuple[Case, Finding]:
    """The smallest case with the same finding, and the finding there."""

    def again(smaller: Case) -> Finding | None:
        return next((found for found in check.look(smaller) if _may_be(found, finding)), None)

    dear = check.needs or check.probes == "children"
    with contextlib.suppress(Exception, OutOfTime):  # Odd targets can break it.
        smooth = finding.code != WRONG_AT_TIES and _is_smooth(case)

        def shows(smaller: Case) -> bool:
            # Where ones make a matrix singular, something else is wrong, or nothing.
            return again(smaller) is not None and (not smooth or _is_smooth(smaller))

        case = _shrunk(case, shows, tries=FEW_TRIES if dear else TRIES)
        finding = again(case) or finding
    return case, finding


def _may_be(found: Finding, given: Finding) -> bool:
    """Return True if a finding may have the cause of the given one: it is as bad, and blames nothing else."""
    alike = found.code == given.code and found.severity is given.severity
    return alike and (not _blamed(given) or _blamed(found) <= _blamed(given))


def _blamed(finding: Finding) -> set[str]:
    return set(re.findall("`([^`]+)`", finding.where.partition(";")[0]))


def _is_smooth(case: Case) -> bool:
    with contextlib.suppress(Exception):  # It cannot be told.
        return is_smooth(case)
    return False


def _shrunk(case: Case, shows: Callable[[Case], bool], *, tries: int = TRIES, resize: bool = True) -> Case:
    """The smallest case that shows something, within the declared domain, and a number of calls."""

    def fails(smaller: Case) -> bool:
        try:
            return within(smaller) and shows(smaller)
        except OutOfTime:
            return False

    clock = Clock(calls=affordable(case, CALLS))
    found = shrink(clock.watch_case(case), fails, tries=tries, resize=resize)
    found.target = case.target
    return found


def _of_variant(variant: Case, finding: Finding) -> Finding:
    """The finding of a case that was derived from the given one: of its sizes, with simpler values."""

    def shows(smaller: Case) -> bool:
        return any(found.severity is finding.severity for found in gradient(smaller))

    smallest, of = variant, None
    with contextlib.suppress(Exception, OutOfTime):
        of = variant if shows(variant) and sum(p.numel() for p in variant.primals) <= FEW_ELEMENTS else None
        smallest = variant if of is None else _shrunk(variant, shows, resize=False)
    return _explained(smallest, finding, of=smallest if of is not None else None, original=of)


def _explained(case: Case, finding: Finding, *, of: Case | None, original: Case | None = None) -> Finding:
    """The finding with a cause, the numbers behind it, and text that shows it again.

    Args:
        case: to be shown again.
        finding: to explain.
        of: the case whose Jacobians explain it.
        original: that case before it was shrunk.
    """
    finding, said = finding.but(case=None), finding.cause
    if of is not None and finding.code.partition("-at-")[0].partition("-second")[0] in _EXPLAINED:
        with contextlib.suppress(Exception, OutOfTime):
            finding = explain(of, finding.but(cause=None), original=original)
        finding = finding.but(cause="; ".join(filter(None, [said, finding.cause])) or None)
    if finding.severity is Verdict.FAIL:
        finding = with_fault(case, with_unwritten(case, finding))
    if finding.evidence is not None and of is not None:
        with contextlib.suppress(Exception, OutOfTime):
            finding = finding.but(evidence=with_ladder(finding.evidence, of))
    with contextlib.suppress(Exception, OutOfTime):
        finding = finding.but(repro=finding.repro or repro(case))
    return finding
