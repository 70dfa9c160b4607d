"""Memory that a call does not give back."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping

from ..baseline import baseline, pulled
from ..case import Case
from ..finding import Finding, Skip, Verdict

BLOCKS = 5
"""Blocks of calls in each of which something must have grown."""


def leaks(case: Case) -> Iterator[Finding]:
    """Drop everything with the garbage collector off, and then look at the slope of the memory in use."""
    base = baseline(case)
    if not any(primal.numel() for primal in case.primals):
        raise Skip("the arguments have no elements")

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
    """What is still alive after its last reference was dropped, in words."""
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
    """What grows in every block of calls, and by how much in each call.

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
