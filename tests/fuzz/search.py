"""Hypothesis draws cases, and shrinks each failure that is new."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from .choose import Drawn
from .judge import Result, judge
from .program import Case, draw_case
from .report import FAILURES, Failure, Report, failure


@st.composite
def cases(draw: st.DrawFn, slow: bool = True) -> Case:
    return draw_case(Drawn(draw), slow=slow)


def search(
    seed: int, count: int, report: Report, *, slow: bool = True, until: float | None = None,
    shrinking: float = 10.0, before: Callable[[Case], None] = lambda case: None,
    after: Callable[[], None] = lambda: None,
) -> Report:  # fmt: skip
    """Run `count` cases, counting them in `report`; each new failure is shrunk and added.

    Args:
        until: a time, as `time.monotonic` tells it, after which no case is started.
        shrinking: seconds for each shrinking.
        before: is told of each case before it runs.
        after: is called now and then, with the report up to date.
    """
    done = 0
    while done < count and not (until is not None and time.monotonic() > until):
        one = _Chunk(report, until, shrinking, before)
        one.run(seed, min(count - done, 100), slow)
        after()
        done += max(one.counted, 1)
        seed += 7919
    return report


class _Chunk:
    """One run of Hypothesis, which ends with the first new failures."""

    def __init__(self, report: Report, until: float | None, shrinking: float, before: Callable[[Case], None]) -> None:
        self.report, self.until, self.shrinking, self.before = report, until, shrinking, before
        self.counted = 0
        self.found: dict[tuple[str, str], Failure] = {}
        self.seen: dict[str, Failure | None] = {}
        self.failed_at: float | None = None

    def run(self, seed: int, count: int, slow: bool) -> None:
        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink], print_blob=False, report_multiple_bugs=False,
        )  # fmt: skip
        @hypothesis.given(st.data())
        def test(data: st.DataObject) -> None:
            if self._over():
                raise _Enough
            self._test(data.draw(cases(slow)))

        with contextlib.suppress(_Found, _Enough, hypothesis.errors.Flaky):
            test()
        for found in self.found.values():
            self.report.add(found)

    def _test(self, case: Case) -> None:
        text = case.module()
        if text not in self.seen:
            self.seen[text] = self._run(case)
        found = self.seen[text]
        if found is not None:
            key = (found.kind, found.text)
            best = self.found.get(key)
            if best is None or len(found.program) < len(best.program):
                self.found[key] = found
            raise _exception(key)

    def _run(self, case: Case) -> Failure | None:
        if self.failed_at is None:
            self.before(case)
            result = judge(case)
            self.counted += 1
            found = self.report.take(case, result)
            self.failed_at = time.monotonic() if found is not None else None
            return found
        self.before(case)
        return self._new(case, judge(case))

    def _over(self) -> bool:
        now = time.monotonic()
        if self.failed_at is not None:
            return now > self.failed_at + self.shrinking
        return self.until is not None and now > self.until

    def _new(self, case: Case, result: Result) -> Failure | None:
        """A failure met while another is shrunk."""
        probe = Report(failures=self.report.failures)
        return probe.take(case, result)


class _Found(Exception):
    """A failure; each kind has a class of its own, so that Hypothesis tells them apart."""


class _Enough(BaseException):
    """The time is over; Hypothesis stops at once for what is no Exception."""


_EXCEPTIONS: dict[tuple[str, str], type[_Found]] = {}


def _exception(key: tuple[str, str]) -> _Found:
    return _EXCEPTIONS.setdefault(key, type("Found", (_Found,), {}))()


__all__ = ["FAILURES", "failure", "search"]
