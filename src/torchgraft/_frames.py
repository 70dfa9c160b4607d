"""Frames of torchgraft's own, which tracebacks of its errors leave out: they end in the user's line.

``TORCHGRAFT_TRACEBACK=full`` shows every frame.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

GENERATED = "<torchgraft "
"""Beginning of the file names of generated code."""

_PACKAGE = str(Path(__file__).parent) + os.sep
_CALL = f"{_PACKAGE}_op.py"
_EXAMPLES = _PACKAGE + "_examples"  # A wheel carries them there, and they are written as users write.
_TORCH = str(Path(torch.__file__).parent) + os.sep


def is_own(file: str) -> bool:
    """Return True if a file name is of code of torchgraft's, written or generated."""
    return file.startswith((GENERATED, _PACKAGE)) and not file.startswith(_EXAMPLES)


def is_of_torch(file: str) -> bool:
    """Return True if a file name is of torch's code."""
    return file.startswith(_TORCH)


def shorten(error: BaseException) -> None:
    """Take the frames that are not the user's out of an error's traceback, and out of those of its causes.

    Frames of torch stay where they lead to code of the user's. A traceback without a frame of the user's stays as it
    is, and so does every one where the environment asks for full tracebacks.
    """
    if os.environ.get("TORCHGRAFT_TRACEBACK") == "full":
        return
    for each in _chain(error):
        each.__traceback__ = _shortened(each.__traceback__)


def _shortened(trace: TracebackType | None) -> TracebackType | None:
    entries: list[TracebackType] = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    files = [entry.tb_frame.f_code.co_filename for entry in entries]
    last = max((i for i, file in enumerate(files) if not is_own(file) and not is_of_torch(file)), default=None)
    if last is None:
        return entries[0] if entries else None
    short: TracebackType | None = None
    for entry, file in reversed(list(zip(entries[: last + 1], files, strict=False))):
        if not is_own(file):
            short = TracebackType(short, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return short


def _refuses_arguments(error: BaseException) -> bool:
    """Return True for Python's own refusal of too many or too few arguments, where a first call makes the function."""
    places = [(frame.f_code.co_filename, frame.f_code.co_name) for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, TypeError) and places[-1:] == [(_CALL, "__call__")]


def rendered(error: BaseException) -> list[str]:
    """The lines that a notebook shows of an error."""
    shorten(error)
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return traceback.format_exception(error)
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
    return lines


def install(kind: type[BaseException]) -> None:
    """Shorten what Python prints of errors of a kind that nobody catches, in any thread, and of what they cause."""
    before: Callable[..., Any] = sys.excepthook
    in_thread: Callable[..., Any] = threading.excepthook

    def shown(error: BaseException | None) -> None:
        if error is not None and (any(isinstance(each, kind) for each in _chain(error)) or _refuses_arguments(error)):
            shorten(error)

    def hook(raised: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        shown(error)
        before(raised, error, error.__traceback__ or trace)

    def thread_hook(given: threading.ExceptHookArgs) -> None:
        shown(given.exc_value)
        trace = given.exc_value.__traceback__ if given.exc_value is not None else given.exc_traceback
        in_thread(threading.ExceptHookArgs((given.exc_type, given.exc_value, trace, given.thread)))

    sys.excepthook, threading.excepthook = hook, thread_hook


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and those that it was raised from or beside."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
