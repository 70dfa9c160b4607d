"""The call that a child was in when it died, which its parent reads afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_file: Path | None = None


def keep_in(file: Path) -> None:
    """Keep each call from now on: this process is a child, and somebody will ask."""
    global _file
    _file = file


def begins(label: Callable[[], str]) -> None:
    """Keep a call in a child; elsewhere, where nobody asks, its label is not made."""
    if _file is not None:
        _file.write_text(label())
