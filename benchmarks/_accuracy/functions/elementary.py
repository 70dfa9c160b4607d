"""Powers, logarithms and the normal distribution."""

from __future__ import annotations

from typing import Any

from mpmath import mp, mpf

from ..draw import Draw
from ..entry import Entry
from ..exact import Inverse, Split
from ..inverse import solved


def xlogy(x: Any, y: Any) -> Any:
    return x * mp.log(y)


def xlog1py(x: Any, y: Any) -> Any:
    return x * mp.log1p(y)


def boxcox(x: Any, lmbda: Any) -> Any:
    return mp.expm1(lmbda * mp.log(x)) / lmbda if lmbda else mp.log(x)


def inv_boxcox(y: Any, lmbda: Any) -> Any:
    return mp.exp(mp.log1p(lmbda * y) / lmbda) if lmbda else mp.exp(y)


def log_ndtr(x: Any) -> Any:
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2) if x < 0 else mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2)


def normal_tail(x: Any) -> tuple[bool, Any]:
    return bool(x < 0), mp.erfc(abs(x) / mp.sqrt(2)) / 2


def ndtr(x: Any) -> Split:
    lower, tail = normal_tail(x)
    return Split(mpf(0), tail) if lower else Split(mpf(1), -tail)


def ndtri(y: Any) -> Any:
    return solved(normal_tail, y, 1 - y, mpf(1) / 16) if 2 * y != 1 else mpf(0)


def transformed(d: Draw, x: Any, lmbda: Any) -> Any:
    """What `inv_boxcox` takes."""
    return ((x**lmbda - 1) / lmbda).clip(-1e300, 1e300)


ENTRIES = [
    Entry(
        "xlogy", "x y", xlogy, (
            lambda d: (d.signed(d.log(-8, 8)), d.log(-300, 300)),
            lambda d: (d.uniform(-5, 5), d.about(1)),
            lambda d: (d.log(-300, 3), d.log(-8, 8)),
        ), limits={(0.0, 2.0): (0.0, 0.6931471805599453, 0.0)},
    ),
    Entry(
        "xlog1py", "x y", xlog1py, (
            lambda d: (d.signed(d.log(-8, 8)), d.log(-300, 300)),
            lambda d: (d.uniform(-5, 5), d.signed(d.log(-16, -0.1))),
            lambda d: (d.uniform(-5, 5), d.log(-16, 0) - 1),
        ),
    ),
    Entry(
        "boxcox", "x lmbda", boxcox, (
            lambda d: (d.log(-8, 8), d.signed(d.log(-16, 1))),
            lambda d: (d.about(1), d.uniform(-5, 5)),
            lambda d: (d.log(-3, 3), d.uniform(-5, 5)),
            lambda d: (d.log(-3, 3), d.integers(-3, 3) + 0.0),
            lambda d: (d.log(-300, 300), d.signed(d.log(-8, 0))),
        ), ((2.0, 0.0), (1.0, 0.5)),
    ),
    Entry(
        "inv_boxcox", "y lmbda", inv_boxcox, (
            lambda d: ((k := d.signed(d.log(-16, 1))), transformed(d, d.log(-4, 4), k))[::-1],
            lambda d: (d.log(-3, 3), d.log(-3, 1)),
            lambda d: ((k := d.uniform(-5, 5)), transformed(d, d.about(1), k))[::-1],
            lambda d: (d.uniform(-5, 20), d.log(-16, -1.3)),
        ), ((2.0, 0.0), (-1e-9, 0.5)),
    ),
    Entry(
        "ndtri", "y", Inverse(ndtr, ndtri), (
            lambda d: (d.uniform(0, 1),), lambda d: (d.log(-300, 0),), lambda d: (1 - d.log(-15, 0),),
            lambda d: (d.uniform(0, 0.01),),
            lambda d: (d.about(d.choice(0.5, 0.1353352832366127, 0.8646647167633873)),),
        ), limits={(0.0,): (-float("inf"), float("inf")), (1.0,): (float("inf"), float("inf"))},
    ),
    Entry(
        "log_ndtr", "x", log_ndtr, (
            lambda d: (d.uniform(-10, 10),), lambda d: (-d.log(-8, 4),), lambda d: (d.log(-8, 1.6),),
            lambda d: (d.about(d.choice(-1, 5, -20, 1, -5)),),
        ),
    ),
]  # fmt: skip
