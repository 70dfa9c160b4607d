"""Work in a process of its own, which may crash or hang without taking anything else along."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..._errors import TorchgraftError
from ..._locate import foreign, own_line
from .contain import how

POLL = 0.2
"""Seconds between two looks at whether the process is still there."""

START = 60.0
"""Seconds that there are for the imports of a process."""


class Crashed(Exception):
    """The process ended before its work did.

    Attributes:
        how: a signal or an exit status, in words.
        where: the line of the user's own that ran; empty where it is not known.
    """

    def __init__(self, how: str, where: str = "") -> None:
        super().__init__(f"{how} in {where}" if where else how)
        self.how = how
        self.where = where


class Left(Crashed):
    """The target meant to leave the interpreter, or to interrupt it."""


class Hung(Exception):
    """The process did not end in time, and was killed."""


def isolated(work: Callable[..., Iterable[Any]], *arguments: Any, limit: float | None = None) -> Iterator[Any]:
    """What some work gives, one after another, that is done in a process of its own.

    Args:
        work: a function of a module, which is found again by name; what it gives is pickled.
        arguments: of the function, pickled too.
        limit: seconds, after which the process is killed; None for none. They begin when all is imported, for which
            there are at least `START`.

    Raises:
        Crashed: the process ended by a signal, or by an exit of C.
        Left: the work meant to end it.
        Hung: it was killed.
        TorchgraftError: that the work raised.
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder, receiver:
        trace = Path(folder, "trace.txt")
        # spawn: a forked child of a process with threads, which torch's is, may hang
        process = multiprocessing.get_context("spawn").Process(target=_run, args=(sender, str(trace), work, arguments))
        process.start()
        sender.close()
        end = None if limit is None else time.monotonic() + max(limit, START)
        try:
            while not isinstance(message := _next(receiver, process, end), _Done):
                if message is None:
                    process.join()
                    raise Crashed(_how(process.exitcode or 0), _line(trace.read_text() if trace.exists() else ""))
                if isinstance(message, _Begun):
                    end = None if limit is None else time.monotonic() + limit
                else:
                    yield message.value
            if message.error is not None:
                raise message.error
            if message.left is not None:
                raise Left(*message.left)
        finally:
            process.kill()
            process.join()


@dataclass(frozen=True)
class _Begun:
    """All is imported, the work begins."""


@dataclass(frozen=True)
class _Said:
    value: Any


@dataclass(frozen=True)
class _Done:
    error: TorchgraftError | None = None
    left: tuple[str, str] | None = None
    """How, and where."""


def _run(sender: Connection, trace: str, work: Callable[..., Iterable[Any]], arguments: tuple[Any, ...]) -> None:
    """In the child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the parent that is interrupted, and ends this process
    sys.stdout = sys.stderr  # what the user's code prints is no part of the parent's answer
    os.dup2(2, 1)  # nor is what native code does
    with open(trace, "w") as file:
        faulthandler.enable(file)
        _send(sender, _Begun())
        try:
            for value in work(*arguments):
                _send(sender, _Said(value))
        except TorchgraftError as error:
            _send(sender, _Done(error))
        except (SystemExit, KeyboardInterrupt) as error:
            call = how(error) if isinstance(error, SystemExit) else "KeyboardInterrupt"
            _send(sender, _Done(left=(call, own_line(error) or "")))
        else:
            _send(sender, _Done())
        faulthandler.disable()


def _send(sender: Connection, message: _Begun | _Said | _Done) -> None:
    """By bytes: torch would have `send` share the memory of tensors, which this process does not live to hand over."""
    sender.send_bytes(pickle.dumps(message))


def _next(receiver: Connection, process: Any, end: float | None) -> _Begun | _Said | _Done | None:
    """The next message; None if there is none any more, for the process is gone."""
    while not receiver.poll(POLL):
        if end is not None and time.monotonic() > end:
            raise Hung
        if not process.is_alive() and not receiver.poll():
            return None
    try:
        message: _Begun | _Said | _Done = pickle.loads(receiver.recv_bytes())
    except EOFError:
        return None
    return message


def _how(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _line(trace: str) -> str:
    """The innermost line of the user's own in what `faulthandler` wrote, of the thread that crashed."""
    current = re.search(r"^Current thread .*?(?=^$|\Z)", trace, re.M | re.S)
    for file, line, name in re.findall(r'File "(.+)", line (\d+) in (.+)', current[0] if current else trace):
        if not foreign(file):
            return f"{file}, line {line}, in {name}"
    return ""
