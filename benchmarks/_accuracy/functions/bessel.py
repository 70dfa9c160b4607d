"""Bessel functions of real order, and their kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp, mpf

from ..draw import Draw
from ..entry import Entry
from ..exact import Split

# -- of real order --------------------------------------------------------------------------------------------------


def jv(v: Any, z: Any) -> Any:
    return mp.besselj(v, z)


def yv(v: Any, z: Any) -> Any:
    return mp.bessely(v, z)


def iv(v: Any, z: Any) -> Any:
    if v > 0:
        return mp.besseli(v, z)
    return mp.besseli(-v, z) - 2 / mp.pi * mp.sinpi(v) * macdonald(v, z)  # DLMF 10.27.2


def macdonald(v: Any, z: Any) -> Any:
    """Between, where mpmath's cancels: DLMF 10.32.9 by the trapezoidal rule.

    Its error is exp(d (1 - cos s) - 2 pi s / step) for any s < pi/2.
    """
    if z < 2 or z > 100 + v * v:
        return mp.besselk(v, z)
    digits, d = mp.dps * mp.log(10) + 5, mp.hypot(v, z)
    best = mp.sqrt(2 * d * digits) if d > 2 * digits else digits + 0.46 * d  # with the best small s, or s = 1
    step = 2 * mp.pi / best
    total = mp.exp(-z) / 2
    grow, shrink, v = mp.exp(step), mp.exp(-step), abs(v)
    rise, fall = mp.exp(step * v), mp.exp(-step * v)
    up = down = high = low = mpf(1)
    while True:
        up, down, high, low = up * grow, down * shrink, high * rise, low * fall
        term = mp.exp(-z * (up + down) / 2) * (high + low) / 2
        total += term
        if term < mp.eps * total and up > 2 * v / z:
            return total * step


def even(v: Any, value: Any) -> Any:
    """At 0, where differences of an even function vanish exactly, no rounding is left in them."""
    return value if v else Split(value, mpf(0))


def kv(v: Any, z: Any) -> Any:
    return even(v, macdonald(v, z))


def ive(v: Any, z: Any) -> Any:
    return mp.exp(-z) * iv(v, z)


def kve(v: Any, z: Any) -> Any:
    return even(v, mp.exp(z) * macdonald(v, z))


# -- of half an integer, airy, struve -------------------------------------------------------------------------------


def spherical(function: Callable[[Any, Any], Any], n: Any, z: Any) -> Any:
    """DLMF 10.47.3 to 10.47.9, but for a factor."""
    return mp.sqrt(mp.pi / (2 * z)) * function(n + mpf(1) / 2, z)


def recurred(zero: Any, one: Any, n: Any, z: Any) -> Any:
    """Upwards, where z is so large that mpmath's functions of real order are slow, or 0: DLMF 10.51.1."""
    for k in range(1, int(n) + 1):
        zero, one = one, (2 * k + 1) / z * one - zero
    return zero


def spherical_jn(n: Any, z: Any) -> Any:
    if z < 0:
        return (-1) ** int(n) * spherical_jn(n, -z)
    if z < 1e4 + n * n:
        return spherical(mp.besselj, n, z)
    with mp.workprec(mp.prec + mp.mag(z)):
        return recurred(mp.sin(z) / z, (mp.sin(z) / z - mp.cos(z)) / z, n, z)


def spherical_yn(n: Any, z: Any) -> Any:
    if z < 0:
        return (-1) ** (int(n) + 1) * spherical_yn(n, -z)
    if z < 1e4 + n * n:
        return spherical(mp.bessely, n, z)
    with mp.workprec(mp.prec + mp.mag(z)):
        return recurred(-mp.cos(z) / z, -(mp.cos(z) / z + mp.sin(z)) / z, n, z)


def spherical_in(n: Any, z: Any) -> Any:
    return spherical(mp.besseli, n, z) if z > 0 else (-1) ** int(n) * spherical(mp.besseli, n, -z)


def spherical_kn(n: Any, z: Any) -> Any:
    if z > 0:
        return spherical(mp.besselk, n, z)
    zero = mp.pi / 2 * mp.exp(-z) / z  # DLMF 10.49.12
    one = zero + zero / z
    for k in range(1, int(n) + 1):
        zero, one = one, zero + (2 * k + 1) / z * one  # DLMF 10.51.4
    return zero


def spherical_jn_slope(n: Any, z: Any) -> Any:
    return n / z * spherical_jn(n, z) - spherical_jn(n + 1, z)  # DLMF 10.51.2


def airy(z: Any) -> Any:
    return mp.airyai(z), mp.airyai(z, derivative=1), mp.airybi(z), mp.airybi(z, derivative=1)


def struve(v: Any, x: Any) -> Any:
    """Mpmath's, and where that is slow the expansion DLMF 11.6.1, an upper bound of whose error is its last term."""
    if x < 100 + v * v:
        return mp.struveh(v, x)
    total, k = mp.bessely(v, x), 0
    term = (x / 2) ** (v - 1) * mp.rgamma(v + mpf(1) / 2) / mp.sqrt(mp.pi)
    while term and abs(term) > mp.eps * abs(total):
        total, k, last = total + term, k + 1, term
        term *= (k - mpf(1) / 2) * (v + mpf(1) / 2 - k) / (x / 2) ** 2
        if abs(term) > abs(last):
            raise mp.NoConvergence
    return total


# -- points ---------------------------------------------------------------------------------------------------------


def around_turning_point(d: Draw) -> tuple[Any, Any]:
    return (v := d.order(100, -100)), abs(v) * (1 + d.random.normal(0, 0.1, d.count)) + 0.05


def at_switches(d: Draw) -> tuple[Any, Any]:
    """The regions of the kernel end where x^2 = 8(v+1), 2(v+1), 2, 8, x = 21, and about x = v."""
    v = d.order(100, -100)
    m, u = abs(v), abs(v) + 1
    ends = (8 * (m + 1)) ** 0.5, (2 * (m + 1)) ** 0.5, 2**0.5, 8**0.5, 21, abs(u - (9 * u / 8) ** (1 / 3)) + 0.1, u
    return v, d.about(d.mixed(*ends))


BESSEL = (
    lambda d: (d.order(100, -100), d.log(-8, 4)),
    lambda d: (d.order(100), d.log(-1, 2)),
    lambda d: (d.uniform(0, 5), d.uniform(0.01, 20)),
    around_turning_point,
    at_switches,
    lambda d: (d.signed(d.about(d.choice(0.5, 10, 1, 2, 100))), d.log(-2, 3)),
    lambda d: ((v := d.uniform(-300, 300)), abs(v) * d.log(-0.5, 0.5)),
    lambda d: (d.order(5, -5), d.log(3, 4)),
)
HARD = ((0.3, 8.0), (2.0001, 1.0), (0.0, 1.0), (100.0, 1e4), (-0.5, 1e-8), (1e-9, 66.76), (3.0 + 1e-8, 2.0))
SPHERICAL = (
    lambda d: (d.integers(0, 10), d.log(-8, 4)),
    lambda d: (d.integers(0, 100), d.log(-1, 2.5)),
    lambda d: ((n := d.integers(0, 60)), (n + 0.5) * d.log(-0.2, 0.2)),
    lambda d: (d.integers(0, 5), d.about(d.choice(0.5, 1, 2, 5, 20))),
)
NEGATIVE = (*SPHERICAL, lambda d: (d.integers(0, 20), -d.log(-3, 2)))

ENTRIES = [
    Entry("jv", "v z", jv, BESSEL, HARD, {(1.0, 0.0): (0, 0, 0.5), (2.5, 0.0): (0, 0, 0)}, "v"),
    Entry("yv", "v z", yv, BESSEL, HARD, parameters="v"),
    Entry("iv", "v z", iv, BESSEL, HARD, {(1.0, 0.0): (0, 0, 0.5), (2.5, 0.0): (0, 0, 0)}, "v"),
    Entry("kv", "v z", kv, BESSEL, HARD, parameters="v"),
    Entry("jve", "v z", jv, BESSEL, HARD, parameters="v"),
    Entry("yve", "v z", yv, BESSEL, HARD, parameters="v"),
    Entry("ive", "v z", ive, BESSEL, HARD, parameters="v"),
    Entry("kve", "v z", kve, BESSEL, HARD, parameters="v"),
    Entry("spherical_jn", "n z", spherical_jn, NEGATIVE, limits={(1.0, 0.0): (0.0, 1 / 3)}, fixed="n"),
    Entry("spherical_yn", "n z", spherical_yn, NEGATIVE, fixed="n"),
    Entry("spherical_in", "n z", spherical_in, NEGATIVE, limits={(1.0, 0.0): (0.0, 1 / 3)}, fixed="n"),
    Entry("spherical_kn", "n z", spherical_kn, SPHERICAL, fixed="n"),
    Entry(
        "spherical_jn", "n z", spherical_jn_slope, NEGATIVE, fixed="n", keywords={"derivative": True},
        variant="derivative",
    ),
    Entry(
        "airy", "z", airy, (
            lambda d: (d.signed(d.log(-8, 2)),), lambda d: (d.uniform(-20, 20),), lambda d: (d.uniform(-200, 120),),
            lambda d: (d.signed(d.about(d.choice(1, 2, 4.5, 8, 10))),),
        ), outputs="Ai Ai' Bi Bi'",
    ),
    Entry(
        "struve", "v x", struve, (
            lambda d: (d.order(10, -5), d.log(-8, 4)),
            lambda d: (d.order(50), d.log(-1, 2)),
            lambda d: (d.uniform(-3, 5), d.uniform(0.01, 60)),
            lambda d: ((v := d.uniform(0, 30)), v * d.log(-0.2, 0.4) + 0.1),
        ), fixed="v",
    ),
]  # fmt: skip
