"""Memory is given back, and threads do not disturb each other."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from ... import _torch
from ..baseline import Value, baseline, pulled, short
from ..case import Case, Linearization
from ..finding import Finding, Skip, Verdict
from ..variations import nearby

# -- memory that a call does not give back ---------------------------------------------------------------------------


BLOCKS = 5
"""Blocks of calls in each of which something must have grown."""


def leaks(case: Case) -> Iterator[Finding]:
    """Drop everything with the garbage collector off, and then look at the slope of the memory in use."""
    base = baseline(case)
    if not any(primal.numel() for primal in case.primals):
        raise Skip("the arguments have no elements")
    if _torch.profiling():
        raise Skip("a profiler is on, which keeps memory of each call")

    def call() -> None:
        pulled(case.linearize(), base)

    call()
    held = _held(case)
    if held:
        yield Finding(
            "graph-leak", Verdict.FAIL, "The graph of a call outlives its results", f"{held}; {case.label}",
            cause="a cycle through ctx that the garbage collector does not see: an output kept as an attribute of ctx",
            hint="keep tensors with ctx.save_for_backward",
        )  # fmt: skip
        return
    for what, grown in _slopes(call).items():
        yield Finding(
            "memory-leak", Verdict.FAIL, f"Each call keeps {grown:.0f} more {what}", f"memory; {case.label}",
            cause="something is added in each call to a list, a dictionary or a cache, or is not freed",
            hint="keep what belongs to one call on ctx",
        )  # fmt: skip


def _held(case: Case) -> str:
    """Name the tensors that are still alive after their last reference was dropped."""
    base = baseline(case)
    with _collector_off():
        recorded = case.linearize()
        gradients = pulled(recorded, base)
        watched = {f"input {name}": weakref.ref(p) for name, p in zip(case.names, recorded.primals, strict=True)}
        watched |= {base.output_name(i): weakref.ref(output) for i, output in enumerate(recorded.outputs)}
        watched |= {base.gradient_name(i): weakref.ref(g) for i, g in enumerate(gradients) if g is not None}
        del recorded, gradients
        alive = [name for name, reference in watched.items() if reference() is not None]
        if not alive:
            return ""
        call_again = case.linearize()  # what keeps the last call alone lets the first one go now
        pulled(call_again, base)
        return ", ".join(name for name in alive if watched[name]() is not None)


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _slopes(call: Callable[[], None]) -> dict[str, float]:
    """Measure the memory that grows in every block of calls, and by how much in each call.

    A cache that fills up grows in some blocks, and fragmentation in short ones: what is suspected is looked at longer.
    """
    meters = {"Python objects": sys.getallocatedblocks}
    if _mallinfo() is not None:
        meters["bytes"] = _bytes_in_use
    grown = dict[str, float]()
    for runs, least in ((8, 0.3), (128, 0.9)):
        with _quick_collector():
            grown = _growth(call, meters, runs, least)
        meters = {name: meters[name] for name in grown}
    return grown


def _growth(
    call: Callable[[], None], meters: Mapping[str, Callable[[], int]], runs: int, least: float
) -> dict[str, float]:
    """What grows in each block of calls by more than `least` a call, and by how much in the block that adds least."""
    grown = dict.fromkeys(meters, float("inf"))
    before = dict[str, int]()
    for _ in range(1 + BLOCKS if grown else 0):
        for _ in range(runs):
            call()
        gc.collect()
        now = {name: meters[name]() for name in grown}
        for name in before:
            grown[name] = min(grown[name], (now[name] - before[name]) / runs)
        grown = {name: each for name, each in grown.items() if each > least}
        if not grown:
            break
        before = {name: now[name] for name in grown}
    return grown


@contextlib.contextmanager
def _quick_collector() -> Iterator[None]:
    """Within, the collector looks at new objects alone: those of torch and the rest take it a tenth of a second."""
    if gc.get_freeze_count():  # somebody else's, which unfreezing would let go
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    )]  # fmt: skip


@functools.cache
def _mallinfo() -> Callable[[], _Mallinfo] | None:
    """Glibc's account of the main thread's memory; None elsewhere."""
    try:
        found = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return None
    found.restype = _Mallinfo
    return found


def _bytes_in_use() -> int:
    read = _mallinfo()
    assert read is not None
    info = read()
    return int(info.uordblks + info.hblkhd)


# -- several threads at once, and a backward on another thread than the forward --------------------------------------


_QUIET = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]), "<frozen")
"""Files whose lines are not interleaved: torch, torchgraft, and Python's own frozen modules."""

PATIENCE = 0.02
"""Seconds that a thread waits for its turn before it goes on all the same: the other one may wait for a lock."""


def threads(case: Case) -> Iterator[Finding]:
    """Two calls that take turns at each line of their Python code; then a backward on another thread."""
    base, other = baseline(case), nearby(case)
    if base.random:
        raise Skip("it draws random numbers, which threads share")
    if case.target.kind != "module":  # each call has a copy of its own
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
