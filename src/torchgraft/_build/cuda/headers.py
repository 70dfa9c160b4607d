"""Headers that a source for CUDA finds: those of ours, and those in the folders of the user."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path

from ..inputs import named
from ..toolchain import INCLUDE

_OWN = Path(__file__).with_name("include")


@functools.cache
def headers() -> dict[str, str]:
    """Texts of our headers, by the names that a source includes them by."""
    found = {str(path.relative_to(_OWN)): path.read_text() for path in sorted(_OWN.rglob("*")) if path.is_file()}
    return found | {str(path.relative_to(INCLUDE)): path.read_text() for path in sorted(INCLUDE.rglob("*.h"))}


def included(code: str, folders: Iterable[str]) -> dict[str, str]:
    """Texts of the files that a source may include, and that these may include, by their paths.

    Each file counts that one of the names would be found as: which of them NVRTC reads, it does not say.
    """
    found: dict[str, str] = {}
    waiting = [(code, dict.fromkeys(folders))]
    while waiting:
        text, where = waiting.pop()
        for path in (os.path.normpath(os.path.join(folder, name)) for name in named(text) for folder in where):
            if path not in found and os.path.isfile(path):
                found[path] = Path(path).read_bytes().decode("utf-8", "surrogateescape")
                waiting.append((found[path], {os.path.dirname(path): None, **where}))
    return found
