"""A limit on time that holds inside of a check too, wherever it calls its target."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from typing import Any

from .target import Target


class OutOfTime(BaseException):
    """The time is over; not an `Exception`, so that no check takes it for something that its target raised."""


class Clock:
    """Time that passes.

    Args:
        budget: seconds that there are; None for no limit.
    """

    def __init__(self, budget: float | None = None) -> None:
        self.budget = budget
        self._start = time.perf_counter()

    @property
    def passed(self) -> float:
        """Seconds since it was made, or started anew."""
        return time.perf_counter() - self._start

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return self.budget is not None and self.passed > self.budget

    def spent(self, share: float) -> bool:
        """Whether more than a share of the time is over."""
        return self.budget is not None and self.passed > share * self.budget

    def forgive(self, seconds: float) -> None:
        """As if so many had not passed."""
        self._start += seconds

    def restart(self) -> None:
        """All of the time is there again."""
        self._start = time.perf_counter()

    def watch(self, target: Target) -> Target:
        """The target, which raises `OutOfTime` once the time is over: a call that has begun is the last."""
        if self.budget is None:
            return target
        function = target.function

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self.over:
                raise OutOfTime
            return function(*args, **kwargs)

        return replace(target, function=watched)
