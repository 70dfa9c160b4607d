"""Points where float64 and domains end, and what functions are there.

A point is of numbers from an axis an argument: the smallest and largest doubles, zeros of both signs, infinities, and
some between, with the ends of the argument's domain. All combinations of two are taken, and of more a sample.

References are mpmath's, as in `exact.py`. At a zero or an infinity they are limits: mpmath's numbers have exponents of
any size, so that the function is computed at numbers far smaller or larger than any double, twice, and where both agree
that is the limit. There is none where they do not, or where the limit depends on which of two arguments goes faster.
"""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from mpmath import mp, mpf

from .entry import Entry, Point
from .exact import AGREED, FAILURES, NOTHING, Jet, Slope, attempt, limited

MOST = 800  # points of a function of three or more arguments
SECONDS = 0.25  # that mpmath has for a point, or for one of those that go to it
DEPTHS = (340, 400, 370)  # powers of ten that stand for zero and infinity; with two of these, the first two
GREATEST = 1.7976931348623157e308
LEAST = 2.2250738585072014e-308  # of the normal numbers

UP = (0.0, 5e-324, LEAST, 1e-300, 1e-20, 0.5, 1.0, 2.5, 10.5, 1e3, 1e5, 1e10, 1e16, 1e300, GREATEST, math.inf)
DOWN = (-0.0, -5e-324, -1e-20, -0.5, -1.0, -2.5, -1e5, -1e10, -1e300, -math.inf)
MORE = (
    1e-310, 1e-160, 1e-5, 0.3, 1.5, 2.0, 3.0, 7.5, 50.0, 300.0, 700.0, 745.2, 100000.5, 1e100, 1e154, 1e200,
)  # fmt: skip
OUTSIDE = (-0.0, -5e-324, -0.5, -1.0, -1e300, -math.inf, math.nan)
REAL = (*UP, *DOWN, math.nan)
LINE = (*REAL, *MORE, *(-x for x in MORE), -LEAST, -1e-300, -10.5, -1e3, -1e16, -GREATEST)
POSITIVE = (*UP, *OUTSIDE)
SHARE = (  # from 0 to 1
    0.0, 5e-324, 1e-310, LEAST, 1e-300, 1e-200, 1e-20, 1e-5, 0.25, 0.5 - 2.0**-54, 0.5, 0.5 + 2.0**-53, 0.75,
    1 - 2.0**-30, 1 - 2.0**-53, 1.0, 1 + 2.0**-52, -0.0, -5e-324, -1.0, math.inf, -math.inf, math.nan,
)  # fmt: skip
COUNTS = (
    0.0, 1.0, 2.0, 3.0, 7.0, 30.0, 1e3, 1e5, 2147483647.0, 2147483648.0, 1e10, 1e16, 1e19, 1e300, math.inf,
    1.5, 5e-324, -0.0, -0.5, -1.0, -math.inf, math.nan,
)  # fmt: skip

AXES: dict[str, tuple[tuple[float, ...], ...]] = {
    **dict.fromkeys(("gammainc", "gammaincc", "chdtr", "chdtrc", "fdtr"), (POSITIVE,) * 3),
    **dict.fromkeys(("gammaincinv", "gammainccinv", "stdtrit"), (POSITIVE, SHARE)),
    **dict.fromkeys(("betainc", "betaincc", "betaincinv", "betainccinv"), (POSITIVE, POSITIVE, SHARE)),
    **dict.fromkeys(
        ("polygamma", "expn", "spherical_jn", "spherical_yn", "spherical_in", "spherical_kn"), (COUNTS, REAL)
    ),
    "pdtr": ((*POSITIVE, 10.0, 3.0), POSITIVE),
    "stdtr": (POSITIVE, REAL),
    "ndtri": ((*SHARE, *UP),),
}


def axes(entry: Entry) -> tuple[tuple[float, ...], ...]:
    count = len(entry.arguments.split())
    return AXES.get(entry.name, (LINE,) if count == 1 else (REAL,) * count)[:count]


def grid(entry: Entry) -> list[Point]:
    chosen = axes(entry)
    if len(chosen) < 3:
        return list(itertools.product(*chosen))
    draw = random.Random(zlib.crc32(entry.label.encode()))
    return [tuple(draw.choice(axis) for axis in chosen) for _ in range(MOST)]


def is_order(x: float) -> bool:
    return math.copysign(1, x) > 0 and math.isfinite(x) and x == math.floor(x)


def is_pole(x: float) -> bool:
    """Whether the gamma function has one there, or has no limit."""
    return x <= 0 and (math.isinf(x) or x == math.floor(x))


BESSEL = dict.fromkeys(("jv", "yv", "jve", "yve", "iv", "ive", "kv", "kve", "struve"), lambda v, x: math.isfinite(v))
SPHERICAL = ("spherical_jn", "spherical_yn", "spherical_in", "spherical_kn")
GAMMA = dict.fromkeys(("gammainc", "gammaincc", "chdtr", "chdtrc"), lambda a, x: a >= 0 and x >= 0)
BETA = dict.fromkeys(("betainc", "betaincc", "betaincinv", "betainccinv"), lambda a, b, x: a >= 0 and b >= 0)
# Where the documents say that a function is, if it is not everywhere.
INSIDE: dict[str, Callable[..., bool]] = {
    **BESSEL, **GAMMA, **BETA,
    "expn": lambda n, x: is_order(n) and math.copysign(1, x) > 0,
    "polygamma": lambda n, x: is_order(n) and not is_pole(x),
    "xlogy": lambda x, y: math.isfinite(x),
    "inv_boxcox": lambda y, lmbda: math.isfinite(y),
    "pdtr": lambda k, m: str(k) != "-0.0" and k >= 0 and m >= 0,
    "gammaincinv": lambda a, y: a >= 0,
    "gammainccinv": lambda a, y: a >= 0,
    "stdtr": lambda df, t: df > 0,
    "stdtrit": lambda df, p: df > 0,
    "fdtr": lambda dfn, dfd, x: dfn > 0 and dfd > 0 and x >= 0,
    "hyp0f1": lambda v, z: not is_pole(v),
    "hyp1f1": lambda a, b, x: not is_pole(b),
    "hyp2f1": lambda a, b, c, z: not is_pole(c) and z < 1,
    "zeta (Hurwitz)": lambda x, q: x >= 1,
    "lambertw (lower branch)": lambda z: -math.exp(-1) <= z <= 0,
}  # fmt: skip


# Of what there is no reference, as documented: a function is taken at 0 from the right, drops what an order has behind
# the point, or is NaN where it would take too long.
UNTOLD: dict[str, Callable[..., bool]] = {
    **dict.fromkeys(SPHERICAL, lambda n, x: not is_order(n) or str(x) == "-0.0" or min(n, abs(x)) > 1e15),
    **dict.fromkeys(("jv", "jve", "yv", "yve"), lambda v, z: min(abs(v), abs(z)) > 1e15),
    "struve": lambda v, x: x == 0 and 0 < abs(v) < 1e-3,  # powers that are no more than beginning to vanish
    "hyp0f1": lambda v, z: z < -1e39,
    "expn": lambda n, x: n > 1e4,
    "hyp1f1": lambda a, b, x: max(abs(a), abs(b), abs(x)) > 1e3,
    "hyp2f1": lambda a, b, c, z: max(abs(a), abs(b), abs(c)) > 1e3 or abs(c) < 1e-250 or abs(z) > 1e100,
}
# Where SciPy's values have few digits or none, beside where they have none of many functions: at subnormal numbers, and
# at huge ones.
WRONG: dict[str, Callable[..., bool]] = {
    **dict.fromkeys(("jv", "jve", *SPHERICAL[:3]), lambda v, x: max(abs(v), abs(x)) > 5e3),
    **dict.fromkeys(("betaincinv", "betainccinv"), lambda a, b, x: min(a, b) < 1e-10),
    "airy": lambda z: -math.inf < z < -100,
    **dict.fromkeys(("gammaincinv", "gammainccinv"), lambda a, y: 3e4 < a < math.inf and 0 < y < 1),
    "struve": lambda v, x: x <= 0 or x > 5e3,
    "spherical_kn": lambda n, x: x <= 0 or max(n, x) > 5e3,
    **dict.fromkeys(("yv", "yve"), lambda v, x: x <= 0 or max(abs(v), x) > 5e3),
    "stdtrit": lambda df, p: df < 1e-3 or p < 1e-10,
    "polygamma": lambda n, x: x < 0,
    "hyp1f1": lambda a, b, x: b < 0,
}


def is_told(entry: Entry, point: Point) -> bool:
    return entry.name not in UNTOLD or not UNTOLD[entry.name](*point)


def is_inside(entry: Entry, point: Point) -> bool:
    rule = INSIDE.get(entry.label) or INSIDE.get(entry.name)
    return not any(math.isnan(x) for x in point) and (not rule or rule(*point))


def has_scipys(entry: Entry, point: Point) -> bool:
    """Whether SciPy's value is a reference."""
    moderate = all(x == 0 or math.isinf(x) or 1e-290 < abs(x) < 1e15 for x in point)
    return moderate and not (entry.name in WRONG and WRONG[entry.name](*point))


# -- references -------------------------------------------------------------------------------------------------------


Known = list[list[float | None]]  # of each result the value and its first derivatives


def reference(entry: Entry, point: Point) -> Known | None:
    """What is known at a point; None where no value is."""
    if not is_inside(entry, point):
        return None
    found, seconds = None, SECONDS if len(point) > 1 else 10 * SECONDS
    for place in approached(point):
        there = rounded(entry, place, seconds)
        if there is None:
            return None
        found = there if found is None else [merged(*pair) for pair in zip(found, there, strict=True)]
        if any(numbers[0] is None for numbers in found):
            return None
    return found


def approached(point: Point) -> Iterator[list[Any]]:
    """The point, or points that go to it."""
    ends = [i for i, x in enumerate(point) if x == 0 or math.isinf(x)]
    for depths in itertools.product(DEPTHS[: 3 if len(ends) < 2 else 2], repeat=len(ends)):
        place = [mpf(x) for x in point]
        for i, depth in zip(ends, depths, strict=True):
            place[i] = math.copysign(1, point[i]) * mpf(10) ** (depth if point[i] else -depth)
        yield place


def rounded(entry: Entry, place: list[Any], seconds: float) -> Known | None:
    """What two precisions agree on; but derivatives next to a zero of theirs.

    No argument is lost beside 1, and 1 beside none, not even by the step of a difference: that has a quarter of the
    digits.
    """
    least = 40 + max(int(max(4 * mp.log10(abs(x)), -mp.log10(abs(x)))) for x in place)
    last: Jet | None = None
    known = None
    with suppress(TimeoutError, RecursionError, MemoryError, *FAILURES), limited(seconds):
        for digits in (least, 2 * least, 4 * least):
            found = attempt(entry, tuple(place), digits)
            if found and last:
                known = [agreed(*pair) for pair in zip(found, last, strict=True)]
                if not any(number is None for numbers in known for number in numbers):
                    break
            last = found or last
    return known


def agreed(found: tuple[Any, list[Slope]], last: tuple[Any, list[Slope]]) -> list[float | None]:
    def known(x: Any, y: Any, noise: Any) -> float | None:
        return to_double(x) if abs(x - y) + noise <= AGREED * abs(x) or max(abs(x), abs(y)) + noise < NOTHING else None

    slopes = zip(found[1], last[1], strict=True)
    return [
        known(found[0], last[0], 0),
        *(None if one[1] else known(one[0], other[0], one[2]) for one, other in slopes),
    ]


def to_double(x: Any) -> float:
    if abs(x) > mpf(10) ** 309:
        return math.copysign(math.inf, x)
    return float(x) if abs(x) > NOTHING else math.copysign(0.0, x)


def merged(one: list[float | None], other: list[float | None]) -> list[float | None]:
    """What is the same in both."""

    def same(x: float | None, y: float | None) -> bool:
        return x is not None and y is not None and (x == y or abs(x - y) <= 1e-15 * abs(x))

    return [x if same(x, y) else None for x, y in zip(one, other, strict=True)]
