"""Errors, and the bars that they meet.

The error of a derivative is relative: |found - f'| / |f'|. Next to a zero of f' it is relative to the condition:
|found - f'| / |x f''|, in units of the change of f' with a relative change of x. A point is next to a zero where
|x f''| > 100 |f'|, and a step of Newton's method from x finds an f' of less than a tenth. Below the smallest normal
number, errors are relative to that; beyond the largest one, an infinity and the largest number are the same. A NaN is
an infinite error.

Values are compared in ulps of the exact value, as the distance to what is exact and not to its rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .entry import Entry

BARS = {
    "value": "at most 2 ulp more than SciPy's",
    "argument": "1e-12; 1e-10 next to zeros",
    "parameter": "1e-10 on 99 %, 1e-6 on all",
    "float32": "1e-5 on 99 %",
}
RIVALS = ("scipy", "jax", "torch")


@dataclass(frozen=True)
class Errors:
    """Of one quantity, as one library finds it.

    Attributes:
        worst: of the finite ones.
        at: the point of it, or of the first infinite one.
        p99: what 99 % are not beyond, the infinite ones included.
        lost: how many are infinite: of what is NaN, or infinite, and should not be.
    """

    worst: float
    at: tuple[float, ...]
    p99: float
    lost: int

    def within(self, bar: float) -> bool:
        """Whether all are."""
        return not self.lost and self.worst <= bar

    def as_json(self) -> dict[str, Any]:
        """As text of two digits, which JSON has for infinities too."""
        return {"worst": f"{self.worst:.1e}", "at": self.at, "p99": f"{self.p99:.1e}", "lost": self.lost}


@dataclass(frozen=True)
class Score:
    """Of one quantity of a function.

    Attributes:
        function: its label.
        quantity: such as "value" or "d/da".
        kind: a key of `BARS`.
        points: how many have a reference.
        ours: away from zeros of a derivative.
        near_zeros: next to them, relative to the condition.
        beyond: the most ulps by which a value of ours is farther off than SciPy's.
        rivals: SciPy, JAX and torch, where they have it, away from zeros too.
    """

    function: str
    quantity: str
    kind: str
    points: int
    ours: Errors
    near_zeros: Errors | None
    beyond: float | None
    beyond_at: tuple[float, ...] | None
    rivals: dict[str, Errors]

    @property
    def met(self) -> bool:
        close = self.near_zeros or Errors(0.0, (), 0.0, 0)
        match self.kind:
            case "value":
                return self.beyond is not None and self.beyond <= 2
            case "argument":
                return self.ours.within(1e-12) and close.within(1e-10)
            case "parameter":
                return self.ours.p99 <= 1e-10 and self.ours.within(1e-6) and close.within(1e-6)
            case _:
                return self.ours.p99 <= 1e-5

    def as_json(self) -> dict[str, Any]:
        """A row of the result."""
        rivals = {name: self.rivals[name].as_json() if name in self.rivals else None for name in RIVALS}
        return {
            "function": self.function,
            "quantity": self.quantity,
            "kind": self.kind,
            "points": self.points,
            "met": self.met,
            "ours": self.ours.as_json(),
            "near_zeros": self.near_zeros and self.near_zeros.as_json(),
            "beyond_scipy_ulp": None if self.beyond is None else f"{self.beyond:.2g}",
            "beyond_scipy_at": self.beyond_at,
            **rivals,
        }


def scores(entry: Entry, points: Any, exact: Any, ours: Any, narrow: Any, rivals: dict[str, Any]) -> list[Score]:
    """Of each quantity of a function.

    Args:
        entry: of the function.
        points: one a row.
        exact: what `references` says of them.
        ours: what we find, as (points, results, 1 + derivatives).
        narrow: likewise in float32; NaN at points that are no numbers of float32.
        rivals: likewise, of others.
    """
    found = []
    for quantity, kind, result, position in entry.quantities():
        truth, scale, rest = parts(exact[:, result], position)
        known = ~np.isnan(truth)
        error = relative(ours[:, result, 1 + position], truth, scale)
        zero = known & (scale > 0)
        others = {
            name: table[:, result, 1 + position]
            for name, table in rivals.items()
            if table.shape[2] > 1 + position and not np.isnan(table[:, result, 1 + position]).all()
        }
        beyond, beyond_at = None, None
        if kind == "value":
            with np.errstate(invalid="ignore"):
                far = ulps(ours[:, result, 0], truth, rest) - ulps(others["scipy"], truth, rest)
            far = np.where(known, np.nan_to_num(far, nan=0.0, posinf=np.inf), -np.inf)  # both of them infinitely off
            beyond, beyond_at = float(far.max()), tuple(points[far.argmax()].tolist())
        away = known & ~zero
        found.append(
            Score(
                entry.label, quantity, kind, int(known.sum()), errors(points, error, away),
                errors(points, error, zero) if zero.any() else None, beyond, beyond_at,
                {name: errors(points, relative(table, truth, scale), away) for name, table in others.items()},
            )
        )  # fmt: skip
    return [*found, in_float32(entry, points, exact, narrow)]


def in_float32(entry: Entry, points: Any, exact: Any, narrow: Any) -> Score:
    """Of the value and all derivatives together, at the points that are numbers of float32."""
    every = []
    with np.errstate(over="ignore"):
        chosen = (points == points.astype(np.float32)).all(axis=1)
    for _, _, result, position in entry.quantities():
        truth, scale, _ = parts(exact[:, result], position)
        error = relative(narrow[:, result, 1 + position], truth, scale, np.float32)
        every.append(np.where(np.isnan(truth) | ~chosen, -1, error))
    error = np.concatenate(every)
    place = np.tile(points, (len(every), 1))
    return Score(
        entry.label,
        "float32",
        "float32",
        int((error >= 0).sum()),
        errors(place, error, error >= 0),
        None,
        None,
        None,
        {},
    )


def parts(exact: Any, position: int) -> tuple[Any, Any, Any]:
    """The truth of a quantity, its scale, and what its rounding has left."""
    if position < 0:
        return exact[:, 0], np.zeros(len(exact)), exact[:, 1]
    return exact[:, 2 + 2 * position], exact[:, 3 + 2 * position], np.zeros(len(exact))


def relative(found: Any, truth: Any, scale: Any, dtype: type = np.float64) -> Any:
    """The relative error, or that relative to a scale where there is one."""
    most, least = float(np.finfo(dtype).max), float(np.finfo(dtype).tiny)
    near = np.clip(truth, -most, most)
    size = np.where(scale > 0, np.minimum(scale, most), np.maximum(abs(near), least))
    with np.errstate(over="ignore"):
        error = abs(np.clip(found, -most, most) / size - near / size)
    return np.where(np.isnan(found) | np.isnan(error), np.inf, error)


def ulps(found: Any, truth: Any, rest: Any) -> Any:
    most = np.finfo(float).max
    high = np.clip(truth, -most, most)
    with np.errstate(over="ignore", invalid="ignore"):
        error = abs((np.clip(found, -most, most) - high) - rest) / np.spacing(abs(high))
    return np.where(np.isnan(error), np.inf, error)


def errors(points: Any, error: Any, chosen: Any) -> Errors:
    error, points = error[chosen], points[chosen]
    if not len(error):
        return Errors(0.0, (), 0.0, 0)
    finite = np.isfinite(error)
    worst = float(error[finite].max(initial=0.0))
    at = np.argmax(error)
    return Errors(
        worst, tuple(points[at].tolist()), float(np.quantile(error, 0.99, method="higher")), int((~finite).sum())
    )
