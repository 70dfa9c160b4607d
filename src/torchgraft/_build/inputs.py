"""Everything that a build reads, and where it has looked in vain: what must be as it was, for a library to be the same.

The compiler lists the files that it has read. A header that appears in an earlier folder, one that `__has_include` asks
for, and a library in an earlier folder are not among them: they are paths at which there was nothing.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = (
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "LIBRARY_PATH", "LD_RUN_PATH",
    "SDKROOT", "MACOSX_DEPLOYMENT_TARGET", "CCC_OVERRIDE_OPTIONS", "SOURCE_DATE_EPOCH", "ZIG_LIB_DIR",
)  # fmt: skip
"""Variables that change what compilers read or write."""

_DIRECTIVES = re.compile(r"^[^\S\n]*(?:#|%:)[^\n]*", re.M)
_QUOTED = re.compile(r"\"([^\"\n\0]{1,255})\"|<([^<>\n\0]{1,255})>")


@dataclass(frozen=True)
class Search:
    """Folders in which a compiler looks.

    Attributes:
        headers: folders, in their order; some need not exist.
        builtin: those of them that are its own.
        libraries: folders for ``-l``.
    """

    headers: tuple[str, ...]
    builtin: frozenset[str]
    libraries: tuple[str, ...]


@dataclass(frozen=True)
class Inputs:
    """Files that a build has read.

    Attributes:
        files: that it read, or would have read in another case.
        absent: paths at which there was nothing.
    """

    files: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def environment() -> list[str | None]:
    """Read the variables of the environment that compilers look at."""
    return [os.environ.get(name) for name in ENVIRONMENT]


def inputs_of(
    listed: Iterable[str], code: str, flags: Sequence[str], libraries: Sequence[str], where: Search
) -> Inputs:
    """The inputs of a build.

    Args:
        listed: files that the compiler says it has read.
        code: the source.
        flags: of the user, which may name files.
        libraries: that are linked.
    """
    files = dict.fromkeys(listed)
    asked = [*_asked(files, code, where), *_linked(flags, libraries, where)]
    files |= dict.fromkeys(path for path in asked if os.path.isfile(path))
    files |= dict.fromkeys(word for flag in flags for word in re.split("[=,@]", flag) if os.path.isfile(word))
    return Inputs(tuple(files), tuple(dict.fromkeys(_missing(path) for path in asked if not os.path.exists(path))))


def _asked(files: Iterable[str], code: str, where: Search) -> Iterator[str]:
    """Paths at which a header would be found that is not looked for further then."""
    own = []
    for file in files:
        folder = next((i for i, folder in enumerate(where.headers) if file.startswith(f"{folder}/")), None)
        if folder is None or where.headers[folder] not in where.builtin:
            own.append(file)
        if folder is not None:
            name = file.removeprefix(f"{where.headers[folder]}/")
            yield from (f"{earlier}/{name}" for earlier in where.headers[:folder])
    # A name may be put together by macros, so that every text in a directive is one.
    folders = dict.fromkeys([*where.headers, *map(os.path.dirname, own)])
    texts = [code, *(Path(file).read_bytes().decode("utf-8", "surrogateescape") for file in own)]
    names = dict.fromkeys(name for text in texts for name in named(text))
    yield from (os.path.join(folder, name) for name in names for folder in folders)


@functools.lru_cache(maxsize=64)
def named(code: str) -> tuple[str, ...]:
    """Names of files in the directives of a text."""
    directives = _DIRECTIVES.findall(re.sub(r"\\[^\S\n]*\n", "", code))
    return tuple(quoted or angled for one in directives for quoted, angled in _QUOTED.findall(one))


def _linked(flags: Sequence[str], libraries: Sequence[str], where: Search) -> Iterator[str]:
    words = [word for flag in flags for word in flag.split(",")]
    folders = [*(word[2:] for word in words if word.startswith("-L") and len(word) > 2), *where.libraries]
    for name in [*libraries, *(word[2:] for word in words if word.startswith("-l"))]:
        ends = [name[1:]] if name.startswith(":") else [f"lib{name}{suffix}" for suffix in (".so", ".a", ".dylib")]
        yield from (os.path.join(folder, end) for folder in dict.fromkeys(folders) for end in ends)


def _missing(path: str) -> str:
    """The first part of a path that is not there."""
    parent = os.path.dirname(path)
    return path if not parent or parent == path or os.path.exists(parent) else _missing(parent)


def folders_in(said: str) -> list[str]:
    """The folders of headers, from what a compiler says with ``-v``; it names those that do not exist, too."""
    missing = re.findall(r"^ignoring nonexistent directory \"(.*)\"$", said, re.M)
    _, _, found = said.partition("search starts here:\n")
    lines = found.partition("End of search list")[0].splitlines()
    return [*missing, *(line.strip() for line in lines if line.startswith(" "))]
