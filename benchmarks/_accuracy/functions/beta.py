"""The incomplete beta functions, and the distributions of Student and Fisher."""

from __future__ import annotations

from typing import Any

from mpmath import mp, mpf

from ..draw import Draw
from ..entry import Entry
from ..exact import Inverse, Split
from ..inverse import solved

# -- incomplete beta functions --------------------------------------------------------------------------------------


def beta_tail(a: Any, b: Any, x: Any, y: Any) -> tuple[bool, Any]:
    """The smaller of I_x(a, b) and I_y(b, a), or nearly so, and whether it is the first; x + y = 1."""
    if x <= 0 or y <= 0:
        raise ValueError("outside of the domain")
    if (lower := bool(x * (a + b + 2) < a + 1)) is False:
        a, b, x, y = b, a, y, x
    front = mp.exp(a * mp.log(x) + b * mp.log(y) + mp.loggamma(a + b) - mp.loggamma(a + 1) - mp.loggamma(b))
    if mp.dps > 1000 * y:
        return lower, front * beta_fraction(a, b, x)
    return lower, front * mp.hypsum(2, 1, ("R", "Z", "R"), (a + b, 1, a + 1), x, maxterms=10**6)  # DLMF 8.17.8


def beta_fraction(a: Any, b: Any, x: Any) -> Any:
    """DLMF 8.17.22 by the method of Lentz, for x < (a + 1)/(a + b + 2)."""
    f = c = mpf(1)
    d, m, tiny = mpf(0), 0, mpf(10) ** -(10 * mp.dps)
    while m == 0 or abs(c * d - 1) > mp.eps:
        q = a + 2 * m
        odd, even = -(a + m) * (a + b + m) / (q * (q + 1)), (m + 1) * (b - m - 1) / ((q + 1) * (q + 2))
        for step in (odd * x, even * x):
            d = 1 / (1 + step * d or tiny)
            c = 1 + step / c or tiny
            f *= c * d
        m += 1
    return 1 / f


def betainc(a: Any, b: Any, x: Any) -> Split:
    lower, tail = beta_tail(a, b, x, 1 - x)
    return Split(mpf(0), tail) if lower else Split(mpf(1), -tail)


def betaincc(a: Any, b: Any, x: Any) -> Split:
    lower, tail = beta_tail(a, b, x, 1 - x)
    return Split(mpf(1), -tail) if lower else Split(mpf(0), tail)


def beta_quantile(a: Any, b: Any, lower: Any, upper: Any) -> Any:
    """The x/(1 - x) for which the functions are these."""

    def tail(u: Any) -> tuple[bool, Any]:
        odds = mp.exp(u)
        return beta_tail(a, b, odds / (1 + odds), 1 / (1 + odds))

    return mp.exp(solved(tail, lower, upper, mp.log(a / b)))


def odds_level(a: Any, b: Any, odds: Any) -> Split:
    lower, tail = beta_tail(a, b, odds / (1 + odds), 1 / (1 + odds))
    return Split(mpf(0), tail) if lower else Split(mpf(1), -tail)


def odds_rest(a: Any, b: Any, odds: Any) -> Split:
    return odds_level(b, a, 1 / odds)


def betaincinv(a: Any, b: Any, y: Any) -> Any:
    return beta_quantile(a, b, y, 1 - y)


def betainccinv(a: Any, b: Any, y: Any) -> Any:
    return beta_quantile(a, b, 1 - y, y)


def of_odds(odds: Any) -> tuple[Any, Any]:
    """The x of x/(1 - x), and its derivative."""
    return odds / (1 + odds), 1 / (1 + odds) ** 2


# -- Student, Fisher ------------------------------------------------------------------------------------------------


def stdtr(df: Any, t: Any) -> Split:
    square = t * t
    lower, tail = beta_tail(mpf(1) / 2, df / 2, square / (df + square), df / (df + square)) if t else (True, mpf(0))
    sign = 1 if t > 0 else -1
    if lower:
        return Split(mpf(1) / 2, sign * tail / 2)
    return Split(mpf(1), -tail / 2) if t > 0 else Split(mpf(0), tail / 2)


def stdtrit(df: Any, p: Any) -> Any:
    half = abs(p - mpf(1) / 2)
    if half == 0:
        return mpf(0)
    odds = beta_quantile(mpf(1) / 2, df / 2, 2 * half, 1 - 2 * half)
    return mp.sqrt(df * odds) * (1 if p > mpf(1) / 2 else -1)


def fdtr(dfn: Any, dfd: Any, x: Any) -> Split:
    return odds_level(dfn / 2, dfd / 2, dfn * x / dfd)


# -- points ---------------------------------------------------------------------------------------------------------


def toward_ends(d: Draw) -> Any:
    return d.mixed(d.log(-8, 0), 1 - d.log(-15, 0), d.uniform(0, 1))


def near_mean(d: Draw, a: Any, b: Any, most: float) -> Any:
    """Arguments at so many standard deviations from the mean."""
    mean = a / (a + b)
    x = mean + d.uniform(-most, most) * (mean * (1 - mean) / (a + b + 1)) ** 0.5
    return x.clip(mean / 10, 1 - (1 - mean) / 10)


def uneven(d: Draw) -> tuple[Any, Any, Any]:
    """One parameter tiny, one large."""
    a, b = d.log(-8, 0), d.log(0, 4.3)
    x = (d.log(-3, 1.5) / b).clip(0, 0.9)
    return (a, b, x) if d.random.integers(2) else (b, a, 1 - x)


def at_switches(d: Draw) -> tuple[Any, Any, Any]:
    """The regions of the kernel end where n x, n y = 3/2, n = a + b = 3, and at parameters of 10."""
    n, share = d.mixed(d.about(3), d.log(0.5, 4)), d.uniform(0.02, 0.98)
    return n * share, n * (1 - share), d.about(d.mixed((1.5 / n).clip(0, 0.4), 1 - (1.5 / n).clip(0, 0.4), 0.5))


BETA = (
    lambda d: (d.log(-8, 4), d.log(-8, 4), toward_ends(d)),
    lambda d: ((a := d.log(0, 4.3)), (b := d.log(0, 4.3)), near_mean(d, a, b, 6)),
    lambda d: ((a := d.log(0, 4)), (b := d.log(0, 4)), near_mean(d, a, b, 38)),
    lambda d: (d.uniform(0.1, 50), d.uniform(0.1, 50), d.uniform(0, 1)),
    lambda d: (d.log(-8, 0), d.log(-8, 0), toward_ends(d)),
    uneven,
    at_switches,
    lambda d: (abs(d.order(25)) + 1e-8, abs(d.order(25)) + 1e-8, d.uniform(0, 1)),
    lambda d: ((a := d.about(10, -16, -0.5)), (b := d.log(0, 2)), near_mean(d, a, b, 5)),
    lambda d: ((a := d.log(0.5, 4)), (b := d.log(0.5, 4)), d.about(a / (a + b))),
)
HARD = ((500.0, 300.0, 0.62), (1e4, 1e4, 0.5), (500.0, 480.0, 0.5), (0.62, 0.5, 0.3), (1e-8, 1e4, 1e-5))
LEVELS = (
    lambda d: (d.log(-2, 4), d.log(-2, 4), d.uniform(0, 1)),
    lambda d: (d.log(-2, 4), d.log(-2, 4), d.log(-100, -2)),
    lambda d: (d.log(-2, 4), d.log(-2, 4), 1 - d.log(-15, -1)),
    lambda d: (abs(d.order(25)) + 1e-3, abs(d.order(25)) + 1e-3, d.uniform(0, 1)),
)
STUDENT = (
    lambda d: (d.log(-2, 4), d.signed(d.log(-8, 4))),
    lambda d: (d.log(-1, 8), d.uniform(-10, 10)),
    lambda d: (abs(d.order(100)) + 1e-6, d.uniform(-30, 30)),
    lambda d: (d.log(4, 9), d.signed(d.log(-8, 1.5))),
    lambda d: ((df := d.log(-1, 4)), d.signed(d.about((df * 1.718281828459045) ** 0.5))),  # the switch to quadrature
)
FISHER = (
    lambda d: (d.log(-3, 4), d.log(-3, 4), d.log(-6, 6)),
    lambda d: ((n := d.log(0, 4.3)), (m := d.log(0, 4.3)), d.about(1, -8, -0.2) ** (4 / n**0.5 + 4 / m**0.5)),
    lambda d: (abs(d.order(100)) + 1e-6, abs(d.order(100)) + 1e-6, d.log(-2, 2)),
    lambda d: (d.log(-1, 2), d.log(4, 8), d.log(-2, 1.5)),
    lambda d: (d.log(2, 4), d.log(2, 4), d.about(1)),
)

ENTRIES = [
    Entry(
        "betainc", "a b x", betainc, BETA, HARD, {(2.0, 3.0, 0.0): (0, 0, 0, 0), (2.0, 3.0, 1.0): (1, 0, 0, 0)}, "a b",
    ),
    Entry(
        "betaincc", "a b x", betaincc, BETA, HARD,
        {(2.0, 3.0, 0.0): (1, 0, 0, 0), (2.0, 3.0, 1.0): (0, 0, 0, 0)}, "a b",
    ),
    Entry("betaincinv", "a b y", Inverse(odds_level, betaincinv, of_odds), LEVELS, parameters="a b"),
    Entry("betainccinv", "a b y", Inverse(odds_rest, betainccinv, of_odds), LEVELS, parameters="a b"),
    Entry("stdtr", "df t", stdtr, STUDENT, ((1e8, 1e-3), (3.0, 0.0)), parameters="df"),
    Entry(
        "stdtrit", "df p", Inverse(stdtr, stdtrit), (
            lambda d: (d.log(-0.5, 4), d.uniform(0, 1)),
            lambda d: (d.log(-0.5, 8), d.mixed(d.log(-100, -2), 1 - d.log(-14, -1))),
            lambda d: (abs(d.order(100)) + 1e-2, d.uniform(0, 1)),
            lambda d: (d.log(0, 8), d.about(0.5, -15, -0.1)),
        ), ((3.0, 0.975), (2.0, 0.5)), parameters="df",
    ),
    Entry("fdtr", "dfn dfd x", fdtr, FISHER, ((2.0, 3.0, 1.5),), {(4.0, 3.0, 0.0): (0, 0, 0, 0)}, "dfn dfd"),
]  # fmt: skip
