"""`debug`: kernels in C run in a process of their own, looked at by sanitizers, poison and fences."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Mode:
    """The way in which kernels in C are debugged.

    Attributes:
        timeout: seconds after which a call is stopped.
        sanitize: with sanitizers: yes, no, or None where the compiler has them.
    """

    timeout: float
    sanitize: bool | None


class Forgetful(Protocol):
    """A cache of functions, which is emptied when the mode changes."""

    def forget(self) -> None:
        """Forget all remembered functions."""


_mode: Mode | None = Mode(60.0, None) if os.environ.get("TORCHGRAFT_DEBUG", "") not in ("", "0") else None
_remembering: weakref.WeakSet[Any] = weakref.WeakSet()


def mode() -> Mode | None:
    """The mode of this process; None where kernels run as they are."""
    return _mode


def remembers(holder: Forgetful) -> None:
    """From now on `holder` is told when the mode changes."""
    _remembering.add(holder)


def _switch(new: Mode | None) -> None:
    global _mode
    _mode = new
    for holder in list(_remembering):
        holder.forget()


@contextlib.contextmanager
def debug(*, timeout: float = 60.0, sanitize: bool | None = None) -> Iterator[None]:
    """Run kernels and rules in C and C++ in a process of their own, and look at what they do to memory.

    The function runs in a small program, built with AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer
    where the compiler has them: what it does wrong raises, with its file and line, and the Python session lives on.
    In any case every sample has memory of its own with nothing behind it, what the function never writes is found
    (memory is filled with two different patterns, in two runs), and so is what depends on memory that it has not
    written. What it prints is shown once. The mode is that of all threads, and takes effect at once, in compiled code
    and in backward too; the environment variable ``TORCHGRAFT_DEBUG=1`` switches it on from the beginning.

    Args:
        timeout: seconds after which a call is stopped.
        sanitize: False for fences around each piece of memory instead of sanitizers, True to insist on sanitizers.

    Raises:
        KernelError: in a call: the function stepped out of its memory, wrote into an input, did not write an element or
            free its memory, did what C does not define, crashed, threw, returned a code, or took too long. `RuleError`,
            for a rule.
        BuildError: in a call: `sanitize` is True, and the compiler has none.

    Warns:
        TorchgraftWarning: in a call: the result is another one in every run, so that runs cannot be compared.

    Example:
        >>> with tg.debug():
        ...     correlate2d(x, kernel)
        KernelError: operator 'correlate2d' argument 'out': the function stepped out of its memory ...
    """
    before = _mode
    _switch(Mode(timeout, sanitize))
    try:
        yield
    finally:
        _switch(before)
