"""Built libraries on disk: private to their owner, named by all that they were built from, checked when loaded."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from ..errors import TorchgraftWarning
from .inputs import Inputs

_RECENT = 2 * 10**9  # Nanoseconds. A file that is younger may change again and keep its age.
_FAILED = 8  # Sources are kept of this many failed builds.
_OLD = 24 * 3600  # Seconds. Older files that no lock speaks for are left over.


@dataclass(frozen=True)
class Built:
    """Something that was built.

    Attributes:
        path: of the file.
        files: what it was built from: the digest of each, by path.
    """

    path: Path
    files: dict[str, str]


def key_of(*parts: str) -> str:
    """A name for what was built from `parts`."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def folder() -> Path:
    """The cache: ``$TORCHGRAFT_CACHE``, else the platform's; where that cannot be used, a folder of this process."""
    wanted = Path(os.environ.get("TORCHGRAFT_CACHE") or platformdirs.user_cache_dir("torchgraft"))
    return _instead.get(wanted) or _usable(wanted)


_instead: dict[Path, Path] = {}  # Folders of this process take the place of those that cannot be used.


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
    """Remove everything that a build has written; what is loaded stays loaded, and what is being built goes on.

    Returns:
        The number of bytes that were freed.
    """
    place, freed = folder(), _sweep(folder(), 0)
    for pattern in ("*.so", "*.o", "*.built", "*.known", "*.failed"):
        freed += sum(map(_remove, place.glob(pattern)))
    for lock in place.glob("*.lock"):
        with _free(lock) as free:
            freed += _remove(lock) if free else 0
    return freed


def built(key: str, build: Callable[[Path], Inputs], suffix: str = ".so") -> Built:
    """Return the product of a build for a key; build it if it is missing, damaged, or made from other files.

    Args:
        key: from `key_of`.
        build: writes it into a path, and returns what it has read; called by one process at a time.
        suffix: of its name: a library, or an object file.
    """
    place = folder()
    try:
        return _built(place, key, build, suffix)
    except OSError as error:  # The disk is full, or became read-only.
        if place in _instead.values():
            raise
        return _built(_private(place, str(error)), key, build, suffix)


def _built(place: Path, key: str, build: Callable[[Path], Inputs], suffix: str) -> Built:
    record = place / f"{key}.built"
    found = _recorded(record)
    if found is not None:
        return found
    with _scratch(place, key) as scratch:
        found = _recorded(record)
        if found is not None:
            return found
        made = scratch / f"{key}{suffix}"
        inputs, files = _steadily(build, made)
        digest = _digest(made)
        # What is loaded is known by its path, so that other contents get another one.
        path = place / f"{key}-{digest[:16]}{suffix}"
        text = json.dumps({"made": [path.name, digest], "files": files, "absent": inputs.absent})
        made.replace(path)
        _write(scratch, record, text)
    return Built(path, {name: digest for name, (digest, _) in files.items()})


def _steadily(build: Callable[[Path], Inputs], made: Path) -> tuple[Inputs, dict[str, tuple[str, list[int]]]]:
    """Build, and once more where a file was changed meanwhile: nobody knows then which text was read.

    Returns:
        What was read, and the digest and the age of each file.
    """
    for _ in range(3):
        start = _now()
        inputs = build(made)
        files = {name: (_digest(Path(name)), _age(name)) for name in inputs.files}
        if all(age[-1] <= start for _, age in files.values()):
            now = _now()
            return inputs, {
                name: (digest, age if age[-1] < now - _RECENT else []) for name, (digest, age) in files.items()
            }
    return inputs, {name: ("changed while it was read", []) for name in files}


def keep(scratch: Path) -> Path | None:
    """A copy of what was made for a build that failed, so that it can be looked at; the oldest ones go.

    Returns:
        The copy's folder; None where there is no room for it.
    """
    place = folder() / f"{scratch.name.partition('.')[0]}.failed"
    try:
        _remove(place)
        shutil.copytree(scratch, place)
        place.chmod(0o700)
        kept = sorted(folder().glob("*.failed"), key=lambda path: path.stat().st_mtime_ns)
        for path in kept[:-_FAILED]:
            _remove(path)
    except OSError:
        return None
    return place


def known(key: str, find_out: Callable[[], str]) -> str:
    """A text that was found out once, by some process.

    Args:
        key: from `key_of`: all that the text depends on.
        find_out: returns it; nothing is not remembered.
    """
    place = folder() / f"{key}.known"
    try:
        digest, _, text = place.read_bytes().decode().partition("\n")
        if digest == key_of(text):
            return text
    except (OSError, ValueError):
        pass
    text = find_out()
    if text:
        with contextlib.suppress(OSError), _scratch(place.parent, key) as scratch:
            _write(scratch, place, f"{key_of(text)}\n{text}")
    return text


# -- files ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _scratch(place: Path, key: str) -> Iterator[Path]:
    """A folder for what is made for a key, by one process at a time; what killed ones have left goes."""
    with _locked(place / f"{key}.lock"):
        _sweep(place, _OLD)
        scratch = place / f"{key}.tmp"
        _remove(scratch)
        scratch.mkdir(mode=0o700)
        try:
            yield scratch
        finally:
            _remove(scratch)


def _sweep(place: Path, age: float) -> int:
    """Remove the folders of builds that nobody is at.

    Args:
        age: of folders that have no lock, in seconds: older versions made such.
    """
    freed = 0
    for path in place.glob("*.tmp"):
        with _free(path.with_suffix(".lock")) as free:
            freed += _remove(path) if free else 0
    for path in place.glob("tmp????????"):
        with contextlib.suppress(OSError):
            freed += _remove(path) if time.time() - path.stat().st_mtime >= age else 0
    return freed


def _remove(path: Path) -> int:
    """Remove a file or a folder, if it is there; returns its bytes."""
    with contextlib.suppress(OSError):
        files = [path] if not path.is_dir() else [file for file in path.rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
        return size
    return 0


def _write(scratch: Path, place: Path, text: str) -> None:
    """Write a file that is there as a whole, or not at all."""
    written = scratch / place.name
    written.write_text(text, encoding="utf-8")
    written.replace(place)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """For one thread of one process at a time; the system lets go when a process ends, however it ends."""
    import fcntl  # Not every platform has it, and only a build needs it.

    while True:
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not path.exists() or path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                continue  # The cache was cleared: other processes lock another file now.
            yield
            return


@contextlib.contextmanager
def _free(path: Path) -> Iterator[bool]:
    """Try to take a lock, and yield whether that was possible; it is held meanwhile."""
    import fcntl

    try:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
    except OSError:
        yield False


def _now() -> int:
    """The clock by which files are dated."""
    clock = getattr(time, "CLOCK_REALTIME_COARSE", None)
    return time.time_ns() if clock is None else time.clock_gettime_ns(clock)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _age(name: str) -> list[int]:
    """Read a file's size and times, by which a change is seen; the last time cannot be set by a program."""
    status = os.stat(name)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _recorded(record: Path) -> Built | None:
    """Read the record of a library; None where the library or a file that it was built from has changed."""
    try:
        told = json.loads(record.read_bytes())
        name, digest = told["made"]
        path = record.parent / name
        unchanged = _digest(path) == digest and all(
            _age(file) == age or _digest(Path(file)) == digest for file, (digest, age) in told["files"].items()
        )
        if unchanged and not any(os.access(file, os.F_OK) for file in told["absent"]):
            return Built(path, {file: digest for file, (digest, _) in told["files"].items()})
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        pass  # It is damaged, or something is gone.
    return None
