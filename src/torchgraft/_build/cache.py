"""Built libraries on disk: private to their owner, named by all that they were built from, checked when loaded."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

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
    wanted = Path(os.environ.get("TORCHGRAFT_CACHE") or platformdirs.user_cache_dir("torchgraft"))
    return _instead.get(wanted) or _usable(wanted)


_instead: dict[Path, Path] = {}  # folders of this process for those that cannot be used


def _usable(wanted: Path) -> Path:
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = wanted.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            return _private(wanted, "others may write there")
        if not os.access(wanted, os.W_OK):
            return _private(wanted, "it is not writable")
    except OSError as error:
        return _private(wanted, str(error))
    return wanted


def _private(wanted: Path, why: str) -> Path:
    """From now on a folder of this process, with a warning."""
    if wanted not in _instead:
        _instead[wanted] = Path(tempfile.mkdtemp(prefix="torchgraft-"))
        text = f"kernels are not cached in {wanted}: {why}; this process uses {_instead[wanted]}"
        warnings.warn(text, TorchgraftWarning, stacklevel=2)
    return _instead[wanted]


def contents() -> list[Path]:
    """The libraries that are cached."""
    return sorted(path for path in folder().glob("*.so") if path.is_file())


def clear() -> int:
    """Remove everything that a build has written; what is loaded stays loaded.

    Returns:
        The number of bytes that were freed.
    """
    freed = 0
    for pattern in ("*.so", "*.o", "*.built", "*.lock", "*.known"):
        for path in folder().glob(pattern):
            freed += path.stat().st_size
            path.unlink(missing_ok=True)
    return freed


def built(key: str, build: Callable[[Path], Iterable[Path]], suffix: str = ".so") -> Path:
    """What was built for a key; built if it is not there, is not what was built, or was built from other files.

    Args:
        key: from `key_of`.
        build: writes it into a path, and returns the files that it has read; called by one process at a time.
        suffix: of its name: a library, or an object file.
    """
    place = folder()
    try:
        return _built(place, key, build, suffix)
    except OSError as error:  # the disk is full, or became read-only
        if place in _instead.values():
            raise
        return _built(_private(place, str(error)), key, build, suffix)


def _built(place: Path, key: str, build: Callable[[Path], Iterable[Path]], suffix: str) -> Path:
    record = place / f"{key}.built"
    path = _recorded(record)
    if path is not None:
        return path
    with _locked(place / f"{key}.lock"):
        path = _recorded(record)
        if path is not None:
            return path
        with tempfile.TemporaryDirectory(dir=place) as scratch:
            made, written = Path(scratch) / f"{key}{suffix}", Path(scratch) / record.name
            read = list(build(made))
            # What is loaded is known by its path, so that other contents get another one.
            path = place / f"{key}-{_digest(made)[:16]}{suffix}"
            written.write_text(
                "".join(f"{_digest(file)} {name}\n" for file, name in [(made, path), *zip(read, read, strict=True)])
            )
            made.replace(path)
            written.replace(record)
    return path


def known(key: str, find_out: Callable[[], str]) -> str:
    """A text that was found out once, by some process.

    Args:
        key: from `key_of`: all that the text depends on.
        find_out: returns it; nothing is not remembered.
    """
    place = folder() / f"{key}.known"
    try:
        return place.read_text()
    except OSError:
        text = find_out()
    if not text:
        return text
    try:
        with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
            written = Path(scratch) / place.name
            written.write_text(text)
            written.replace(place)
    except OSError:  # then the next process finds it out again
        pass
    return text


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """For one thread of one process at a time; the system lets go when a process ends, however it ends."""
    import fcntl  # which not every platform has, and only a build needs

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
