"""Several threads at once, and a backward on another thread than the forward."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from ..baseline import Value, baseline, pulled, short
from ..case import Case, Linearization
from ..finding import Finding, Skip, Verdict
from ..points import nearby

_QUIET = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]), "<frozen")
"""Files whose lines are not interleaved: torch, torchgraft, and Python's own frozen modules."""

PATIENCE = 0.02
"""Seconds that a thread waits for its turn before it goes on all the same: the other one may wait for a lock."""


def threads(case: Case) -> Iterator[Finding]:
    """Two calls that take turns at each line of their Python code; then a backward on another thread."""
    base, other = baseline(case), nearby(case)
    if base.random:
        raise Skip("it draws random numbers, which threads share")
    if case.target.kind != "module":  # calls of a module with given parameters write them into the module
        yield from _interleaved(case, other)
    yield from _other_thread(case)


def _interleaved(case: Case, other: list[torch.Tensor]) -> Iterator[Finding]:
    base = baseline(case)
    expected = [(base.outputs, base.gradients), _run(case, other)]
    turns = _Turns()
    found = _in_threads(
        [lambda: turns.take(0, lambda: _run(case, case.primals)), lambda: turns.take(1, lambda: _run(case, other))]
    )
    where = f"two threads that take turns at each line; {case.label}"
    for result, (outputs, gradients) in zip(found, expected, strict=True):
        if isinstance(result, Exception):
            yield Finding(
                "threads-raise", Verdict.FAIL, "It raises where two threads call it", where, cause=short(result)
            )
            return
        wrong = base.differing_outputs(result[0], outputs) or base.differing_gradients(result[1], gradients)
        for difference in wrong:
            yield difference.finding(
                "threads", f"Two threads disturb each other: {difference.name} is another", where,
                cause="both write into a global, a class attribute or a buffer that is made once",
                hint="make buffers in each call, and keep on ctx what belongs to it",
            )  # fmt: skip
        if wrong:
            return


def _other_thread(case: Case) -> Iterator[Finding]:
    base = baseline(case)
    recorded = case.linearize()
    where = f"backward on another thread; {case.label}"
    (result,) = _in_threads([lambda: pulled(recorded, base)])
    if isinstance(result, Exception):
        yield Finding(
            "threads-raise", Verdict.FAIL, "The backward raises on another thread", where, cause=short(result)
        )
        return
    for difference in base.differing_gradients(result):
        yield difference.finding(
            "threads", "The gradient is another where the backward runs on another thread", where,
            cause="state that belongs to a thread", hint="keep on ctx what backward needs",
        )  # fmt: skip


def _run(case: Case, primals: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[Value]]:
    recorded: Linearization = case.linearize(primals)
    return [output.detach().clone() for output in recorded.outputs], pulled(recorded, baseline(case))


def _in_threads(functions: list[Callable[[], Any]]) -> list[Any]:
    """What functions return or raise, each run in a thread of its own."""
    results: list[Any] = [None] * len(functions)

    def run(i: int, function: Callable[[], Any]) -> None:
        try:
            results[i] = function()
        except Exception as error:
            results[i] = error

    started = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(functions)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return results


class _Turns:
    """Two threads that run one line each, in turns: races then happen every time, not once in a million calls."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._turn = 0
        self._done = [False, False]

    def take(self, me: int, function: Callable[[], Any]) -> Any:
        """Run a function as one of the two threads."""

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            if frame.f_code.co_filename.startswith(_QUIET):
                return None
            if event == "line":
                self._pass_on(me)
            return trace

        sys.settrace(trace)
        try:
            return function()
        finally:
            sys.settrace(None)
            with self._condition:
                self._done[me] = True
                self._condition.notify_all()

    def _pass_on(self, me: int) -> None:
        with self._condition:
            if self._done[1 - me]:
                return
            self._turn = 1 - me
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._turn == me or self._done[1 - me], PATIENCE)
            self._turn = me
