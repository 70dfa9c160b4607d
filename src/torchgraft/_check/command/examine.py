"""Check one target of the command, in this process or in one of its own."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from ..._errors import DeclarationError, TorchgraftError
from ..._locate import own_line
from ..checks.table import NAMED
from ..clock import Clock
from ..ended import Ended, TimeOver, contained, ended_by, ended_with
from ..finding import Finding, Verdict
from ..prepare import SAMPLES, Prepared, prepare
from ..report.report import Report
from ..report.result import Result
from ..runner import Memory, run
from .collect import Entry, Settings, collect

START = 60.0
"""Seconds that a process has for its imports, where its time is limited."""

GRACE = 2.0
"""Seconds after the end of its time in which a process may end by itself."""


def find_entries(place: str, settings: Settings) -> list[Entry]:
    """Return what `collect` finds; with ``isolate`` the user's code is not imported into this process.

    Raises:
        DeclarationError: as `collect` does, and where an import crashes the interpreter.
    """
    if not settings.isolate:
        return collect(place, settings)
    try:
        return [entry for entry in isolated(collect, place, settings) if entry is not None]
    except Ended as end:
        got = f"the process ended: {end.how}" + (f" in {end.where}" if end.where else "")
        expected = "a Python file, or a module"
        raise DeclarationError("cannot be imported", argument=place, expected=expected, got=got) from None


def examine(entry: Entry, clock: Clock, left: int, progress: Callable[[str], None]) -> Report:
    """Check a target.

    Args:
        entry: of the target.
        clock: of all targets; the imports of a process do not count.
        left: number of targets, this one included, that share the time that is left.
        progress: is told the name of each check before it begins.
    """
    if entry.why_not:
        results = [Result("samples", SAMPLES, Verdict.SKIPPED, note=entry.why_not)]
    elif clock.over:
        results = [Result("samples", SAMPLES, Verdict.INCONCLUSIVE, note="not tried: the time was over")]
    else:
        results = _results(entry, clock, left, progress)
    return make_report(entry, results)


def make_report(entry: Entry, results: Iterable[Result]) -> Report:
    """Return the report of a target, with a command that shows each finding again."""
    shown = [_with_repro(result, entry) for result in results]
    return Report(entry.place, entry.kind, shown, entry.settings.seed, entry.declared)


def _with_repro(result: Result, entry: Entry) -> Result:
    only = ["--only", result.check] if result.check != "samples" else []
    command = shlex.join(["torchgraft", "check", entry.place, *only, *entry.settings.words()])
    return replace(result, findings=tuple(f.but(repro=f.repro or command) for f in result.findings))


def _results(entry: Entry, clock: Clock, left: int, progress: Callable[[str], None]) -> list[Result]:
    """Run the checks; if the target ends its process, say so, and list the checks that were not tried."""
    start = clock.passed
    budget = None if clock.budget is None else (clock.budget - start) / left
    steps = run_target(entry, budget)
    if entry.settings.isolate:
        steps = isolated(run_target, entry, budget, limit=None if budget is None else budget + GRACE)
    results, check = list[Result](), "samples"
    try:
        for step in steps:
            if step is None:
                clock.forgive(clock.passed - start)
            elif isinstance(step, Result):
                results.append(step)
            else:
                progress(check := step)
    except Ended as end:
        results.append(end.result(check))
        names = ["samples", *(each.name for each in entry.settings.checks())]
        note = f"not tried: the process ended in '{check}'"
        for name in names[names.index(check) + 1 :]:
            results.append(Result(name, NAMED[name].title, Verdict.INCONCLUSIVE, note=note))
    return results


def run_target(entry: Entry, budget: float | None) -> Iterator[str | Result | None]:
    """Yield the name of each check before it begins, and its results.

    Raises:
        Ended: the target tried to leave the interpreter.
    """
    with contained():
        prepared = prepare_target(entry, Clock(budget))
    yield from prepared.results
    memory = Memory()
    for check in entry.settings.checks() if prepared.cases else ():
        yield check.name
        with contained():
            results = list(run([check], prepared.cases, prepared.clock, memory=memory))
        yield from results


def prepare_target(entry: Entry, clock: Clock) -> Prepared:
    """Make the cases of a target; where its author's code raises before the first call, report what it raised."""
    made: Any = None
    try:
        made = entry.target()
        return prepare(made, seed=entry.settings.seed, clock=clock, device=entry.settings.device)
    except Exception as error:
        finding = Finding(
            "raises", Verdict.FAIL, f"{type(error).__name__} before anything was called",
            where=own_line(error) or "", cause=str(error), hint="look at the samples, or at how the target is made",
        )  # fmt: skip
        return Prepared(made, clock, results=[Result("samples", SAMPLES, Verdict.FAIL, findings=(finding,))])


# -- in a process of its own ------------------------------------------------------------------------------------------


def isolated(work: Callable[..., Iterable[Any]], *arguments: Any, limit: float | None = None) -> Iterator[Any]:
    """Yield None as soon as a fresh process has done its imports, then what some work yields in it.

    Args:
        work: a function of a module; the process finds it by its name. What it yields is pickled.
        arguments: of the function, pickled too.
        limit: seconds after which the process is killed, counted from the end of its imports.

    Raises:
        Ended: the process crashed or left, or it was killed.
        TorchgraftError: that the work raised.
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder, receiver:
        trace = Path(folder, "trace.txt")
        trace.touch()
        # spawn: a forked child of a process with threads, which torch's is, may hang
        process = multiprocessing.get_context("spawn").Process(target=_run, args=(sender, trace, work, arguments))
        process.start()
        sender.close()
        deadline = None if limit is None else time.monotonic() + START + limit
        try:
            while (message := _next(receiver, process.sentinel, deadline)) is not None:
                value, error = message
                if isinstance(error, StopIteration):
                    return
                if error is not None:
                    raise error
                if value is None and limit is not None:
                    deadline = time.monotonic() + limit
                yield value
            process.join()
            raise ended_with(process.exitcode or 0, trace)
        finally:
            process.kill()
            process.join()


def _next(receiver: Connection, sentinel: int, deadline: float | None) -> tuple[Any, Exception | None] | None:
    """Return the next value, or the error that was the end; None if the process is gone."""
    if not wait([receiver, sentinel], None if deadline is None else max(0.0, deadline - time.monotonic())):
        raise TimeOver("the time was over, and a call did not end: the process was killed")
    try:
        return pickle.loads(receiver.recv_bytes()) if receiver.poll() else None
    except (EOFError, OSError):  # it ended, perhaps in the middle of a message
        return None


def _run(sender: Connection, trace: Path, work: Callable[..., Iterable[Any]], arguments: tuple[Any, ...]) -> None:
    """Work, in the fresh process."""

    def send(value: Any, error: Exception | None = None) -> None:
        # Bytes: `send` would share the memory of tensors, and this process does not live to hand it over.
        sender.send_bytes(pickle.dumps((value, error)))

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends this process
    sys.stdout = sys.stderr  # what is printed is no part of the parent's answer
    os.dup2(2, 1)
    with trace.open("w") as file:
        faulthandler.enable(file)
        send(None)
        try:
            for value in work(*arguments):
                send(value)
            send(None, StopIteration())
        except (TorchgraftError, Ended) as error:
            send(None, error)
        except (SystemExit, KeyboardInterrupt) as error:
            send(None, ended_by(error))
        faulthandler.disable()
