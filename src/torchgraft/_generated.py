"""Generated source: made executable, and shown by tracebacks."""

from __future__ import annotations

import functools
import itertools
import linecache
from types import CodeType
from typing import Any

from ._frames import GENERATED

_numbers = itertools.count()


def compile_source(source: str, title: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Execute generated source; `title` is its file name in tracebacks."""
    filename = f"{GENERATED}{title} {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(_in_file(_compiled(source), filename), namespace)  # The text is our own, made from checked identifiers.
    return namespace


@functools.lru_cache(maxsize=256)
def _compiled(source: str) -> CodeType:
    """The code of a text, which operators with like signatures share: to compile it takes a millisecond."""
    return compile(source, GENERATED, "exec")


def _in_file(code: CodeType, filename: str) -> CodeType:
    consts = tuple(_in_file(const, filename) if isinstance(const, CodeType) else const for const in code.co_consts)
    return code.replace(co_filename=filename, co_consts=consts)
