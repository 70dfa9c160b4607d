"""Calls of a target that may end the process: in a child where there can be one, else with an eye on its exits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .ended import staying
from .forked import may_fork, run_in_child

T = TypeVar("T")


def survive(work: Callable[[], T], *, apart: bool) -> T:
    """Return what some work returns.

    Args:
        work: calls a target; its result can be pickled.
        apart: it may end its process: do it in a child, where there can be one.

    Raises:
        Ended: it ended its process, or tried to.
    """

    def stay() -> T:
        with staying():
            return work()

    return run_in_child(stay) if apart and may_fork() else stay()
