"""The incomplete gamma functions, what rests on them, and the logarithmic derivatives of the gamma function."""

from __future__ import annotations

from typing import Any

from mpmath import mp, mpf

from ..draw import Draw
from ..entry import Entry
from ..exact import Inverse, Split
from ..inverse import solved

# -- incomplete gamma functions -------------------------------------------------------------------------------------


def gamma_tail(a: Any, x: Any) -> tuple[bool, Any]:
    """The smaller of P and Q, or nearly so, and whether it is P."""
    if x < 2:  # DLMF 8.7.1, 13.2.2
        return True, mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1)) * mp.hypsum(1, 1, ("Z", "R"), (1, a + 1), x)
    lower = bool(x < a)
    return lower, mp.gammainc(a, 0, x, regularized=True) if lower else mp.gammainc(a, x, regularized=True)


def gammainc(a: Any, x: Any) -> Split:
    lower, tail = gamma_tail(a, x)
    return Split(mpf(0), tail) if lower else Split(mpf(1), -tail)


def gammaincc(a: Any, x: Any) -> Split:
    lower, tail = gamma_tail(a, x)
    return Split(mpf(1), -tail) if lower else Split(mpf(0), tail)


def gamma_quantile(a: Any, lower: Any, upper: Any) -> Any:
    """The x for which P and Q are these."""
    guess = mp.log(a) if a > 1 else (mp.log(lower) + mp.loggamma(a + 1)) / a
    return mp.exp(solved(lambda u: gamma_tail(a, mp.exp(u)), lower, upper, guess))


def gammaincinv(a: Any, y: Any) -> Any:
    return gamma_quantile(a, y, 1 - y)


def gammainccinv(a: Any, y: Any) -> Any:
    return gamma_quantile(a, 1 - y, y)


def chdtr(v: Any, x: Any) -> Split:
    return gammainc(v / 2, x / 2)


def chdtrc(v: Any, x: Any) -> Split:
    return gammaincc(v / 2, x / 2)


def pdtr(k: Any, m: Any) -> Split:
    return gammaincc(mp.floor(k) + 1, m)


def beside(d: Draw, a: Any, most: float) -> Any:
    """Arguments at so many standard deviations from `a`."""
    return abs(a + d.uniform(-most, most) * a**0.5) + 1e-3


def near_mean(d: Draw) -> tuple[Any, Any]:
    return (a := d.log(0, 4.3)), beside(d, a, 6)


def in_tails(d: Draw) -> tuple[Any, Any]:
    return (a := d.log(0, 4.3)), beside(d, a, 38)


def at_orders(d: Draw) -> tuple[Any, Any]:
    return (a := abs(d.order(100)) + 1e-8), a * d.log(-1, 1) + d.log(-8, 1)


GAMMA = (
    lambda d: (d.log(-8, 5), d.log(-8, 5)),
    near_mean,
    in_tails,
    lambda d: (d.log(-8, 2), d.uniform(0, 60) * d.uniform(0, 1) ** 3),
    at_orders,
    lambda d: (d.log(-8, 4), d.about(1.5)),  # the switch to the series
    lambda d: ((a := d.about(10)), a * d.mixed(d.uniform(0.1, 6), d.about(0.71), d.about(1.41))),
    lambda d: ((a := d.log(-0.5, 4.3)), d.about(a)),
    lambda d: (d.log(-300, 0), d.log(-300, 2)),
)
HARD = ((2.5, 1.3), (500.0, 480.0), (1e4, 1e4), (1e4, 9999.5), (1e5, 1e5), (1e5, 100300.0))
LEVELS = (
    lambda d: (d.log(-3, 4.3), d.uniform(0, 1)),
    lambda d: (d.log(-2, 4.3), d.log(-300, -2)),
    lambda d: (d.log(-2, 4.3), 1 - d.log(-15, -1)),
    lambda d: (abs(d.order(100)) + 1e-6, d.mixed(d.uniform(0, 1), d.log(-20, 0))),
)

# -- logarithmic derivatives ----------------------------------------------------------------------------------------


def gammaln(x: Any) -> Any:
    return mp.re(mp.loggamma(x)) if x > 0 else mp.log(abs(mp.pi / (mp.sinpi(x) * mp.gamma(1 - x))))


def betaln(a: Any, b: Any) -> Any:
    with mp.extradps(3 * int(abs(mp.log10(abs(a))) + abs(mp.log10(abs(b)))) + 10):  # which the sum loses
        return gammaln(a) + gammaln(b) - gammaln(a + b)


def digamma(z: Any) -> Any:
    return mp.digamma(z)


def polygamma(n: Any, x: Any) -> Any:
    return mp.polygamma(int(n), x)


REAL = (
    lambda d: (d.log(-8, 4),),
    lambda d: (d.uniform(0, 12),),
    lambda d: (d.about(d.choice(1, 2, 1.4616321449683623, 10, 0.5)),),
    lambda d: (-d.uniform(0, 20),),
    lambda d: (-d.integers(0, 100) + d.signed(d.log(-8, -0.3)),),
    lambda d: (d.signed(d.log(-300, 0)),),
)

ENTRIES = [
    Entry("gammainc", "a x", gammainc, GAMMA, HARD, {(2.5, 0.0): (0, 0, 0), (1.0, 0.0): (0, 0, 1)}, "a"),
    Entry("gammaincc", "a x", gammaincc, GAMMA, HARD, {(2.5, 0.0): (1, 0, 0), (1.0, 0.0): (1, 0, -1)}, "a"),
    Entry("gammaincinv", "a y", Inverse(gammainc, gammaincinv), LEVELS, parameters="a"),
    Entry("gammainccinv", "a y", Inverse(gammaincc, gammainccinv), LEVELS, parameters="a"),
    Entry("chdtr", "v x", chdtr, GAMMA, HARD, {(5.0, 0.0): (0, 0, 0), (2.0, 0.0): (0, 0, 0.5)}, "v"),
    Entry("chdtrc", "v x", chdtrc, GAMMA, HARD, {(5.0, 0.0): (1, 0, 0), (2.0, 0.0): (1, 0, -0.5)}, "v"),
    Entry(
        "pdtr", "k m", pdtr, (
            lambda d: (d.integers(0, 100), d.log(-8, 3)),
            lambda d: ((k := d.log(0, 4).round()), beside(d, k + 1, 6)),
            lambda d: ((k := d.integers(0, 12)), d.about(d.mixed(k + 1, 1.5))),
            lambda d: (d.uniform(0, 50), d.uniform(0, 60)),
        ), limits={(0.0, 0.0): (1, -1), (3.0, 0.0): (1, 0)}, fixed="k",
    ),
    Entry("gammaln", "x", gammaln, REAL, limits={(0.0,): (float("inf"), -float("inf"))}),
    Entry(
        "betaln", "a b", betaln, (
            lambda d: (d.log(-8, 5), d.log(-8, 5)),
            lambda d: (d.log(-300, 0), d.log(-2, 8)),
            lambda d: (d.log(2, 10), d.log(-6, 2)),
            lambda d: (abs(d.order(100)) + 1e-8, abs(d.order(100)) + 1e-8),
            lambda d: (d.about(d.choice(0.5, 1, 2, 10)), d.about(d.choice(0.5, 1, 2, 10))),
            lambda d: (-d.uniform(0, 10), d.uniform(-10, 10)),
        ), ((1e150, 2.0), (3e4, 2e4), (-2.3, 0.9)),
    ),
    Entry("digamma", "z", digamma, REAL),
    Entry(
        "polygamma", "n x", polygamma, (
            lambda d: (d.integers(0, 4), d.log(-8, 4)),
            lambda d: (d.integers(0, 20), d.log(-3, 3)),
            lambda d: (d.integers(0, 120), d.log(-2, 2)),
            lambda d: (d.integers(0, 6), -d.uniform(0, 20)),
            lambda d: (d.integers(0, 6), -d.integers(0, 40) + d.signed(d.log(-6, -0.3))),
            lambda d: (d.integers(0, 3), d.about(d.choice(0.5, 1, 1.4616321449683623, 10))),
        ), ((0.0, 1.4616321449683622), (150.0, 3.0)), fixed="n",
    ),
]  # fmt: skip
