"""Silence for what torch says of its own accord."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from torch import _C


@contextlib.contextmanager
def quiet_vmap() -> Iterator[None]:
    """Within, `torch.vmap` does not print that it loops over an operator without a batching rule.

    Whether it did before cannot be asked: afterwards it does, which is the default.
    """
    warn: Callable[[bool], None] = _C._functorch._set_vmap_fallback_warning_enabled  # type: ignore[attr-defined]
    warn(False)
    try:
        yield
    finally:
        warn(True)


@contextlib.contextmanager
def quiet_compilers() -> Iterator[None]:
    """Within, compilers log nothing: what they cannot trace is said by what they raise."""
    names = ("_dynamo", "_inductor", "_functorch", "_subclasses", "export", "fx")
    loggers = [logging.getLogger(f"torch.{name}") for name in names]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
