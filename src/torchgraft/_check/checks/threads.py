"""Several threads at once, and a backward on another thread than the forward: all give the same."""

from __future__ import annotations

import contextlib
import functools
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Baseline, baseline, generator, vjp_of
from ..case import Case, Linearization
from ..children import threads as torch_threads
from ..code import is_native
from ..finding import Finding
from ..variations import nearby
from ..work import STEPS, WORK
from .ways import Made, Words, compared, kept, made, require_fixed, uncollected

QUIET = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]), "<frozen")
"""Beginnings of files whose lines are not interleaved, beside those of Python's own modules."""

PATIENCE = 2.0
"""Seconds that a thread waits for its turn before it goes on all the same: the other one may wait for a lock."""
DISTURBED = Words(
    "threads", "Two threads disturb each other: {} is another",
    "both write into a global, a class attribute or a buffer that is made once",
    "make buffers in each call, and keep on ctx what belongs to it",
)  # fmt: skip


ELSEWHERE = Words(
    "thread-state", "On another thread than the main one {} is another",
    "it reads something that each thread has for itself, such as a threading.local",
    "take it as an argument, and keep on ctx what the backward needs of it",
)  # fmt: skip


MANY, ROUNDS, THREADS = 2**17, 8, 4
"""Elements that are worth several threads, and how often so many of them run."""

SLOW = 0.1
"""Seconds of a call in which threads meet often enough: it is made once."""


def threads(case: Case) -> Iterator[Finding]:
    """A call on another thread; two that take turns at each line of their Python code; a backward on another thread.

    A C function is called on many samples as well, which torch's threads share among them.
    """
    base, other = baseline(case), nearby(case)
    require_fixed(base, ", which threads share")
    (result,) = _in_threads([partial(made, case, base)])
    raises = Words("threads-raise", "It raises on another thread than the main one")
    found = list(compared(base, "one thread", result, raises=raises, output=ELSEWHERE, gradient=ELSEWHERE))
    yield from found
    if found:
        return
    if case.target.kind != "module":  # Each call of a module has a copy of its own.
        yield from _interleaved(base, other)
    recorded = case.linearize()
    (result,) = _in_threads([lambda: ((), vjp_of(recorded, base))])
    title = "The gradient is another where the backward runs on another thread"
    yield from compared(
        base, "backward on another thread", result,
        raises=Words("threads-raise", "The backward raises on another thread"),
        gradient=Words("threads", title, "state that belongs to a thread", "keep on ctx what backward needs"),
    )  # fmt: skip
    if case.target.operator is not None and is_native(case.target):
        yield from _among_samples(base)


SHARED = Words(
    "threads", "The threads of one call disturb each other: {} is another in some of many samples",
    "a C function writes into a static or global variable", "ask for memory with tg.Workspace, or use a local array",
)  # fmt: skip


def _among_samples(base: Baseline) -> Iterator[Finding]:
    """Compare calls on several threads with one on one thread. A race shows only where there are several cores."""
    case, source = base.case, generator(base.case, 99)
    count = MANY // max(1, sum(primal.numel() for primal in case.primals))
    near = [1 + torch.rand((count, *p.shape), dtype=torch.float64, generator=source) * 2.0**-10 for p in case.primals]
    leaves = [(p * factors.to(p.real)).requires_grad_() for p, factors in zip(case.primals, near, strict=True)]
    weights = [None if c is None else c.expand(count, *c.shape) for c in base.cotangents]

    def call(number: int) -> Made:
        with torch_threads(number), torch.enable_grad(), _torch.quiet_vmap():
            outputs = torch.vmap(lambda *primals: tuple(case.outputs(primals)))(*leaves)
            return [o.detach() for o in outputs], Linearization(leaves, list(outputs)).vjp(weights)

    # The check of vmap tells what it raises; a loop over samples in Python would take seconds.
    with contextlib.suppress(Exception, _torch.TooMuch):
        start = time.thread_time()
        with _torch.Effort(ROUNDS * WORK, STEPS):
            expected = call(1)
        for _ in range(1 if time.thread_time() - start > SLOW else ROUNDS):
            found = list(compared(
                base, f"{count} samples, {THREADS} threads", partial(call, THREADS),
                output=SHARED, gradient=SHARED, expected=expected,
            ))  # fmt: skip
            yield from found
            if found:
                return


def _interleaved(base: Baseline, other: list[Tensor]) -> Iterator[Finding]:
    case, turns = base.case, _Turns()
    right = [(base.outputs, base.gradients), kept(made(case, base, other))]
    with uncollected():  # A line that runs at a collection would put one thread ahead of the other.
        results = _in_threads(
            [partial(turns.take, i, partial(made, case, base, at)) for i, at in enumerate((case.primals, other))]
        )
    for result, expected in zip(results, right, strict=True):
        found = compared(
            base, "two threads that take turns at each line", result,
            raises=Words("threads-raise", "It raises where two threads call it"),
            output=DISTURBED, gradient=DISTURBED, expected=expected,
        )  # fmt: skip
        told = list(found)
        yield from told
        if told:
            return


def _in_threads(functions: Sequence[Callable[[], Made]]) -> list[Callable[[], Made]]:
    """Run each function in a thread of its own; return functions that return or raise what these did."""
    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result for future in [pool.submit(function) for function in functions]]


@functools.cache
def _is_quiet(file: str) -> bool:
    """Return True for a file of torch, of torchgraft or of Python."""
    packages = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return file.startswith(QUIET) or (file.startswith(sysconfig.get_path("stdlib")) and not packages)


class _Turns:
    """Two threads that run one line each, in turns: races then happen every time, not once in a million calls."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._start = threading.Barrier(2)  # A thread that has not begun is not one that waits for a lock.
        self._turn = 0
        self._done = [False, False]
        self._stuck = [False, False]

    def take(self, me: int, function: Callable[[], Made]) -> Made:
        """Run a function as one of the two threads."""

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            if _is_quiet(frame.f_code.co_filename):
                return None
            if event == "line":
                self._pass_on(me)
            return trace

        self._start.wait()
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
            self._stuck[me] = False
            if self._done[1 - me] or self._stuck[1 - me]:
                return
            self._turn = 1 - me
            self._condition.notify_all()
            moved = self._condition.wait_for(lambda: self._turn == me or self._done[1 - me], PATIENCE)
            self._stuck[1 - me] = not moved  # The other thread waits for what this one holds.
            self._turn = me
