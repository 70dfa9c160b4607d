"""Integrals of elementary functions."""

from __future__ import annotations

from typing import Any

from mpmath import mp

from ..entry import Entry


def exp1(z: Any) -> Any:
    return mp.e1(z)


def expi(x: Any) -> Any:
    return mp.ei(x)


def expn(n: Any, x: Any) -> Any:
    return mp.expint(int(n), x)


def sici(x: Any) -> Any:
    return mp.si(x), mp.ci(abs(x))


def shichi(x: Any) -> Any:
    return mp.shi(x), mp.re(mp.chi(abs(x)))


def fresnel(z: Any) -> Any:
    return mp.fresnels(z), mp.fresnelc(z)


def spence(z: Any) -> Any:
    return mp.polylog(2, 1 - z) if z < 1.5 else -(mp.log(z) ** 2) / 2 - mp.polylog(2, 1 - 1 / z)  # DLMF 25.12.4


def dawsn(x: Any) -> Any:
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def erfi(z: Any) -> Any:
    return mp.erfi(z)


def erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


POSITIVE = (
    lambda d: (d.log(-8, 3),),
    lambda d: (d.uniform(0, 30),),
    lambda d: (d.about(d.choice(0.5, 1, 1.5, 2, 4, 20, 50)),),
    lambda d: (d.log(-300, 0),),
)
REAL = (
    lambda d: (d.signed(d.log(-8, 4)),),
    lambda d: (d.uniform(-10, 10),),
    lambda d: (d.uniform(-40, 40),),
    lambda d: (d.signed(d.about(d.choice(0.5, 1, 1.5, 2, 4, 7, 20, 36))),),
    lambda d: (d.signed(d.log(-300, 0)),),
)

ENTRIES = [
    Entry("exp1", "z", exp1, POSITIVE, limits={(0.0,): (float("inf"), -float("inf"))}),
    Entry("expi", "x", expi, REAL, ((0.3725074107813666,),)),
    Entry(
        "expn", "n x", expn, (
            lambda d: (d.integers(0, 5), d.log(-8, 3)),
            lambda d: (d.integers(0, 100), d.log(-3, 2)),
            lambda d: (d.integers(0, 60), d.about(d.choice(0.5, 1, 2, 10, 50))),
            lambda d: (d.integers(2, 1000), d.uniform(0, 30)),
        ), limits={(3.0, 0.0): (0.5, -1.0)}, fixed="n",
    ),
    Entry("sici", "x", sici, REAL, outputs="Si Ci"),
    Entry("shichi", "x", shichi, REAL, outputs="Shi Chi"),
    Entry("fresnel", "z", fresnel, REAL, outputs="S C"),
    Entry(
        "spence", "z", spence, (
            lambda d: (d.log(-8, 4),),
            lambda d: (d.uniform(0, 3),),
            lambda d: (d.about(d.choice(0.5, 1, 1.5, 2)),),
            lambda d: (d.log(-300, 300),),
        ), limits={(1.0,): (0.0, -1.0), (0.0,): (1.6449340668482264, -float("inf"))},
    ),
    Entry("dawsn", "x", dawsn, REAL, ((0.9241388730045917,),), {(0.0,): (0.0, 1.0)}),
    Entry("erfi", "z", erfi, REAL, limits={(0.0,): (0.0, 1.1283791670955126)}),
    Entry("erfcx", "x", erfcx, REAL, limits={(0.0,): (1.0, -1.1283791670955126)}),
]  # fmt: skip
