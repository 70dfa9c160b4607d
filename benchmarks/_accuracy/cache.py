"""References, kept between runs in the user's cache, point by point."""

from __future__ import annotations

import hashlib
import inspect
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import platformdirs

from . import exact
from .entry import Entry, Point
from .exact import Inverse, reference

FOLDER = Path(platformdirs.user_cache_dir("torchgraft")) / "accuracy"
SAVED = 20.0  # seconds between two writings


def references(
    entry: Entry, points: Any, jobs: int = 1, told: Callable[[int, int], None] = lambda done, of: None
) -> Any:
    """What `reference` says of each point, as (points, results, numbers); NaN where there is none.

    Args:
        entry: of the function.
        points: one a row.
        jobs: how many processes are to compute what is not there yet.
        told: how many of those are done.
    """
    file = FOLDER / f"{entry.formula}-{fingerprint(entry)}.npz"
    known = load(file)
    missing = [point for point in map(tuple, points.tolist()) if point not in known]
    written = time.monotonic()
    for i, (point, found) in enumerate(computed(entry, missing, jobs)):
        known[point] = found
        if time.monotonic() > written + SAVED or i == len(missing) - 1:
            save(file, known)
            written = time.monotonic()
        told(i + 1, len(missing))
    shape = entry.width, 2 + 2 * len(entry.varied)
    return np.array([known[point] for point in map(tuple, points.tolist())]).reshape(-1, *shape)


def computed(entry: Entry, points: list[Point], jobs: int) -> Iterator[tuple[Point, list[float]]]:
    empty = [np.nan] * (entry.width * (2 + 2 * len(entry.varied)))

    def flat(found: list[list[float]] | None) -> list[float]:
        return empty if found is None else [number for row in found for number in row]

    if jobs == 1 or len(points) < 2 * jobs:
        yield from ((point, flat(reference(entry, point))) for point in points)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        of_entry: Iterable[Any] = pool.imap(_Task(entry), points, chunksize=8)
        yield from zip(points, map(flat, of_entry), strict=True)


class _Task:
    """The reference of an entry, for a pool, which cannot send functions: it sends the name."""

    def __init__(self, entry: Entry) -> None:
        self.label = entry.label

    def __call__(self, point: Point) -> list[list[float]] | None:
        from .registry import ENTRIES

        return reference(ENTRIES[self.label], point)


def load(file: Path) -> dict[Point, list[float]]:
    if not file.exists():
        return {}
    with np.load(file) as stored:
        return dict(zip(map(tuple, stored["points"].tolist()), stored["found"].tolist(), strict=True))


def save(file: Path, known: dict[Point, list[float]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part.npz")
    np.savez_compressed(part, points=np.array(list(known)), found=np.array(list(known.values())))
    part.replace(file)


def fingerprint(entry: Entry) -> str:
    """By the text of the function in mpmath, of those that it calls, and of the method."""
    functions = (
        [entry.exact.forward, entry.exact.solve, entry.exact.shown]
        if isinstance(entry.exact, Inverse)
        else [entry.exact]
    )
    text = "".join(sorted(_text(f) for f in functions)) + inspect.getsource(exact)
    return hashlib.sha256(f"{entry.fixed} {text}".encode()).hexdigest()[:12]


def _text(function: Callable[..., Any]) -> str:
    texts, left = dict[str, str](), [function]
    while left:
        current = left.pop()
        if current.__qualname__ not in texts:
            texts[current.__qualname__] = inspect.getsource(current)
            called = (current.__globals__.get(name) for name in _names(current.__code__))
            left += [f for f in called if inspect.isfunction(f) and f.__module__.startswith(__package__)]
    return "".join(texts[name] for name in sorted(texts))


def _names(code: CodeType) -> list[str]:
    """Those that a function looks up, and functions within it."""
    within = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names(constant)]
    return [*code.co_names, *within]
