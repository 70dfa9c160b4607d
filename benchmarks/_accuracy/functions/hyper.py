"""Hypergeometric functions, elliptic integrals, zeta, Owen's T and Lambert's W."""

from __future__ import annotations

from typing import Any

from mpmath import mp, mpf

from ..draw import Draw
from ..entry import Entry

# -- hypergeometric functions ---------------------------------------------------------------------------------------


def hyp0f1(v: Any, z: Any) -> Any:
    return mp.hyp0f1(v, z)


def hyp1f1(a: Any, b: Any, x: Any) -> Any:
    return mp.hyp1f1(a, b, x)


def hyp2f1(a: Any, b: Any, c: Any, z: Any) -> Any:
    return mp.hyp2f1(a, b, c, z)


def before_one(d: Draw) -> Any:
    return d.mixed(d.uniform(-1, 1), d.signed(d.log(-8, 0)), 1 - d.log(-8, 0), -d.log(-2, 4), d.about(0.9), d.about(-1))


# -- elliptic integrals ---------------------------------------------------------------------------------------------


def ellipk(m: Any) -> Any:
    return mp.ellipk(m)


def ellipkm1(p: Any) -> Any:
    return mp.ellipk(1 - p)


def ellipe(m: Any) -> Any:
    return mp.ellipe(m)


PARAMETER = (
    lambda d: (d.signed(d.log(-12, 0)).clip(-1, 1 - 1e-16),),
    lambda d: (1 - d.log(-15, 0),),
    lambda d: (-d.log(-8, 8),),
    lambda d: (d.uniform(-1, 1),),
)

# -- others ---------------------------------------------------------------------------------------------------------


def riemann(x: Any) -> Any:
    return mp.zeta(x)


def hurwitz(x: Any, q: Any) -> Any:
    return mp.zeta(x, q)


def owens_t(h: Any, a: Any) -> Any:
    """Owen 1956, whose eq. 2.3 has |a| > 1 by the inverse of a."""
    sign, h, a = (-1 if a < 0 else 1), abs(h), abs(a)
    if a <= 1:
        return sign * owens_integral(h, a)
    upper, above = mp.erfc(h / mp.sqrt(2)) / 2, mp.erfc(a * h / mp.sqrt(2)) / 2
    return sign * ((upper + above) / 2 - upper * above - owens_integral(a * h, 1 / a))


def owens_integral(h: Any, a: Any) -> Any:
    """Eq. 1.1 for 0 <= a <= 1: the expansion in odd powers of a, whose weights are tails of a Poisson distribution."""
    half = h * h / 2
    if half > 2000:
        return mpf(0)  # it is less than any double
    with mp.extradps(10 + int(half)):
        term = mp.exp(-half)
        total, weight, power, k = mpf(0), 1 - term, a, 0
        while k < half or term * power > mp.eps * abs(total):
            total += (1 - 2 * (k % 2)) * weight * power / (2 * k + 1)
            k += 1
            term *= half / k
            weight -= term
            power *= a * a
        return (mp.atan(a) - total) / (2 * mp.pi)


def lambertw(z: Any) -> Any:
    return branch(z, 0)


def lambertw_lower(z: Any) -> Any:
    return branch(z, -1)


def branch(z: Any, k: int) -> Any:
    """Mpmath's, whose iteration ends early next to the branch point, and some more steps of Newton's method."""
    if z < -mp.exp(-1):
        raise ValueError("no real branch")
    w = mp.re(mp.lambertw(z, k))
    for _ in range(3):
        if 1 + w:
            w -= (w - z * mp.exp(-w)) / (1 + w)
    return w


E = 0.36787944117144233
LAMBERT = (
    lambda d: (d.log(-8, 4),),
    lambda d: (d.uniform(-0.36, 3),),
    lambda d: (-E + d.log(-16, -0.5),),
    lambda d: (d.about(d.choice(-0.2695, 1, 0.5, 30)),),
    lambda d: (d.signed(d.log(-300, -1)),),
)
LOWER = (
    lambda d: (-d.log(-8, -0.4345),),
    lambda d: (d.uniform(-E, 0),),
    lambda d: (-E + d.log(-16, -0.5),),
    lambda d: (-d.log(-300, -1),),
)

ENTRIES = [
    Entry(
        "hyp0f1", "v z", hyp0f1, (
            lambda d: (d.log(-3, 2.5), d.signed(d.log(-8, 4))),
            lambda d: (abs(d.order(100)) + 1e-3, d.uniform(-50, 50)),
            lambda d: (-d.uniform(0, 20), d.signed(d.log(-3, 3))),
            lambda d: (d.uniform(0.1, 300), d.uniform(-300, 300)),
        ), ((0.3, 1e4), (0.3, -1e4), (291.578, 0.336)), {(2.0, 0.0): (1.0, 0.5)}, fixed="v",
    ),
    Entry(
        "hyp1f1", "a b x", hyp1f1, (
            lambda d: (d.uniform(-10, 10), d.uniform(0.1, 10), d.uniform(-30, 30)),
            lambda d: (d.signed(d.log(-3, 2)), d.log(-3, 2), d.signed(d.log(-6, 2.5))),
            lambda d: (d.order(20, -20), d.uniform(0.1, 20) + 0.01, d.signed(d.log(-3, 2))),
            lambda d: (d.uniform(-5, 5), -d.uniform(0, 10), d.uniform(-20, 20)),
        ), ((20.0, 1.5, -10.0), (2.0, 3.5, -30.0), (0.5, 1.5, 700.0), (158.4, 3.66, -15.3)),
        {(1.5, 2.0, 0.0): (1.0, 0.75)}, fixed="a b",
    ),
    Entry(
        "hyp2f1", "a b c z", hyp2f1, (
            lambda d: (d.uniform(-5, 5), d.uniform(-5, 5), d.uniform(0.1, 10), before_one(d)),
            lambda d: (d.log(-2, 2), d.log(-2, 2), d.log(-2, 2.5), before_one(d)),
            lambda d: (d.order(10, -10), d.order(10, -10), d.uniform(0.1, 20), before_one(d)),
            lambda d: ((a := d.uniform(0, 5)), a + d.integers(0, 3) + d.log(-10, -6), d.uniform(0, 10), before_one(d)),
            lambda d: (d.uniform(-30, 30), d.uniform(-30, 30), d.uniform(-30, 30), before_one(d)),
        ), ((2.0, 3.0, 4.5, -3.0), (100.0, 100.0, 300.0, -0.5), (0.5, 1.5, 2.5, 0.999999)),
        {(0.5, 1.5, 2.0, 0.0): (1.0, 0.375)}, fixed="a b c",
    ),
    Entry("ellipk", "m", ellipk, PARAMETER, limits={(0.0,): (1.5707963267948966, 0.39269908169872414)}),
    Entry(
        "ellipkm1", "p", ellipkm1, (
            lambda d: (d.log(-300, 0),),
            lambda d: (d.log(-8, 4),),
            lambda d: (d.about(1),),
            lambda d: (d.uniform(0, 3),),
        ), limits={(0.0,): (float("inf"), -float("inf"))},
    ),
    Entry("ellipe", "m", ellipe, PARAMETER, limits={(0.0,): (1.5707963267948966, -0.39269908169872414)}),
    Entry(
        "zeta", "x", riemann, (
            lambda d: (d.uniform(-50, 50),), lambda d: (d.about(d.choice(1, -2, -4, -20, 0.5, 2)),),
            lambda d: (d.signed(d.log(-8, 1.7)),), lambda d: (1 + d.signed(d.log(-12, 0)),),
        ), ((0.0,), (100.0,), (-150.3,)), variant="Riemann",
    ),
    Entry(
        "zeta", "x q", hurwitz, (
            lambda d: (1 + d.log(-8, 2), d.log(-3, 4)),
            lambda d: (d.uniform(1.01, 20), d.uniform(0.01, 20)),
            lambda d: (1 + d.log(-3, 1.5), d.about(d.choice(0.5, 1, 2, 10))),
        ), ((1.5, 1e-3), (84.0, 60.0), (2.5, 1e6)), variant="Hurwitz",
    ),
    Entry(
        "owens_t", "h a", owens_t, (
            lambda d: (d.signed(d.log(-8, 1.4)), d.signed(d.log(-8, 4))),
            lambda d: (d.uniform(-6, 6), d.uniform(-2, 2)),
            lambda d: (d.uniform(0, 20), d.about(d.choice(0.5, 1, 0.1, 0.999))),
        ), ((0.5, 2.0),), {(0.0, 1.0): (0.125, 0.0, 0.07957747154594767)},
    ),
    Entry("lambertw", "z", lambertw, LAMBERT, limits={(0.0,): (0.0, 1.0)}),
    Entry("lambertw", "z", lambertw_lower, LOWER, keywords={"k": -1}, variant="lower branch"),
]  # fmt: skip
