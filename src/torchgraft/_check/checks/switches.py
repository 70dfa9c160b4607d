"""The switches of torch, NumPy and the processor, which a call leaves as they were."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from ..baseline import baseline, vjp_of
from ..case import Case
from ..finding import Finding
from ..variations import resized, sizes
from ..work import limits, tried
from .ways import Words


class Switch(NamedTuple):
    """A setting of the whole process, or of a thread."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], Any]


def _rounding() -> int:
    """The processor's rounding mode, as <fenv.h> numbers it; 0 where there is no such function."""
    with contextlib.suppress(AttributeError, TypeError):
        return int(ctypes.CDLL(None).fegetround())
    return 0


def _flushes() -> bool:
    """Return True if results that are denormal become zero."""
    return not np.multiply(np.float64(2.0**-1060), np.float64(0.5))


def _autocast() -> dict[str, bool]:
    """For each type of device whether autocast is on."""
    accelerator = torch.accelerator.current_accelerator()
    kinds = ["cpu", *([accelerator.type] if accelerator else [])]
    return {kind: torch.is_autocast_enabled(kind) for kind in kinds}


def _set_autocast(given: dict[str, bool]) -> None:
    for kind, on in given.items():
        torch.set_autocast_enabled(kind, on)


SWITCHES = (
    Switch("grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
    Switch("autocast", _autocast, _set_autocast),
    Switch("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
    Switch("the number of threads", torch.get_num_threads, torch.set_num_threads),
    Switch("deterministic algorithms", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    Switch("anomaly detection", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    Switch(
        "the precision of matrix products", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
    ),
    Switch("NumPy's treatment of errors", np.geterr, lambda given: np.seterr(**given)),
    Switch("the processor's rounding mode", _rounding, lambda mode: ctypes.CDLL(None).fesetround(mode)),
    Switch("the processor's treatment of denormal numbers", _flushes, torch.set_flush_denormal),
)  # fmt: skip


def switches(case: Case) -> Iterator[Finding]:
    """Look at each switch after a call under no_grad, after one with grad mode, and after a backward.

    Then with an axis of 1, for which a kernel may return early.
    """
    base, linear = baseline(case), case.linearize()

    def recorded() -> None:
        case.call([primal.clone().requires_grad_().clone() for primal in case.primals])  # It may write into them.

    ways: list[tuple[str, bool, Case, Callable[[], object]]] = [
        ("a call under no_grad", False, case, case.call),
        ("a call", True, case, recorded),
        ("a backward", False, case, lambda: vjp_of(linear, base)),
    ]
    largest = max(sizes(case), default=1)
    if largest > 1 and case.target.kind != "module":  # Kernels crash where a module's own parameters do not fit.
        single = resized(case, largest, 1)
        ways.append(("a call with an axis of 1", True, single, lambda: tried(single, given=case)))
    limits(case)  # To measure them is a call.
    for how, recording, given, call in ways:
        with torch.set_grad_enabled(recording):
            left = _left(call)
        for name in left:
            cause = "it is set for the call, and not given back as it was"
            hint = "use a context manager, such as torch.no_grad(), or set it back in `finally`"
            yield Words("switch-left", f"After {how}, {name} is another", cause, hint).at(given.label)
        if left:
            return


def _left(call: Callable[[], object]) -> list[str]:
    """The names of the switches that a call leaves in another position; they are set back."""
    before = [switch.get() for switch in SWITCHES]
    try:
        call()
    finally:
        pairs = list(zip(SWITCHES, before, strict=True))
        turned = [(switch, position) for switch, position in pairs if switch.get() != position]
        for switch, position in turned:
            switch.set(position)
    return [switch.name for switch, _ in turned]
