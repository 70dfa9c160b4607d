"""Frames of torchgraft's own, which tracebacks of its errors leave out: they end in the user's line.

``TORCHGRAFT_TRACEBACK=full`` shows every frame.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
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
    found: BaseException | None = error
    seen = set[int]()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        found.__traceback__ = _shortened(found.__traceback__)
        found = found.__cause__ or found.__context__


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
    """Shorten what Python prints of errors of a kind that nobody catches."""
    before: Callable[..., Any] = sys.excepthook

    def hook(raised: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, kind) or _refuses_arguments(error):
            shorten(error)
            trace = error.__traceback__
        before(raised, error, trace)

    sys.excepthook = hook
