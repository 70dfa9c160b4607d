"""Built libraries on disk: private to their owner, named by all that they were built from, checked when they are loaded."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import filelock
import platformdirs

from .._errors import TorchgraftWarning


def key_of(*parts: str) -> str:
    """A name for what was built from `parts`."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def folder() -> Path:
    """The cache: ``$TORCHGRAFT_CACHE``, else the platform's; where that cannot be used, a folder of this process."""
    return _usable(os.environ.get("TORCHGRAFT_CACHE") or platformdirs.user_cache_dir("torchgraft"))


@functools.cache
def _usable(wanted: str) -> Path:
    path = Path(wanted)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            why = "others may write there"
        elif not os.access(path, os.W_OK):
            why = "it is not writable"
        else:
            return path
    except OSError as error:
        why = str(error)
    private = Path(tempfile.mkdtemp(prefix="torchgraft-"))
    warnings.warn(f"kernels are not cached in {path}: {why}; this process uses {private}", TorchgraftWarning, stacklevel=2)
    return private


def contents() -> list[Path]:
    """The libraries that are cached."""
    return sorted(path for path in folder().glob("*.so") if path.is_file())


def clear() -> int:
    """Remove everything that a build has written; what is loaded stays loaded.

    Returns:
        The number of bytes that were freed.
    """
    freed = 0
    for pattern in ("*.so", "*.built", "*.lock"):
        for path in folder().glob(pattern):
            freed += path.stat().st_size
            path.unlink(missing_ok=True)
    return freed


def library(key: str, build: Callable[[Path], Iterable[Path]]) -> Path:
    """The library of a key, built if it is not there, is not what was built, or was built from other files.

    Args:
        key: from `key_of`.
        build: writes the library into a path, and returns the files that it has read; called by one process at a time.
    """
    record = folder() / f"{key}.built"
    path = _recorded(record)
    if path is not None:
        return path
    with filelock.FileLock(folder() / f"{key}.lock"):
        path = _recorded(record)
        if path is not None:
            return path
        with tempfile.TemporaryDirectory(dir=folder()) as scratch:
            made, written = Path(scratch) / f"{key}.so", Path(scratch) / record.name
            read = list(build(made))
            # What is loaded is known by its path, so that other contents get another one.
            path = folder() / f"{key}-{_digest(made)[:16]}.so"
            written.write_text("".join(f"{_digest(file)} {name}\n" for file, name in [(made, path), *zip(read, read, strict=True)]))
            made.replace(path)
            written.replace(record)
    return path


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _recorded(record: Path) -> Path | None:
    """The library that a record names, if it and all that it was built from are as they were."""
    try:
        lines = [line.split(" ", 1) for line in record.read_text().splitlines()]
        if lines and all(_digest(Path(name)) == digest for digest, name in lines):
            return Path(lines[0][1])
    except (OSError, ValueError):
        pass
    return None
