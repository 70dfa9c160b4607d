"""Limits that hold inside of a check too, wherever it calls its target: on seconds, and on the number of calls."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from typing import Any

from .case import Case
from .target import Target


class OutOfTime(BaseException):
    """A limit is reached; not an `Exception`, so that no check takes it for something that its target raised.

    Args:
        clock: whose limit it is.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock


class Clock:
    """A budget of time, or of calls, which are the same on every machine.

    Args:
        budget: seconds that there are; None for no limit.
        calls: of the target that may begin; None for no limit.
    """

    def __init__(self, budget: float | None = None, *, calls: int | None = None) -> None:
        self.budget = budget
        self._left = calls
        self._start = time.perf_counter()

    @property
    def passed(self) -> float:
        """Seconds since it was made, or started anew."""
        return time.perf_counter() - self._start

    @property
    def over(self) -> bool:
        """True if the budget is spent."""
        return (self.budget is not None and self.passed > self.budget) or (self._left is not None and self._left <= 0)

    def spent(self, share: float) -> bool:
        """Return True if more than a share of the seconds has passed."""
        return self.budget is not None and self.passed > share * self.budget

    def forgive(self, seconds: float) -> None:
        """Do not charge some seconds to the budget."""
        self._start += seconds

    def restart(self) -> None:
        """Begin to count the seconds anew."""
        self._start = time.perf_counter()

    def watch(self, target: Target) -> Target:
        """Return the target, which raises `OutOfTime` once the budget is spent: a call that has begun is the last."""
        if self.budget is None and self._left is None:
            return target
        function = target.function

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self.over:
                raise OutOfTime(self)
            if self._left is not None:
                self._left -= 1
            return function(*args, **kwargs)

        return replace(target, function=watched)

    def watch_case(self, case: Case) -> Case:
        """Return the case with its target watched."""
        watched = case.with_leaves(case.leaves)
        watched.target = self.watch(case.target)
        return watched
