"""Keep a target away from what checks it: its output, its exit, and, in a process of its own, its crash."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from ..._errors import TorchgraftError
from ..ended import Ended, TimeOver, ended_by, ended_with, staying

START = 60.0
"""Seconds that a process has for its imports, where its time is limited."""


# -- in this process --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Show nothing that a target prints or logs in its many calls, and let it not end this process.

    Raises:
        Ended: it tried to.
    """
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with _silent(), staying():
            yield
    finally:
        logging.disable(disabled)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Send the standard output nowhere: that of Python, and the descriptor that native code writes to."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.ExitStack() as after:
        with contextlib.suppress(OSError):  # the descriptor is closed
            kept = os.dup(1)
            after.callback(os.close, kept)
            after.callback(os.dup2, kept, 1)
            after.callback(_flush)
            _flush()
            os.dup2(nowhere.fileno(), 1)
        yield


def _flush() -> None:
    """Write what Python and C still hold back, before the descriptor changes."""
    if sys.__stdout__ is not None and not sys.__stdout__.closed:
        sys.__stdout__.flush()
    with contextlib.suppress(OSError, TypeError, AttributeError):  # not everywhere are C's functions in the program
        ctypes.CDLL(None).fflush(None)


# -- in a process of its own ------------------------------------------------------------------------------------------


def isolated(
    work: Callable[..., Iterable[Any]],
    *arguments: Any,
    limit: float | None = None,
    begun: Callable[[], None] = lambda: None,
) -> Iterator[Any]:
    """Yield what some work yields in a fresh process.

    Args:
        work: a function of a module; the process finds it by its name. What it yields is pickled.
        arguments: of the function, pickled too.
        limit: seconds after which the process is killed, counted from the end of its imports.
        begun: is called when the imports are done.

    Raises:
        Ended: the process crashed or left, or it was killed.
        TorchgraftError: that the work raised.
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder, receiver:
        trace = Path(folder, "trace.txt")
        # spawn: a forked child of a process with threads, which torch's is, may hang
        process = multiprocessing.get_context("spawn").Process(target=_run, args=(sender, trace, work, arguments))
        process.start()
        sender.close()
        deadline = None if limit is None else time.monotonic() + START + limit
        try:
            while (message := _next(receiver, process.sentinel, deadline)) is not None:
                kind, value = message
                if kind == "begun":
                    deadline = None if limit is None else time.monotonic() + limit
                    begun()
                elif kind == "value":
                    yield value
                elif value is None:
                    return
                else:
                    raise value
            process.join()
            raise ended_with(process.exitcode or 0, trace)
        finally:
            process.kill()
            process.join()


def _next(receiver: Connection, sentinel: int, deadline: float | None) -> tuple[str, Any] | None:
    """Return the next message; None if the process is gone."""
    if not wait([receiver, sentinel], None if deadline is None else max(0.0, deadline - time.monotonic())):
        raise TimeOver("the time was over, and a call did not end: the process was killed")
    try:
        return pickle.loads(receiver.recv_bytes()) if receiver.poll() else None
    except (EOFError, OSError):  # it ended, perhaps in the middle of a message
        return None


def _run(sender: Connection, trace: Path, work: Callable[..., Iterable[Any]], arguments: tuple[Any, ...]) -> None:
    """Work, in the fresh process."""

    def send(kind: str, value: Any = None) -> None:
        # Bytes: `send` would share the memory of tensors, and this process does not live to hand it over.
        sender.send_bytes(pickle.dumps((kind, value)))

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends this process
    sys.stdout = sys.stderr  # what is printed is no part of the parent's answer
    os.dup2(2, 1)
    with open(trace, "w") as file:
        faulthandler.enable(file)
        send("begun")
        try:
            for value in work(*arguments):
                send("value", value)
            send("end")
        except (TorchgraftError, Ended) as error:
            send("end", error)
        except (SystemExit, KeyboardInterrupt) as error:
            send("end", ended_by(error))
        faulthandler.disable()
