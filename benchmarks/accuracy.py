"""How accurate `torchgraft.scipy.special` is, beside SciPy, JAX and torch: against mpmath, at 1000 points a function.

What points, references, errors and bars are is told in `_accuracy/draw.py`, `exact.py` and `score.py`. References take
mpmath some 50 ms a point, and are kept in the user's cache. Run it as

    python benchmarks/accuracy.py                          # all; prints the table, updates accuracy.json
    python benchmarks/accuracy.py gammainc kv --points 100 # some functions, at some of their points; writes nothing
    python benchmarks/accuracy.py --jax PYTHON             # with what JAX finds, in a Python that has it
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _accuracy.cache import references
from _accuracy.draw import points
from _accuracy.entry import Entry
from _accuracy.measure import grafted, of_jax, of_scipy, of_torch
from _accuracy.registry import ENTRIES
from _accuracy.score import Score, scores
from _accuracy.table import merged, table, text

RESULT = Path(__file__).with_suffix(".json")


def measure(entry: Entry, count: int | None, jobs: int) -> tuple[Any, Any]:
    """Points and references, those of limits among them."""
    at = points(entry, count)

    def tell(done: int, of: int) -> None:
        if done % 10 == 0 or done == of:
            print(f"\r{entry.label}: {done} of {of} references", end="" if done < of else "\n", file=sys.stderr)

    exact = references(entry, at, jobs, tell)
    if not entry.limits:
        return at, exact
    limits = np.array([[value, 0.0, *(x for slope in slopes for x in (slope, 0.0))]
                       for value, *slopes in entry.limits.values()])  # fmt: skip
    return np.concatenate([at, np.array(list(entry.limits))]), np.concatenate([exact, limits[:, None, :]])


def scored(entry: Entry, at: Any, exact: Any, jax: str | None) -> list[Score]:
    rivals = {"scipy": of_scipy(entry, at), "torch": of_torch(entry, at)}
    if jax:
        rivals["jax"] = of_jax(entry, at, jax)
    ours, narrow = grafted(entry, at), grafted(entry, at, torch.float32)
    return scores(entry, at, exact, ours, narrow, {name: table for name, table in rivals.items() if table is not None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of functions; all by default")
    parser.add_argument("--points", type=int, help="of each function so many only, for a look; nothing is written")
    parser.add_argument("--jobs", type=int, default=1, help="processes that compute references")
    parser.add_argument("--jax", metavar="PYTHON", help="a Python that has JAX, for its column")
    options = parser.parse_args()
    torch.set_num_threads(1)
    unknown = set(options.names) - {entry.name for entry in ENTRIES.values()}
    if unknown:
        parser.error(f"_accuracy/functions has no entry of {', '.join(sorted(unknown))}")
    chosen = [entry for entry in ENTRIES.values() if not options.names or entry.name in options.names]
    rows = [
        score.as_json()
        for entry in chosen
        for score in scored(entry, *measure(entry, options.points, options.jobs), options.jax)
    ]
    stored = json.loads(RESULT.read_text()) if RESULT.exists() else []
    every = merged(stored, rows, jax=bool(options.jax))
    if not options.points:
        RESULT.write_text(text(every))
    labels = {row["function"] for row in rows}
    print(table([row for row in every if row["function"] in labels]))


if __name__ == "__main__":
    main()
