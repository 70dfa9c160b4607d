"""`torchgraft check`: find targets, check one after another, and report."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TextIO

from ..._locate import own_line
from ...errors import ArgumentError, DeclarationError, TorchgraftError
from ..checks.table import CHECKS, NAMED
from ..children import isolated
from ..clock import Clock
from ..ended import Ended, contained
from ..endless import GUARD
from ..evidence import printable
from ..finding import Finding, Verdict
from ..prepare import SAMPLES, Prepared, prepare, require_device
from ..progress import ProgressLine
from ..report.report import Report, dumps_all, html_page
from ..report.result import Result, checks, counts, duration, tally
from ..report.text import Line, layout, painted, plain
from ..runner import Memory
from ..runner import run as run_checks
from .collect import NOTHING, Entry, Settings, collect

WIDTH = 100  # Columns of the paragraphs, where the terminal has as many.
GRACE = 2.0  # Seconds that a process has to end by itself when its time is over.
INTERRUPTED = 130  # Shells report this status of a command that SIGINT has ended.


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status: 0 if all passed, 1 if not, 2 if it cannot run."""
    settings = Settings(
        options.seed, _names(options.only), _names(options.skip), options.compilers, options.inductor, options.device,
        options.isolate, options.accuracy, tuple(options.surrogate),
    )  # fmt: skip
    try:
        settings.checks()
        require_device(settings.device, "--device")
        if options.list and not options.targets:
            width = max(map(len, NAMED))
            for check in CHECKS:
                print(f"{check.name:{width}}  {check.title}" + (f" (--{check.needs})" if check.needs else ""))
            return 0
        with contextlib.redirect_stdout(_out(options)):  # Files may print as they are imported.
            entries = dict.fromkeys(entry for place in options.targets for entry in find_entries(place, settings))
        chosen = [entry for entry in entries if is_meant(entry.place, options.k)]
        if options.list:
            for entry in chosen:
                print(f"{entry.place}  {entry.kind}" + (f"  SKIPPED: {entry.why_not}" if entry.why_not else ""))
            return 0
        if not chosen:
            raise TorchgraftError(_nothing(options, entries))
        for path in _files(options):
            _save(path, "", "a")  # A path that cannot be written to fails now, and not after minutes.
        if not faulthandler.is_enabled() and sys.__stderr__ is not None:
            faulthandler.enable(sys.__stderr__, all_threads=False)  # A crash leaves no report, so show its line.
        return _check(chosen, options)
    except TorchgraftError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # The import of files may take long.
        print("interrupted, before anything was checked", file=sys.stderr)
        return INTERRUPTED


def is_meant(place: str, patterns: Sequence[str]) -> bool:
    """Return True if a place has a part that some pattern of ``-k`` asks for, and none that one excludes."""
    wanted = [pattern for pattern in patterns if not pattern.startswith("not ")]
    unwanted = [pattern.removeprefix("not ") for pattern in patterns if pattern.startswith("not ")]
    return any(_has(place, part) for part in wanted or ["*"]) and not any(_has(place, part) for part in unwanted)


def _has(place: str, part: str) -> bool:
    if len(part.split()) != 1:
        expected = "a part of a name, or 'not' and a part; -k may be given several times"
        raise ArgumentError("cannot be read", argument="-k", expected=expected, got=repr(part))
    return fnmatchcase(place.lower(), f"*{part.lower()}*")


def _names(given: Iterable[str]) -> tuple[str, ...]:
    """Return the names of checks, which may be given in several options or with commas in one."""
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())


def _nothing(options: argparse.Namespace, entries: Iterable[Entry]) -> str:
    if not options.targets:
        return "torchgraft check: no TARGET: a module, a file, a folder, or a name in one, as in ops.py:linear"
    places = ", ".join(entry.place for entry in entries)
    if places:
        return f"-k {' -k '.join(options.k)}: matches none of {places}"
    return f"{', '.join(options.targets)}: {NOTHING}"


def _check(entries: Sequence[Entry], options: argparse.Namespace) -> int:
    """Check the targets, print and write the reports, and return the exit status."""
    clock, reports, interrupted = Clock(options.budget), list[Report](), ""
    out = _out(options)
    width = max(len(entry.place) for entry in entries)
    try:
        with ProgressLine(sys.stderr) as progress:
            for number, entry in enumerate(entries):

                def tell(check: str, number: int = number, place: str = entry.place) -> None:
                    progress.show(number + 1, len(entries), f"{place} {check}".rstrip())

                tell("")
                left = sum(not entry.why_not for entry in entries[number:])
                reports.append(examine(entry, clock, left, tell))
                with progress.hidden():
                    _print([_line(reports[-1], width)], out)
    except KeyboardInterrupt:
        interrupted = f"; interrupted, {len(entries) - len(reports)} not tried"
    columns = min(shutil.get_terminal_size().columns, WIDTH) if out.isatty() else WIDTH
    for report in reports:
        if report.verdict not in (Verdict.PASS, Verdict.SKIPPED):
            _print([[], *layout(report, columns)], out)
    found = ", ".join(f"{count} {verdict}" for verdict, count in counts(r.verdict for r in reports).items())
    targets = f"{len(reports)} {'target' if len(reports) == 1 else 'targets'}"
    _print([[], [(f"{targets}: {found or 'none'}; {duration(clock.passed)}{interrupted}", "strong")]], out)
    # Something passed, and nothing worse happened than that targets do not say what they take.
    verdicts = {report.verdict for report in reports}
    passed = Verdict.PASS in verdicts and verdicts <= {Verdict.PASS, Verdict.SKIPPED}
    json = dumps_all(reports, ok=passed) + "\n" if options.json is not None else ""
    for path in _files(options):
        _save(path, html_page(reports) if path is options.html else json)
    if str(options.json) == "-":
        sys.stdout.write(json)
    return INTERRUPTED if interrupted else 0 if passed else 1


# -- what is printed and written --------------------------------------------------------------------------------------


def _line(report: Report, width: int) -> Line:
    """Return one line about a target."""
    verdict, seconds = report.verdict, sum(result.seconds for result in report.results)
    said = checks(report)[0].said if verdict is Verdict.SKIPPED else f"{tally(report)}; {duration(seconds)}"
    said += f" ({', '.join(report.declared)})" if report.declared else ""
    return [(f"{verdict:12}", verdict), (f"  {printable(report.target):{width}}", "strong"), (f"  {said}", "")]


def _print(lines: Sequence[Line], out: TextIO) -> None:
    print(painted(lines) if out.isatty() else plain(lines), file=out, flush=True)


def _files(options: argparse.Namespace) -> list[Path]:
    return [path for path in (options.html, options.json) if path is not None and str(path) != "-"]


def _save(path: Path, text: str, mode: Literal["w", "a"] = "w") -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise TorchgraftError("is not written", argument=str(path), got=error.strerror or str(error)) from None


def _out(options: argparse.Namespace) -> TextIO:
    """Return where the report goes: JSON on the standard output stands there alone."""
    return sys.stderr if str(options.json) == "-" else sys.stdout


# -- one target -------------------------------------------------------------------------------------------------------


def find_entries(place: str, settings: Settings) -> list[Entry]:
    """Return what `collect` finds; with ``isolate`` the user's code is not imported into this process."""
    if not settings.isolate:
        return collect(place, settings)
    try:
        return [entry for entry in isolated(collect, place, settings) if entry is not None]
    except Ended as end:
        got = f"the process ended: {end.how}" + (f" in {end.where}" if end.where else "")
        expected = "a Python file, or a module"
        raise DeclarationError("cannot be imported", argument=place, expected=expected, got=got) from None


def examine(entry: Entry, clock: Clock, left: int, progress: Callable[[str], None]) -> Report:
    """Check a target, which shares the time that is left with others; their number is `left`, this one included.

    `progress` is told the name of each check before it begins. The imports of a process do not count as time.
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
    """Yield the name of each check before it begins, and its results; raise `Ended` where the target leaves."""
    with contained(), GUARD.installed(first=True):
        prepared = prepare_target(entry, Clock(budget))
    yield from prepared.results
    memory = Memory()
    for check in entry.settings.checks() if prepared.cases else ():
        yield check.name
        with contained(), GUARD.installed(first=True):
            results = list(run_checks([check], prepared.cases, prepared.clock, memory=memory))
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
