"""The floating-point environment of a thread, which a library may change when it is loaded.

GCC before version 13 puts code into a library with ``-ffast-math`` that makes numbers next to zero zero, for all that
the loading thread computes from then on, and for all threads that it starts.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from functools import cache
from typing import Any


@contextlib.contextmanager
def kept_environment() -> Iterator[None]:
    """Leave rounding and what becomes of small numbers as they are, whatever runs within.

    C's own `fegetenv` and `fesetenv`, which keep MXCSR on x86 and FPCR on ARM. Code that runs when a library is loaded
    runs on the thread that loads it, which is this one.
    """
    functions = _functions()
    environment = ctypes.create_string_buffer(256)  # A `fenv_t` has 28 to 32 bytes.
    functions.fegetenv(environment)
    try:
        yield
    finally:
        functions.fesetenv(environment)


@cache
def _functions() -> Any:
    """The C library's mathematical part: it is in Python's process, or is loaded."""
    process = ctypes.CDLL(None)
    return process if hasattr(process, "fesetenv") else ctypes.CDLL("libm.so.6")
