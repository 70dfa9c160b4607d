"""`pytest --torchgraft TARGET`: a test for each operator and each check.

Targets are found by their places, in each process anew: nothing of the user's is pickled.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from ..._locate import split
from ...errors import TorchgraftError
from ..checks.table import NAMED
from ..clock import Clock
from ..ended import Ended, contained
from ..endless import GUARD
from ..finding import Verdict
from ..prepare import Prepared, require_device
from ..report.result import Result
from ..report.text import paragraphs, plain
from ..runner import Memory, run
from .collect import NOTHING, Entry, Settings, collect
from .command import make_report, prepare_target

_OPTIONS = ("seed", "device", "compilers", "inductor", "accuracy")


class Checks:
    """The targets that one run of pytest checks.

    Args:
        config: with the options.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.places: list[str] = config.getoption("torchgraft")
        self.settings = Settings(**{name: config.getoption(f"torchgraft_{name}") for name in _OPTIONS})
        self._budget: float | None = config.getoption("torchgraft_budget")
        if self._budget is not None and not self._budget > 0:
            raise pytest.UsageError(f"--torchgraft-budget: no number of seconds above 0: {self._budget:g}")
        try:
            require_device(self.settings.device, "--torchgraft-device")
        except TorchgraftError as error:
            raise pytest.UsageError(str(error)) from None
        self.collected = set[str]()
        self._latest: tuple[Entry, Prepared, Memory] | None = None

    def pytest_report_header(self) -> str:
        """Say what is checked, and how to draw the same again."""
        return f"torchgraft: {', '.join(self.places)}; seed {self.settings.seed}"

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Collect the checks after everything else."""
        report = yield
        if isinstance(collector, pytest.Session) and report.passed:
            places = (Place.from_parent(collector, name=place, checks=self) for place in dict.fromkeys(self.places))
            report.result = [*(report.result or []), *places]
        return report

    def results(self, entry: Entry, check: str) -> list[Result]:
        """Return the results of a check; its target's cases are made once for the tests that follow each other."""
        if self._latest is None or self._latest[0] != entry:
            self._latest = entry, prepare_target(entry, Clock(self._budget)), Memory()
        _, prepared, memory = self._latest
        prepared.clock.restart()
        if check == "samples" or not prepared.cases:
            return list(prepared.results)
        return list(run([NAMED[check]], prepared.cases, prepared.clock, memory=memory))


class Place(pytest.Collector):
    """A module, a file, a package, a folder, or a name in one."""

    def __init__(self, checks: Checks, **node: Any) -> None:
        super().__init__(nodeid=f"torchgraft::{node['name']}", **node)
        self._checks = checks
        self.add_marker("torchgraft")

    def collect(self) -> Iterator[Check]:
        """Collect the tests of each target, once where it is in several places."""
        try:
            entries = collect(self.name, self._checks.settings)
            names = ["samples", *(check.name for check in self._checks.settings.checks())]
        except TorchgraftError as error:
            raise self.CollectError(str(error)) from None
        if not entries:
            raise self.CollectError(f"{self.name}: {NOTHING}")
        for entry in entries:
            if entry.place in self._checks.collected:
                continue
            self._checks.collected.add(entry.place)
            where, name = split(entry.place)
            for check in names if not entry.why_not else names[:1]:
                identity = f"torchgraft::{where}::{name}::{check.replace(' ', '-')}"
                fields = {"checks": self._checks, "entry": entry, "check": check}
                yield Check.from_parent(self, name=f"{name}::{check}", nodeid=identity, **fields)


class Check(pytest.Item):
    """One check of one target."""

    def __init__(self, checks: Checks, entry: Entry, check: str, **node: Any) -> None:
        super().__init__(**node)
        self._checks, self._entry, self._check = checks, entry, check

    def runtest(self) -> None:
        """Run the check; what it found is the test's failure."""
        if self._entry.why_not:
            raise pytest.skip.Exception(self._entry.why_not, _use_item_location=True)
        try:
            with contained(), GUARD.installed(first=True):
                results = self._checks.results(self._entry, self._check)
        except Ended as end:
            results = [end.result(self._check)]
        report = make_report(self._entry, results)
        verdict = report.verdict if results else Verdict.PASS
        notes = [result.note for result in results if result.note and result.verdict is verdict]
        said = "\n".join(dict.fromkeys(notes))
        found = plain(paragraphs(report.findings))
        if verdict is Verdict.SKIPPED:
            raise pytest.skip.Exception(said, _use_item_location=True)
        if verdict is not Verdict.PASS:
            first = f"{report.findings[0].title}\n\n{found}" if found else said
            pytest.fail(f"{verdict}: {first}\n", pytrace=False)
        if found:
            self.add_report_section("call", "torchgraft", found)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int, str]:
        """Return the place where the target is declared, where Python knows it."""
        file, line = Path(self.path), 0
        with contextlib.suppress(Exception):  # The code is the user's, and some of it was made at run time.
            origin = inspect.unwrap(self._entry.target().origin)
            holder = getattr(origin, "__self__", None)
            origin = holder if isinstance(holder, type) else origin
            file, line = Path(inspect.getfile(origin)), inspect.getsourcelines(origin)[1] - 1
        return file, line, f"{split(self._entry.place)[1]}: {self._check}"
