"""`torchgraft check`: targets found, checked one after another, and reported."""

from __future__ import annotations

import argparse
import contextlib
import errno
import faulthandler
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from ..._errors import TorchgraftError
from ..checks.table import CHECKS, NAMED
from ..clock import Clock
from ..finding import Verdict
from ..numerals import printable
from ..report.data import dumps_all
from ..report.html import html_page
from ..report.report import Report
from ..report.summary import checks, counts, duration, tally
from ..report.text import Line, layout, painted, plain
from .bar import bar
from .collect import NOTHING, Entry
from .examine import Settings, collected, examine
from .select import selector

WIDTH = 100
"""Columns of the paragraphs, where the terminal has as many."""

INTERRUPTED = 130  # as of a command that SIGINT has ended


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status: 0 if all passed, 1 if not, 2 if it cannot run."""
    settings = Settings(
        options.seed, _names(options.only), _names(options.skip), options.inductor, options.device, options.isolate
    )
    try:
        settings.checks()
        settings.look_at_device("--device")
        meant = selector(options.k) if options.k else lambda place: True
        if options.list and not options.targets:
            return _list_checks()
        with contextlib.redirect_stdout(_out(options)):  # what a file prints as it is imported
            entries = [entry for place in options.targets for entry in collected(place, settings)]
        for path in _files(options):
            _look_at_file(path)
    except TorchgraftError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(_unwritten(error))
    except KeyboardInterrupt:  # while files are imported, which may take long
        print("interrupted, before anything was checked", file=sys.stderr)
        return INTERRUPTED
    chosen = [entry for entry in dict.fromkeys(entries) if meant(entry.place)]
    if options.list:
        return _list(chosen)
    if not chosen:
        return _refuse(_nothing(options, entries))
    with _crashes_shown():
        return _Run(chosen, settings, options).status()


class _Run:
    """The targets, checked one after another.

    Args:
        entries: the targets.
        settings: of the checks.
        options: of the command: the budget, and the files to write.
    """

    def __init__(self, entries: Sequence[Entry], settings: Settings, options: argparse.Namespace) -> None:
        self._entries = entries
        self._settings = settings
        self._options = options
        self._clock = Clock(options.budget)
        self._reports: list[Report] = []

    def status(self) -> int:
        """Check, print, write, and return the exit status."""
        interrupted = False
        try:
            self._check()
        except KeyboardInterrupt:
            interrupted = True
        for report in self._reports:
            if report.verdict not in (Verdict.PASS, Verdict.SKIPPED):
                self._print([[], *layout(report, self._width)])
        self._print([[], [(self._summary(interrupted), "strong")]])
        try:
            self._write()
        except OSError as error:
            return _refuse(_unwritten(error))
        return INTERRUPTED if interrupted else 0 if self._ok else 1

    def _check(self) -> None:
        width = max(len(entry.place) for entry in self._entries)
        with bar(len(self._entries)) as advance:
            for number, entry in enumerate(self._entries):

                def progress(check: str, number: int = number, place: str = entry.place) -> None:
                    advance(number, f"{place} {check}")

                progress("")
                left = sum(not entry.why_not for entry in self._entries[number:])
                report = examine(entry, self._settings, self._clock, left, progress)
                self._reports.append(report)
                self._print([_line(report, width)])

    @property
    def _ok(self) -> bool:
        """Whether something passed, and nothing else happened than that some targets say not what they take."""
        verdicts = {report.verdict for report in self._reports}
        return Verdict.PASS in verdicts and verdicts <= {Verdict.PASS, Verdict.SKIPPED}

    def _summary(self, interrupted: bool) -> str:
        number = len(self._reports)
        found = ", ".join(f"{count} {verdict}" for verdict, count in counts(r.verdict for r in self._reports).items())
        said = f"{number} {'target' if number == 1 else 'targets'}: {found or 'none'}; {duration(self._clock.passed)}"
        return f"{said}; interrupted, {len(self._entries) - number} not tried" if interrupted else said

    def _write(self) -> None:
        if self._options.html is not None:
            self._options.html.write_text(html_page(self._reports), encoding="utf-8")
        if self._options.json is not None:
            text = dumps_all(self._reports, ok=self._ok) + "\n"
            if str(self._options.json) == "-":
                sys.stdout.write(text)
            else:
                self._options.json.write_text(text, encoding="utf-8")

    @property
    def _out(self) -> TextIO:
        return _out(self._options)

    @property
    def _width(self) -> int:
        return min(shutil.get_terminal_size().columns, WIDTH) if self._out.isatty() else WIDTH

    def _print(self, lines: Sequence[Line]) -> None:
        print(painted(lines) if self._out.isatty() else plain(lines), file=self._out, flush=True)


def _line(report: Report, width: int) -> Line:
    """One line about a target."""
    verdict = report.verdict
    said = tally(report)
    if verdict is Verdict.SKIPPED:
        said = checks(report)[0].said
    elif report.results:
        said += f"; {duration(sum(result.seconds for result in report.results))}"
    return [(f"{verdict:12}", verdict), (f"  {printable(report.target):{width}}", "strong"), (f"  {said}", "")]


def _names(given: Iterable[str]) -> tuple[str, ...]:
    """The names of checks, which may be given in several options or with commas in one."""
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())


def _out(options: argparse.Namespace) -> TextIO:
    """Where lines go, looked up each time: the bar replaces both."""
    return sys.stderr if str(options.json) == "-" else sys.stdout


@contextlib.contextmanager
def _crashes_shown() -> Iterator[None]:
    """Within, a crash of the interpreter shows the line that ran: no report of it will be there."""
    if faulthandler.is_enabled() or sys.__stderr__ is None:
        yield
        return
    faulthandler.enable(sys.__stderr__, all_threads=False)
    try:
        yield
    finally:
        faulthandler.disable()


def _files(options: argparse.Namespace) -> list[Path]:
    return [path for path in (options.html, options.json) if path is not None and str(path) != "-"]


def _look_at_file(path: Path) -> None:
    """Make its folder, and raise an `OSError` now, not after minutes, if the file cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _unwritten(error: OSError) -> str:
    return f"{error.filename} is not written: {error.strerror}"


def _nothing(options: argparse.Namespace, entries: Sequence[Entry]) -> str:
    if not options.targets:
        return "torchgraft check: no TARGET: a module, a file, a folder, or a name in one, as in ops.py:linear"
    if entries:
        return f"-k {options.k}: matches none of {', '.join(entry.place for entry in entries)}"
    return f"{', '.join(options.targets)}: {NOTHING}"


def _list_checks() -> int:
    width = max(map(len, NAMED))
    for check in CHECKS:
        print(f"{check.name:{width}}  {check.title}" + (" (--inductor)" if check.cost == "inductor" else ""))
    return 0


def _list(entries: Sequence[Entry]) -> int:
    for entry in entries:
        print(f"{entry.place}  {entry.kind}" + (f"  SKIPPED: {entry.why_not}" if entry.why_not else ""))
    return 0


def _refuse(why: str) -> int:
    print(why, file=sys.stderr)
    return 2
