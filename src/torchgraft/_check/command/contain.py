"""A target kept from the process that checks it: from its output, and from its end."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
from collections.abc import Iterator
from typing import NoReturn


class Exit(SystemExit):
    """`os._exit` was called."""

    def __str__(self) -> str:
        return f"os._exit({self.code})"


def how(error: SystemExit) -> str:
    """The call by which somebody meant to leave."""
    return str(error) if isinstance(error, Exit) else f"sys.exit({error.code!r})"


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """What a target prints and logs in a hundred calls is no part of the report, and it cannot leave in silence."""
    with _unlogged(), _unprinted(), staying():
        yield


@contextlib.contextmanager
def staying() -> Iterator[None]:
    """Within, `os._exit` raises: else it would take the report along, and put a status of its own in the place of one.

    A process that the target has forked leaves as it wants to.
    """
    leave, here = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != here:
            leave(status)
        raise Exit(status)

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = leave


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)


@contextlib.contextmanager
def _unprinted() -> Iterator[None]:
    """Neither what Python prints is shown, nor what native code does, which knows the descriptor alone."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            kept = os.dup(1)
        except OSError:  # it is closed
            yield
            return
        _flush()
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            _flush()
            os.dup2(kept, 1)
            os.close(kept)


def _flush() -> None:
    """Write what Python and C hold back where it belongs."""
    if sys.__stdout__ is not None and not sys.__stdout__.closed:
        sys.__stdout__.flush()
    with contextlib.suppress(OSError, TypeError, AttributeError):  # not everywhere are C's functions in the program
        ctypes.CDLL(None).fflush(None)
