"""Print calls that have each pair of traits in some call: the rows of the check `combinations`.

They are made once and stored, since it takes minutes. Greedy: each new row has the most pairs that are still missing,
of some tries. Run it where a trait is new, and put what it prints into `traits.py`.
"""

from __future__ import annotations

import itertools
import random

from torchgraft._check.checks.traits import ARRAY

TRIES, SEEDS = 60, 200


def cover(counts: list[int], seed: int = 0) -> list[tuple[int, ...]]:
    """Return rows of places, one for each dimension, that have all pairs of places."""
    draw, places = random.Random(seed), range(len(counts))
    missing = {
        (i, a, j, b) for i, j in itertools.combinations(places, 2) for a in range(counts[i]) for b in range(counts[j])
    }

    def pairs(row: list[int]) -> set[tuple[int, int, int, int]]:
        return {(i, row[i], j, row[j]) for i, j in itertools.combinations(places, 2)}

    def tried() -> list[int]:
        i, a, j, b = draw.choice(sorted(missing))
        row = [-1] * len(counts)
        row[i], row[j] = a, b
        for k in draw.sample([k for k in places if k not in (i, j)], len(counts) - 2):

            def gain(value: int, k: int = k) -> tuple[int, float]:
                new = ((k, value, m, row[m]) if k < m else (m, row[m], k, value) for m in places if row[m] >= 0)
                return sum(pair in missing for pair in new), draw.random()

            row[k] = max(range(counts[k]), key=gain)
        return row

    rows = [tuple([0] * len(counts))]
    missing -= pairs(list(rows[0]))
    while missing:
        best = max((tried() for _ in range(TRIES)), key=lambda row: len(pairs(row) & missing))
        rows.append(tuple(best))
        missing -= pairs(best)
    return rows


if __name__ == "__main__":
    options = [cover(ARRAY, seed) for seed in range(SEEDS)]
    fewest = min(options, key=len)
    print(f"{len(fewest)} rows")
    print(" ".join("".join(map(str, row)) for row in fewest))
