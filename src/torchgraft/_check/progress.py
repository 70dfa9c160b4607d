"""A line that shows how far the checks are, on a terminal or in a notebook."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

Progress = Callable[[int, int, str], None]
"""Called with the number of a check, the number of all, and the name, before the check begins."""

DELAY = 1.0  # Seconds before the line appears: quick checks show none.
TICK = 0.2  # Seconds between two looks at the time.
THREAD = "torchgraft-progress"


@contextlib.contextmanager
def reporting(progress: Callable[[str], None] | bool | None = None) -> Iterator[Progress]:
    """Yield the function that a runner calls before each check.

    Args:
        progress: a function that gets the check's name; or whether the line is shown: None shows it after `DELAY`,
            True at once, False never.
    """
    if callable(progress):
        tell = progress
        yield lambda number, count, name: tell(name)
    else:
        with ProgressLine(None if progress is False else sys.stderr, 0.0 if progress else DELAY) as line:
            yield line.show


class ProgressLine:
    """One line that a thread writes again as time passes, and that is erased at the end.

    Args:
        stream: where somebody may see it; nothing is written but to a terminal or to the output of a Jupyter kernel.
        delay: seconds before the line appears.
    """

    def __init__(self, stream: TextIO | None, delay: float = 0.0) -> None:
        watched = stream is not None and (stream.isatty() or type(stream).__module__ == "ipykernel.iostream")
        self._stream = stream if watched else None
        self._start = time.monotonic()
        self._delay = delay
        self._said = ""
        self._width = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, name=THREAD, daemon=True)

    def __enter__(self) -> ProgressLine:
        if self._stream is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._stream is not None:
            self._thread.join()
        with self.hidden():
            pass

    def show(self, number: int, count: int, name: str) -> None:
        """Say from now on that this check runs."""
        with self._lock:
            self._said = f"[{number}/{count}] {name}"
            self._draw()

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Erase the line while something else is printed."""
        with self._lock:
            self._write("")
            yield

    def _tick(self) -> None:
        while not self._over.wait(TICK):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        passed = time.monotonic() - self._start
        if self._said and passed >= self._delay:
            end = f"  {passed:.1f} s"
            columns = shutil.get_terminal_size().columns - 1  # Some terminals begin a new line in the last column.
            self._write(self._said[: max(columns - len(end), 0)] + end)

    def _write(self, text: str) -> None:
        """Write over what stands there, or erase it."""
        if self._stream is not None and (text or self._width):
            self._stream.write(f"\r{text:{self._width}}" + ("" if text else "\r"))
            self._stream.flush()
            self._width = len(text)
