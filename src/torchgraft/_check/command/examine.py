"""One target of the command, in this process or in one of its own."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..._errors import DeclarationError, TorchgraftError
from ..._locate import own_line
from ..checks.table import NAMED, chosen
from ..clock import Clock
from ..finding import Finding, Verdict
from ..prepare import SAMPLES, Prepared, prepare
from ..report.report import Report, Result
from ..runner import run
from .collect import Entry, collect
from .contain import contained, how
from .isolate import Crashed, Hung, Left, isolated

BEGUN = ""
"""Stands for the begin of the work."""

ALIVE = "The target comes back, and leaves the interpreter alive."

GRACE = 2.0
"""Seconds after the end of its time in which a process may end by itself."""


@dataclass(frozen=True)
class Settings:
    """How targets are checked.

    Attributes:
        seed: of all random numbers.
        only: names of the checks that are run; all where it is empty.
        skip: names of those that are not.
        inductor: run those that need Inductor too.
        device: where the tensors are.
        isolate: in a process of its own.
    """

    seed: int = 0
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    inductor: bool = False
    device: str = "cpu"
    isolate: bool = False

    def checks(self) -> list[str]:
        """The names of the checks that are run.

        Raises:
            ArgumentError: there is no check of a name.
        """
        return [check.name for check in chosen(self.only, self.skip, inductor=self.inductor)]

    def look_at_device(self, option: str) -> None:
        """Make sure that there is the device that an option names.

        Raises:
            TorchgraftError: there is not.
        """
        try:
            torch.empty(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).partition("\n")[0]
            raise TorchgraftError("cannot be used", argument=option, expected="cpu, cuda, ...", got=reason) from error


def collected(place: str, settings: Settings) -> list[Entry]:
    """What `collect` finds; where targets are isolated, the user's code is not imported into this process.

    Raises:
        DeclarationError: as `collect` does, and where an import crashes the interpreter.
    """
    if not settings.isolate:
        return collect(place)
    try:
        return list(isolated(collect, place))
    except Crashed as end:
        raise DeclarationError(
            "cannot be imported", argument=place, expected="a Python file, or a module", got=f"the process ended: {end}"
        ) from None


def examine(entry: Entry, settings: Settings, clock: Clock, left: int, progress: Callable[[str], None]) -> Report:
    """Check a target.

    Args:
        entry: of the target.
        settings: of the checks.
        clock: of all targets; it does not count what a process needs for its imports.
        left: targets, this one included, that share what is left of the time.
        progress: is told the name of each check before it begins.
    """
    report = Report(entry.place, entry.kind, seed=settings.seed)
    if entry.why_not:
        results = [Result("samples", SAMPLES, Verdict.SKIPPED, note=entry.why_not)]
    elif clock.over:
        results = [Result("samples", SAMPLES, Verdict.INCONCLUSIVE, note="not tried: the time was over")]
    else:
        results = list(_watched(entry, settings, clock, left, progress))
    report.results = [with_repro(result, entry, settings) for result in results]
    return report


def _watched(
    entry: Entry, settings: Settings, clock: Clock, left: int, progress: Callable[[str], None]
) -> Iterator[Result]:
    """The results, whatever becomes of the process in which they are made."""
    budget = None if clock.budget is None else (clock.budget - clock.passed) / max(left, 1)
    current, started = "", clock.passed
    try:
        for said in _said(entry, settings, budget):
            if said == BEGUN:
                clock.forgive(clock.passed - started)
            elif isinstance(said, str):
                current = said
                progress(said)
            else:
                yield said
    except (Crashed, Hung) as end:
        yield from _ended(end, entry, settings, current)
    except SystemExit as error:  # a target that leaves must not leave with a status of its own
        yield from _ended(Left(how(error), own_line(error) or ""), entry, settings, current)


def _said(entry: Entry, settings: Settings, budget: float | None) -> Iterable[str | Result]:
    if settings.isolate:
        limit = None if budget is None else budget + GRACE
        return isolated(steps, entry, settings, budget, limit=limit)
    return steps(entry, settings, budget)


def steps(entry: Entry, settings: Settings, budget: float | None) -> Iterator[str | Result]:
    """The name of each check, before it begins, and its results; `BEGUN` first of all."""
    yield BEGUN
    with contained():
        prepared = ready(entry, settings, Clock(budget))
    yield from prepared.results
    for check in chosen(settings.only, settings.skip, inductor=settings.inductor) if prepared.cases else ():
        yield check.name
        with contained():
            results = list(run([check], prepared.cases, prepared.clock))
        yield from results


def ready(entry: Entry, settings: Settings, clock: Clock) -> Prepared:
    """The cases of a target; where its author's code raises before the first call, what it raised."""
    made: Any = None
    try:
        made = entry.target()
        return prepare(made, seed=settings.seed, clock=clock, device=settings.device)
    except Exception as error:
        return Prepared(made, clock, results=[_raised(error)])


def _raised(error: Exception) -> Result:
    finding = Finding(
        "raises", Verdict.FAIL, f"{type(error).__name__} before anything was called", where=own_line(error) or "",
        cause=str(error), hint="look at the samples, or at how the target is made",
    )  # fmt: skip
    return Result("samples", SAMPLES, Verdict.FAIL, findings=(finding,))


def _ended(end: Crashed | Hung, entry: Entry, settings: Settings, check: str) -> Iterator[Result]:
    """What is to be said of a process that did not come to its end, and the checks that were not tried."""
    name, checks = check or "samples", settings.checks()
    match end:
        case Hung():
            why = "the time was over"
            note = f"{why}, and a call did not end: the process was killed"
            yield Result(name, ALIVE, Verdict.INCONCLUSIVE, note=note)
        case Left():
            why = "the target had left"
            yield left(end, name)
        case _:
            why = "the process had ended"
            yield _crashed(end, name, entry)
    rest = checks[checks.index(name) + 1 :] if name in checks else checks
    yield from (Result(one, NAMED[one].title, Verdict.INCONCLUSIVE, note=f"not tried: {why}") for one in rest)


def left(end: Left, check: str) -> Result:
    """What is to be said of a target that would leave the interpreter."""
    finding = Finding(
        "crash", Verdict.FAIL, f"The target leaves the interpreter: {end.how}", where=end.where,
        hint="raise an exception that says what is wrong",
    )  # fmt: skip
    return Result(check, ALIVE, Verdict.FAIL, findings=(finding,))


def _crashed(end: Crashed, check: str, entry: Entry) -> Result:
    native = "if its kernel is in C, TORCHGRAFT_DEBUG=1 looks at what it does to memory"
    finding = Finding(
        "crash", Verdict.FAIL, f"The process of the target ended: {end.how}", where=end.where,
        cause="the target, or what it calls, crashed the interpreter, or left it",
        hint=native if entry.kind == "operator" else None,
    )  # fmt: skip
    return Result(check, ALIVE, Verdict.FAIL, findings=(finding,))


def with_repro(result: Result, entry: Entry, settings: Settings) -> Result:
    """Its findings with a command that shows them again, where they have none."""
    words = ["torchgraft", "check", entry.place]
    words += ["--only", result.check] if result.check != "samples" else []
    words += ["--seed", str(settings.seed)] if settings.seed else []
    words += ["--device", settings.device] if settings.device != "cpu" else []
    words += ["--isolate"] if settings.isolate else []
    command = shlex.join(words)
    return replace(result, findings=tuple(f.but(repro=f.repro or command) for f in result.findings))
