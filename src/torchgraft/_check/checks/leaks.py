"""Memory that a call does not give back: what grows from call to call, and cycles that hold tensors."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from torch.autograd.function import FunctionCtx

from ... import _torch
from ..baseline import Baseline, baseline, vjp_of
from ..case import Case
from ..finding import Finding, Skip, Verdict
from .ways import Words, on_one_module, results_of, uncollected

KEPT = Words(
    "graph-leak", "The graph of a call outlives its results",
    "a cycle through ctx, such as an output kept as an attribute of ctx, or a setup_context that returns ctx",
    "keep tensors with ctx.save_for_backward, and return nothing from setup_context",
)  # fmt: skip
COLLECTED = Words(
    "held-in-garbage", "What a call used is let go only when Python collects garbage",
    "a cycle of Python objects holds it, such as a nested function that calls itself, or an object that keeps its own "
    "method", "give detached copies, or numbers, to what makes the cycle", Verdict.PASS,
)  # fmt: skip

BLOCKS = 6
"""Blocks of calls in all of which, but one, something must have grown."""


def leaks(case: Case) -> Iterator[Finding]:
    """Drop everything with the garbage collector off, and then look at the slope of the memory in use."""
    base = baseline(case)
    if not any(primal.numel() for primal in case.primals):
        raise Skip("the arguments have no elements")
    if _torch.profiling():
        raise Skip("a profiler is on, which keeps memory of each call")

    call = partial(_called, case, base)
    call()
    held, lasting = _held(base, call)
    if held:
        yield (KEPT if lasting else COLLECTED).at(f"{held}; {case.label}")
    if lasting:
        return
    grows = _slopes(call)
    if grows and case.target.kind == "module":  # Copying a module for each call may keep something, which is ours.
        kept = on_one_module(case)
        again = _slopes(lambda: _called(kept, base))
        grows = {what: grown for what, grown in again.items() if what in grows}
    for what, grown in grows.items():
        yield Words(
            "memory-leak", f"Each call keeps {grown:.0f} more {what}",
            "something is added in each call to a list, a dictionary or a cache, or is not freed",
            "keep what belongs to one call on ctx",
        ).at(f"memory; {case.label}")  # fmt: skip


def _called(case: Case, base: Baseline) -> None:
    vjp_of(case.linearize(), base)


def _held(base: Baseline, call: Callable[[], None]) -> tuple[str, bool]:
    """Name the tensors that are alive after their last reference was dropped, and tell whether a graph keeps them.

    Python's collector frees what objects of Python alone hold in a cycle, such as a nested function that calls itself.
    """
    with uncollected(), _frozen():
        recorded = base.case.linearize()
        results = {f"input {name}": p for name, p in zip(base.case.names, recorded.primals, strict=True)}
        results |= results_of(base, recorded)
        watched = {name: weakref.ref(tensor) for name, tensor in results.items()}
        del recorded, results

        def alive() -> list[str]:
            return [name for name, reference in watched.items() if reference() is not None]

        if alive():
            call()  # A target that keeps its last call alone lets the first one go now.
        held = alive()
        return ", ".join(held), bool(held) and (_cycle_of_nodes() or bool(alive()))


def _cycle_of_nodes() -> bool:
    """Collect garbage, and return True if a node of a graph was in a cycle of it."""
    before = gc.get_debug()
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(before)
    garbage = {id(thing): thing for thing in gc.garbage}
    gc.garbage.clear()
    nodes = [thing for thing in garbage.values() if issubclass(type(thing), FunctionCtx)]  # A dead proxy has no class.
    found = any(_reaches_itself(node, garbage) for node in nodes)
    nodes.clear()
    garbage.clear()
    gc.collect()
    return found


def _reaches_itself(thing: Any, garbage: Mapping[int, Any]) -> bool:
    """Follow what a thing refers to within the garbage."""
    todo, seen = [thing], set[int]()
    while todo:
        for other in gc.get_referents(todo.pop()):
            if other is thing:
                return True
            if id(other) in garbage and id(other) not in seen:
                seen.add(id(other))
                todo.append(other)
    return False


def _slopes(call: Callable[[], None]) -> dict[str, float]:
    """Measure the memory that grows in every block of calls, and by how much in each call.

    A cache that fills up grows in some blocks, and fragmentation in short ones: what is suspected is looked at longer.
    """
    meters = _meters()
    with _frozen():
        for runs, least in ((8, 0.3), (24, 0.8), (128, 0.9)):
            grown = _growth(call, meters, runs, least)
            meters = {name: meters[name] for name in grown}
    return grown


@contextlib.contextmanager
def _frozen() -> Iterator[None]:
    """Within, the collector looks at new objects alone: those of torch and all others take a tenth of a second."""
    freezing = not gc.get_freeze_count()  # To unfreeze would let go what somebody else has frozen.
    if freezing:
        gc.freeze()
    try:
        yield
    finally:
        if freezing:
            gc.unfreeze()


def _growth(
    call: Callable[[], None], meters: Mapping[str, Callable[[], int]], runs: int, least: float
) -> dict[str, float]:
    """Find what grows by more than `least` a call in each block but one, and by how much in the block that adds least.

    One block is spared, since another thread may let memory go just then.
    """
    readings: dict[str, list[int]] = {name: [] for name in meters}
    grown = dict.fromkeys(meters, float("inf"))
    for _ in range(1 + BLOCKS if grown else 0):
        for _ in range(runs):
            call()
        gc.collect()
        for name in grown:
            readings[name].append(meters[name]())
            blocks = sorted(after - before for before, after in itertools.pairwise(readings[name]))
            if len(blocks) > 1:
                grown[name] = blocks[1] / runs
        grown = {name: each for name, each in grown.items() if each > least}
        if not grown:
            break
    return grown


class _Mallinfo(ctypes.Structure):
    _fields_ = (("counts", ctypes.c_size_t * 10),)


def _meters() -> dict[str, Callable[[], int]]:
    """Count what is in use: Python's objects, and bytes of the main thread, where glibc accounts for them."""
    meters: dict[str, Callable[[], int]] = {"Python objects": sys.getallocatedblocks}
    with contextlib.suppress(AttributeError, OSError):
        read = ctypes.CDLL(None).mallinfo2
        read.restype = _Mallinfo
        # Fields 4 and 7 count mapped bytes, and those in the heap.
        meters["bytes"] = lambda: sum(read().counts[i] for i in (4, 7))
    return meters
