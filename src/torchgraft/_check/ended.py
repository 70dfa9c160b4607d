"""The early end of a target, or of the process it ran in; and what keeps a target from ending this one."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from .._locate import foreign, own_line
from .finding import Finding, Verdict
from .report.result import Result

_ALIVE = "The target comes back, and leaves the interpreter alive."


class Ended(Exception):
    """The target ended its process, or tried to: by a call, a signal or an exit status, in a line of the user's own.

    The line, and the arguments of the call in words, are empty where they are not known.
    """

    title = "The target ends its process"
    hint = (
        "raise an exception that says what is wrong; take x.detach() for x.data, with which vmap crashes; "
        "TORCHGRAFT_DEBUG=1 shows what a kernel in C does wrong"
    )

    def __init__(self, how: str, where: str = "", call: str = "") -> None:
        super().__init__(how, where, call)
        self.how, self.where, self.call = how, where, call

    def result(self, check: str) -> Result:
        """Return the result of the check that ran."""
        finding = Finding(
            "crash", Verdict.FAIL, f"{self.title}: {self.how}", "; ".join(filter(None, (self.where, self.call))),
            cause=f"seen in the check '{check}'", hint=self.hint,
        )  # fmt: skip
        return Result(check, _ALIVE, Verdict.FAIL, findings=(finding,))


class Hung(Ended):
    """The process waited for something that did not come, and was killed."""

    title = "The target hangs"


class Endless(Ended):
    """A call used very much CPU time, and was ended."""

    title = "The target does not come back"
    hint = "give loops an end that comes in every dtype, or refuse the arguments"


class TimeOver(Ended):
    """The process was killed at the end of its time, which proves nothing."""

    def result(self, check: str) -> Result:
        """Return the result of the check that ran."""
        return Result(check, _ALIVE, Verdict.INCONCLUSIVE, note=self.how)


def ended_by(error: BaseException) -> Ended:
    """Return the end that a target asked for by an exception."""
    how = f"sys.exit({error.code!r})" if type(error) is SystemExit else str(error) or type(error).__name__
    return Ended(how, own_line(error) or "")


def ended_with(status: int, trace: Path, call: str = "") -> Ended:
    """Return the end of a process with this exit status, or minus the number of its signal.

    `faulthandler` wrote the trace; the call is the arguments of the last one, in words.
    """
    names = {-each.value: each.name for each in signal.Signals}
    how = names.get(status, f"signal {-status}" if status < 0 else f"exit status {status}")
    return Ended(how, line_in(trace), call)


def line_in(trace: Path) -> str:
    """Return the user's innermost line in what `faulthandler` wrote: of the thread that crashed, if one did."""
    text = trace.read_text()
    current = re.search(r"^Current thread .*?(?=^$|\Z)", text, re.M | re.S)
    for file, line, name in re.findall(r'File "(.+)", line (\d+) in (.+)', current[0] if current else text):
        if not foreign(file):
            return f"{file}, line {line}, in {name}"
    return ""


# -- in this process --------------------------------------------------------------------------------------------------


class _Exit(SystemExit):
    """The exception in the place of `os._exit`."""


@contextlib.contextmanager
def staying() -> Iterator[None]:
    """Raise `Ended` where a target leaves: `os._exit` and `sys.exit` would take the report along."""
    leave, here = os._exit, os.getpid()

    def refuse(status: int) -> None:
        if os.getpid() == here:
            raise _Exit(f"os._exit({status})")
        leave(status)  # The target has forked this process.

    os._exit = refuse  # type: ignore[assignment]
    try:
        yield
    except SystemExit as error:
        raise ended_by(error) from None
    finally:
        os._exit = leave


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Show nothing that a target prints or logs in its many calls, and raise `Ended` where it leaves.

    Nothing is seen of the standard output of Python, nor of the descriptor that native code writes to.
    """
    disabled = logging.root.manager.disable
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.ExitStack() as after:
        with contextlib.suppress(OSError):  # The descriptor is closed.
            kept = os.dup(1)
            after.callback(os.close, kept)
            after.callback(os.dup2, kept, 1)
            after.callback(_flush)
            _flush()
            os.dup2(nowhere.fileno(), 1)
        logging.disable(logging.CRITICAL)
        after.callback(logging.disable, disabled)
        with staying():
            yield


def _flush() -> None:
    """Write what Python and C still hold back, before the descriptor changes."""
    if sys.__stdout__ is not None and not sys.__stdout__.closed:
        sys.__stdout__.flush()
    with contextlib.suppress(OSError, TypeError, AttributeError):  # Not every program has the functions of C.
        ctypes.CDLL(None).fflush(None)
