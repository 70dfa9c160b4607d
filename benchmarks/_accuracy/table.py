"""Rows of the result, as they are kept and as they are printed."""

from __future__ import annotations

import json
from typing import Any

from .score import BARS

Row = dict[str, Any]


def merged(stored: list[Row], rows: list[Row], *, jax: bool) -> list[Row]:
    """The rows that were kept, with new ones in the place of theirs.

    Args:
        stored: of all functions.
        rows: of some.
        jax: whether these have JAX's column; if not, the one that was kept stays.
    """
    old = {(row["function"], row["quantity"]): row for row in stored}
    new = {(row["function"], row["quantity"]): row for row in rows}
    if not jax:
        new = {key: {**row, "jax": old[key]["jax"] if key in old else None} for key, row in new.items()}
    again = {row["function"] for row in rows}
    kept = {key: row for key, row in old.items() if row["function"] not in again}
    return [row for _, row in sorted({**kept, **new}.items(), key=lambda pair: pair[0][0].lower())]


def table(rows: list[Row]) -> str:
    """In Markdown."""
    head = "| function | | points | worst error | at | 99 % | SciPy | JAX | torch | bar | met |"
    lines = [head, "|---|---|---|---|---|---|---|---|---|---|---|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    met = sum(row["met"] for row in rows)
    note = "Lost is what is NaN or infinite and should not be."
    return "\n".join([*lines, "", f"{met} of {len(rows)} bars met. {note}"])


def text(rows: list[Row]) -> str:
    """In JSON, a row a line."""
    return "[\n" + ",\n".join(json.dumps(row, allow_nan=False) for row in rows) + "\n]\n"


def cells(row: Row) -> list[str]:
    ours, near = row["ours"], row["near_zeros"]
    worst = shown(ours) + (f"; next to zeros {shown(near)}" if near else "")
    if row["kind"] == "value":
        worst += f"; {row['beyond_scipy_ulp']} ulp beyond SciPy"
    missed = row["kind"] == "value" and not row["met"]
    at = ", ".join(f"{x:.6g}" for x in (row["beyond_scipy_at"] if missed else ours["at"]))
    rivals = [shown(row[name]) for name in ("scipy", "jax", "torch")]
    return [
        row["function"], row["quantity"], str(row["points"]), worst, at, ours["p99"], *rivals, BARS[row["kind"]],
        "yes" if row["met"] else "**no**",
    ]  # fmt: skip


def shown(errors: Row | None) -> str:
    if errors is None:
        return ""
    return errors["worst"] + (f", {errors['lost']} lost" if errors["lost"] else "")
