"""C functions on a GPU: whether they are right there, and what they cost. It takes under eight minutes.

Run it as

    python benchmarks/on_cuda.py            # prints the table
    python benchmarks/on_cuda.py --write    # and puts it into docs/benchmarks.md

Without a GPU every row says that it was not run.
"""

import argparse
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import _cuda.cost
import _cuda.right  # noqa: F401 - each puts its rows into the table
from _cuda.place import MEASUREMENTS, Place
from _timing import Row, write

LIMIT = 420
"""Seconds after which no row begins."""


def rows(place: Place | None) -> list[Row]:
    """All rows of the table, those that need a GPU only on one."""
    start, made = time.perf_counter(), []
    for measurement in MEASUREMENTS:
        late = time.perf_counter() - start > LIMIT
        where = None if late or (place and measurement.needs_gpu and not place.is_gpu) else place
        made.append(measurement.row(where))
        if place:
            print(f"{time.perf_counter() - start:6.1f} s  {made[-1]}", flush=True)
    return made


def table(rows: list[Row]) -> str:
    """The table, and what it was made with."""
    lines = ["| | torchgraft | rival | result | bar |", "|---|---|---|---|---|"]
    lines += [f"| {row.what} | {row.ours} | {row.rival} | **{row.result}** | {row.bar} |" for row in rows]
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return "\n".join([*lines, "", f"torch {torch.__version__}, {name}."])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks.md")
    options = parser.parse_args()
    text = table(rows(Place(torch.device("cuda")) if torch.cuda.is_available() else None))
    print(text)
    if options.write:
        write("cuda", text)


if __name__ == "__main__":
    main()
