"""An end, by CPU time, of calls that have none: a last resort, where nobody counts what a call computes."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

from .. import _torch
from .._locate import own_line
from .ended import Endless

MINUTE, LONGER, AGAIN = 60.0, 10, 5.0
"""Seconds of a call that is ended, if it takes this multiple of the longest before it; and the next try, if ignored."""


class Guard:
    """Within, calls and backwards are ended; outermost ones, in the thread that began the check.

    Attributes:
        ended: number of calls that it has ended.
    """

    def __init__(self) -> None:
        self.ended = 0
        self._thread: int | None = None
        self._depth, self._longest, self._start = 0, 0.0, 0.0

    @contextlib.contextmanager
    def installed(self, *, first: bool) -> Iterator[None]:
        """Within, calls have an end, where a signal can bring it: not on Windows, beside a handler, or in a thread.

        Args:
            first: end the first call too; where it is the caller's own, it tells how long others may take.
        """
        main = threading.current_thread() is threading.main_thread()
        if not main or not hasattr(signal, "setitimer") or signal.getsignal(signal.SIGVTALRM) != signal.SIG_DFL:
            yield
            return
        self._thread, self._longest = threading.get_ident(), sys.float_info.min if first else 0.0
        signal.signal(signal.SIGVTALRM, self._end)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
            self._thread = None

    def __enter__(self) -> None:
        """Begin to count the time of a call."""
        if self._thread != threading.get_ident():
            return
        self._depth += 1
        if self._depth == 1:
            self._start = time.process_time()
            if self._longest:
                signal.setitimer(signal.ITIMER_VIRTUAL, max(MINUTE, LONGER * self._longest), AGAIN)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Stop counting the time of a call."""
        if self._thread != threading.get_ident():
            return
        self._depth -= 1
        if self._depth == 0:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            if kind is not _torch.TooMuch:
                self._longest = max(self._longest, time.process_time() - self._start)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if _torch.may_stop(frame):  # Where it may not, the timer tries again.
            self.ended += 1
            raise _torch.TooMuch


GUARD = Guard()
"""The guard of the check that runs."""


def endless(stopped: _torch.TooMuch, call: str = "") -> Endless:
    """Return the end of a call that the guard has stopped, with the arguments in words."""
    return Endless(f"a call used {MINUTE:.0f} s of CPU time, and was ended", own_line(stopped) or "", call)
