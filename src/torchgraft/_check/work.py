"""The work of a call, counted so that it is the same on every machine, and limits on that of other calls."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from .. import _torch
from .case import Case, Linearization
from .finding import Inconclusive
from .target import Target

WORK, STEPS, LINES, LONGER = 3_000_000, 20_000, 200_000, 4
"""Limits of a call with other arguments, beside this multiple of what the given call takes.

They count elements that torch computes, where each operation counts as a thousand, and functions and lines of Python:
a step of 0 makes loops that do not end.
"""
SEARCH = 5_000_000
"""Functions, lines and operations that a search among calls may take, which is some ten seconds."""


def tried(case: Case, *, given: Case, record: Callable[[Case], Linearization] = Case.linearize) -> Linearization | None:
    """The forward pass of a case with other arguments, and a backward for its work; None if refused, or too long.

    What the backward raises is found where it is called again. Where the work hangs on values, as that of an iteration
    does, further calls of the case have a limit too: it may end here, and not beside.

    Args:
        case: to call.
        given: the case that it was made of, whose work says how much there may be.
        record: makes the calls, and returns the recorded one.
    """
    try:
        # A call that is stopped leaves modes as they were.
        with torch.set_grad_enabled(torch.is_grad_enabled()), _torch.Effort(*limits(given)) as effort:
            recorded = record(case)
            zero_vjp(recorded)
    except (Exception, _torch.TooMuch):
        return None
    if effort.lines != taken(given)[2] and not case.target.limited:
        case.target = _limited(case.target, limits(given))
    return recorded


def _limited(target: Target, most: tuple[int, int, int]) -> Target:
    """The target, whose calls raise `Inconclusive` where they take more."""
    function = target.function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            with torch.set_grad_enabled(torch.is_grad_enabled()), _torch.Effort(*most):
                return function(*args, **kwargs)
        except _torch.TooMuch:
            raise Inconclusive("it takes far more work at points nearby") from None

    return replace(target, function=call, limited=True)


def limited(case: Case, *, given: Case) -> Case:
    """Return the case, whose calls raise `Inconclusive` where they take far more work than the given one."""
    return case.calling(_limited(case.target, limits(given)).function)


def limits(case: Case) -> tuple[int, int, int]:
    """The work, calls and lines of Python that a call with other arguments than those of a case may take."""
    work, calls, lines = taken(case)
    return WORK + LONGER * work, STEPS + LONGER * calls, LINES + LONGER * lines


def affordable(case: Case, most: int) -> int:
    """The number of calls that a search may take: at most so many, and fewer of a case that takes long."""
    work, calls, lines = taken(case)
    return min(most, SEARCH // max(work // _torch.PRICE + calls + lines, 1))


def taken(case: Case) -> tuple[int, int, int]:
    """The work, calls and lines of a call and its backward; measured once."""
    if "taken" not in case.memo:
        for _ in range(2):  # The first may import what no other does.
            with contextlib.suppress(Exception), _torch.Effort(sys.maxsize, lines=sys.maxsize) as effort:
                zero_vjp(case.linearize())
        case.memo["taken"] = effort.work, effort.calls, effort.lines
    return case.memo["taken"]  # type: ignore[no-any-return]


def zero_vjp(recorded: Linearization) -> None:
    """Run the backward for nothing but its work."""
    with contextlib.suppress(Exception):
        recorded.vjp([torch.zeros_like(o) if o.requires_grad else None for o in recorded.outputs])
