"""Generated source: made executable, and shown by tracebacks."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

from .._frames import GENERATED

_numbers = itertools.count()


def compile_source(source: str, title: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Execute generated source; `title` is its file name in tracebacks."""
    filename = f"{GENERATED}{title} {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), namespace)  # The text is our own, made from checked identifiers.
    return namespace
