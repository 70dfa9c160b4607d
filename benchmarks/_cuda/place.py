"""Where rows are measured, and how: on a GPU, or on what stands in for one, where times say nothing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from _timing import Row

Result = tuple[str, str, str]
"""Ours, that of the rival, and what comes of it."""


@dataclass(frozen=True)
class Place:
    """A device that rows are measured on.

    Attributes:
        device: that tensors are on.
        elements: of large tensors.
        cases: random calls of each operator and dtype.
        calls: in a row, for the price of one.
    """

    device: torch.device
    elements: int = 100_000_000
    cases: int = 200
    calls: int = 2000

    @property
    def is_gpu(self) -> bool:
        """Whether times mean something, and what is asynchronous can be seen."""
        return self.device.type == "cuda"

    def wait(self) -> None:
        """Wait for what was launched."""
        if self.is_gpu:
            torch.cuda.synchronize()

    def on_device(self, *functions: Callable[[], object], rounds: int = 20) -> list[float]:
        """Median seconds that the device works for a call of each function, in turn."""
        times: list[list[float]] = [[] for _ in functions]
        for i in range(rounds + 3 if self.is_gpu else 1):
            for function, taken in zip(functions, times, strict=True):
                seconds = self._once(function)
                if i >= 3 or not self.is_gpu:
                    taken.append(seconds)
        return [statistics.median(taken) for taken in times]

    def _once(self, function: Callable[[], object]) -> float:
        if not self.is_gpu:
            start = time.perf_counter()
            function()
            return time.perf_counter() - start
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def on_host(self, *functions: Callable[[], object], rounds: int = 7) -> list[float]:
        """Median seconds until each function returns, in turn, with the device idle at the start of each round."""
        times: list[list[float]] = [[] for _ in functions]
        for _ in range(rounds):
            for function, taken in zip(functions, times, strict=True):
                for _ in range(20):
                    function()
                self.wait()
                start = time.perf_counter()
                for _ in range(self.calls):
                    function()
                taken.append((time.perf_counter() - start) / self.calls)
                self.wait()
        return [statistics.median(taken) for taken in times]


@dataclass(frozen=True)
class Measurement:
    """A row that is still to be measured."""

    what: str
    bar: str
    measure: Callable[[Place], Result]
    needs_gpu: bool

    def row(self, place: Place | None) -> Row:
        """Measure it; without a place, say that it was not run."""
        if place is None:
            return Row(self.what, "", "", "not run", self.bar)
        try:
            ours, rival, result = self.measure(place)
        except Exception as error:  # Each row stands alone: minutes on a GPU are few.
            ours, rival, result = "", "", f"FAILED: {type(error).__name__}: {str(error).splitlines()[0][:200]}"
        return Row(self.what, ours, rival, result, self.bar)


MEASUREMENTS: list[Measurement] = []


def row(what: str, bar: str, *, needs_gpu: bool = False) -> Callable[[Callable[[Place], Result]], None]:
    """Put a function into the table."""

    def put(measure: Callable[[Place], Result]) -> None:
        MEASUREMENTS.append(Measurement(what, bar, measure, needs_gpu))

    return put


def said(is_right: bool) -> str:
    """The result of a row that asks whether values are right."""
    return "right" if is_right else "WRONG"
