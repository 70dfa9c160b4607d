"""Sizes that are known only after the call."""

from __future__ import annotations

import torch
from _timing import Row, interleave, ratio, us

from examples.unique_consecutive import unique_consecutive


def sizes() -> list[Row]:
    """`unique_consecutive` in C beside torch's, whose outputs keep the memory of their capacity."""
    rows = []
    for count, calls, bar in ((8, 2000, "1.5 x"), (100_000, 20, "2 x")):
        x = torch.arange(count).div(2, rounding_mode="floor").float()  # Runs of two.
        with torch.no_grad():
            times = interleave(
                {
                    "op": lambda x=x: unique_consecutive(x),
                    "torch": lambda x=x: torch.unique_consecutive(x, return_counts=True),
                },
                calls,
            )
        what, rival = f"unique_consecutive beside torch's, no grad, {count:,} elements", us(times["torch"])
        result = f"{ratio(times['op'], times['torch']):.2f} x"
        rows.append(Row(what, us(times["op"]), f"torch.unique_consecutive {rival}", result, bar))
    return rows
