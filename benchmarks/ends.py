"""What functions of `torchgraft.scipy.special` are where float64 and their domains end: tests/scipy/ends.json.gz.

`_accuracy/ends.py` says at what points, and what a reference is. Where mpmath has none there is SciPy's value; outside
of the domain too, if it is NaN. At subnormal and huge numbers that says no more than that there is a number. Run it as

    python benchmarks/ends.py            # all that is not there yet: an hour or two
    python benchmarks/ends.py zeta jv    # these again
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import multiprocessing
import os
import signal
import struct
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special
from _accuracy.ends import grid, has_scipys, is_inside, is_order, is_told, reference
from _accuracy.entry import Entry, Point
from _accuracy.registry import ENTRIES

RESULT = Path(__file__).parents[1] / "tests" / "scipy" / "ends.json.gz"
PATIENCE = 0.5  # seconds that SciPy has for a point

Row = list[Any]  # the point, its source, and of each result the value and derivatives; null where there is none


def rows(entry: Entry) -> list[Row]:
    points = grid(entry)
    theirs = of_scipy(entry, points)
    found = []
    for point, values in zip(points, theirs, strict=True):
        exact = reference(entry, point) if is_told(entry, point) else None
        source = "mpmath" if exact else source_of(entry, point, values)
        known = [[value, *[None] * len(entry.varied)] for value in values or []]
        found.append([list(point), source, exact or (known if source in ("scipy", "outside") else None)])
    return found


def source_of(entry: Entry, point: Point, values: list[float] | None) -> str | None:
    """What SciPy's values are: the reference, NaN outside of the domain, no more than a number, or nothing."""
    if values is None or not is_told(entry, point):
        return None
    numbers = [not math.isnan(value) for value in values]
    if not is_inside(entry, point):
        return None if any(numbers) else "outside"
    return "scipy" if has_scipys(entry, point) else "number" if all(numbers) else None


def of_scipy(entry: Entry, points: list[Point]) -> list[list[float] | None]:
    """Its values, in a process that ends where one takes too long; None there."""
    found: list[list[float] | None] = []
    while len(found) < len(points):
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            os.close(read)
            tell_values(entry, points[len(found) :], write)
            os._exit(0)
        os.close(write)
        size = 8 * entry.width
        with os.fdopen(read, "rb") as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        found += [list(struct.unpack(f"{entry.width}d", told[i : i + size])) for i in range(0, len(told), size)]
        if len(found) < len(points):
            found.append(None)
    return found


def tell_values(entry: Entry, points: list[Point], write: int) -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for point in points:
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        os.write(write, struct.pack(f"{entry.width}d", *value_of(entry, point)))


def value_of(entry: Entry, point: Point) -> list[float]:
    arguments = [int(point[0]), *point[1:]] if entry.name.startswith("spherical") and is_order(point[0]) else point
    try:
        found = getattr(scipy.special, entry.name)(*arguments, **entry.keywords)
    except (TypeError, ValueError, OverflowError):
        return [float("nan")] * entry.width
    results = found if isinstance(found, tuple) else (found,)
    return [float(np.real(x)) if np.imag(x) == 0 else float("nan") for x in results]


def stored() -> dict[str, Any]:
    return json.loads(gzip.decompress(RESULT.read_bytes())) if RESULT.exists() else {}


def write(found: dict[str, Any]) -> None:
    text = json.dumps({label: found[label] for label in sorted(found)}, separators=(",", ":"))
    RESULT.write_bytes(gzip.compress(text.encode(), mtime=0))


def described(label: str) -> tuple[str, dict[str, Any], float]:
    entry, start = ENTRIES[label], time.monotonic()
    told = {"name": entry.name, "arguments": entry.arguments, "keywords": dict(entry.keywords), "varied": entry.varied}
    return label, {**told, "rows": rows(entry)}, time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of functions, to be done again; by default those that are not there")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    there = stored()
    names = [entry.name for label, entry in ENTRIES.items() if label not in there]
    labels = [label for name in options.names or names for label, entry in ENTRIES.items() if entry.name == name]
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for label, found, seconds in pool.imap_unordered(described, dict.fromkeys(labels)):
            write({**stored(), label: found})
            known = sum(row[1] == "mpmath" for row in found["rows"])
            print(f"{label}: {known} of {len(found['rows'])} by mpmath, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
