"""Check one target of the command, in this process or in one of its own."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..._errors import DeclarationError, TorchgraftError
from ..._locate import own_line
from ..checks.table import NAMED, Check, chosen
from ..clock import Clock
from ..ended import Ended
from ..finding import Finding, Verdict
from ..prepare import SAMPLES, Prepared, prepare
from ..report.report import Report
from ..report.result import Result
from ..runner import Memory, run
from .collect import Entry, Said, collect
from .contain import contained, isolated

GRACE = 2.0
"""Seconds after the end of its time in which a process may end by itself."""


@dataclass(frozen=True)
class Settings:
    """Options of the checks, each as the command names it."""

    seed: int = 0
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    compilers: bool = False
    inductor: bool = False
    device: str = "cpu"
    isolate: bool = False
    said: Said = field(default_factory=Said)

    def checks(self) -> list[Check]:
        """Return the checks to run.

        Raises:
            ArgumentError: there is no check of a name.
        """
        return chosen(self.only, self.skip, compilers=self.compilers, inductor=self.inductor)

    def require_device(self, option: str) -> None:
        """Make sure that there is the device that an option names.

        Raises:
            TorchgraftError: there is not.
        """
        try:
            torch.empty(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).partition("\n")[0]
            raise TorchgraftError("cannot be used", argument=option, expected="cpu, cuda, ...", got=reason) from error


def find_entries(place: str, settings: Settings) -> list[Entry]:
    """Return what `collect` finds; with ``isolate`` the user's code is not imported into this process.

    Raises:
        DeclarationError: as `collect` does, and where an import crashes the interpreter.
    """
    try:
        return list(isolated(collect, place, settings.said)) if settings.isolate else collect(place, settings.said)
    except Ended as end:
        got = f"the process ended: {end.how}" + (f" in {end.where}" if end.where else "")
        expected = "a Python file, or a module"
        raise DeclarationError("cannot be imported", argument=place, expected=expected, got=got) from None


def examine(entry: Entry, settings: Settings, clock: Clock, left: int, progress: Callable[[str], None]) -> Report:
    """Check a target.

    Args:
        entry: of the target.
        settings: of the checks.
        clock: of all targets; the imports of a process do not count.
        left: number of targets, this one included, that share the time that is left.
        progress: is told the name of each check before it begins.
    """
    if entry.why_not:
        results = [Result("samples", SAMPLES, Verdict.SKIPPED, note=entry.why_not)]
    elif clock.over:
        results = [Result("samples", SAMPLES, Verdict.INCONCLUSIVE, note="not tried: the time was over")]
    else:
        results = _results(entry, settings, clock, left, progress)
    results = [with_repro(result, entry, settings) for result in results]
    return Report(entry.place, entry.kind, results, settings.seed, entry.declared)


def _results(
    entry: Entry, settings: Settings, clock: Clock, left: int, progress: Callable[[str], None]
) -> list[Result]:
    """Run the checks; if the target ends its process, say so, and list the checks that were not tried."""
    start = clock.passed
    budget = None if clock.budget is None else (clock.budget - start) / left
    if settings.isolate:
        limit = None if budget is None else budget + GRACE
        steps = isolated(
            run_target, entry, settings, budget, limit=limit, begun=lambda: clock.forgive(clock.passed - start)
        )
    else:
        steps = run_target(entry, settings, budget)
    results, check = list[Result](), "samples"
    try:
        for step in steps:
            if isinstance(step, Result):
                results.append(step)
            else:
                progress(check := step)
    except Ended as end:
        results.append(end.result(check))
        names = ["samples", *(each.name for each in settings.checks())]
        rest = names[names.index(check) + 1 :]
        note = f"not tried: the process ended in '{check}'"
        results += [Result(name, NAMED[name].title, Verdict.INCONCLUSIVE, note=note) for name in rest]
    return results


def run_target(entry: Entry, settings: Settings, budget: float | None) -> Iterator[str | Result]:
    """Yield the name of each check before it begins, and its results.

    Raises:
        Ended: the target tried to leave the interpreter.
    """
    with contained():
        prepared = prepare_target(entry, settings, Clock(budget))
    yield from prepared.results
    memory = Memory()
    for check in settings.checks() if prepared.cases else ():
        yield check.name
        with contained():
            results = list(run([check], prepared.cases, prepared.clock, memory=memory))
        yield from results


def prepare_target(entry: Entry, settings: Settings, clock: Clock) -> Prepared:
    """Make the cases of a target; where its author's code raises before the first call, report what it raised."""
    made: Any = None
    try:
        made = entry.target()
        return prepare(made, seed=settings.seed, clock=clock, device=settings.device)
    except Exception as error:
        finding = Finding(
            "raises", Verdict.FAIL, f"{type(error).__name__} before anything was called",
            where=own_line(error) or "", cause=str(error), hint="look at the samples, or at how the target is made",
        )  # fmt: skip
        return Prepared(made, clock, results=[Result("samples", SAMPLES, Verdict.FAIL, findings=(finding,))])


def with_repro(result: Result, entry: Entry, settings: Settings) -> Result:
    """Return the result with a command that shows its findings again, where they have none."""
    words = ["torchgraft", "check", entry.place]
    words += ["--only", result.check] if result.check != "samples" else []
    words += ["--seed", str(settings.seed)] if settings.seed else []
    words += ["--device", settings.device] if settings.device != "cpu" else []
    words += ["--isolate"] if settings.isolate else []
    words += settings.said.words()
    command = shlex.join(words)
    return replace(result, findings=tuple(f.but(repro=f.repro or command) for f in result.findings))
