"""References: a function in mpmath, its derivatives, and the scale on which these vanish.

Derivatives are central differences with a step of a quarter of the digits, which leaves half of them right. All is done
in two precisions at least, and in higher ones until two in turn agree to 19 digits, and what rounding
may have left in the difference is less: another error, of mpmath's own methods, would have to be the same in both.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mpmath import mp, mpf

if TYPE_CHECKING:
    from .entry import Entry

DIGITS = (50, 80, 160, 320, 800, 1600)
AGREED = mpf(10) ** -19
NOTHING = mpf(10) ** -340  # less than any double
FAILURES = (ArithmeticError, TypeError, ValueError, mp.NoConvergence)  # TypeError where a complex number is compared
NEAR = 100  # the relative condition beyond which a zero is looked for


@dataclass(frozen=True)
class Split:
    """A number next to another one: where the rest is a tail, the difference of two does not cancel."""

    base: Any
    rest: Any

    def __sub__(self, other: Split) -> Any:
        return (self.base - other.base) + (self.rest - other.rest)

    @staticmethod
    def of(number: Any) -> Split:
        found = number if isinstance(number, Split) else Split(mpf(0), number)
        if mp.im(found.base) != 0 or mp.im(found.rest) != 0:
            raise ValueError("outside of the domain")
        return Split(mp.re(found.base), mp.re(found.rest))

    @property
    def whole(self) -> Any:
        return self.base + self.rest


@dataclass(frozen=True)
class Inverse:
    """The inverse of a function in its last argument.

    Attributes:
        forward: the function in mpmath.
        solve: the last argument of `forward`, of its other arguments and its value.
        shown: what the inverse is of that argument, and its derivative, where it is not the argument itself.
    """

    forward: Callable[..., Any]
    solve: Callable[..., Any]
    shown: Callable[[Any], tuple[Any, Any]] = lambda found: (found, mpf(1))


Slope = tuple[Any, Any, Any]  # a derivative, its scale, and what rounding may have left in it
Jet = list[tuple[Any, list[Slope]]]  # of each result: the value, and its derivatives


def reference(entry: Entry, point: tuple[float, ...], seconds: int = 20) -> list[list[float]] | None:
    """Of each result: the value and what its rounding has left, then of each derivative it and its scale, or 0.

    The scale is |x f''|, by which f' changes with a relative change of x, and is given next to zeros of f' alone.

    Returns:
        None where no two precisions agree, or time is up.
    """
    last = None
    try:
        with limited(seconds):
            for digits in DIGITS:
                found = attempt(entry, point, digits)
                if found and last and agree(found, last):
                    return [rounded(value, slopes) for value, slopes in found]
                last = found or last
    except TimeoutError:
        pass
    return None


def attempt(entry: Entry, point: tuple[float, ...], digits: int) -> Jet | None:
    with mp.workdps(digits):
        at = [mpf(x) for x in point]
        try:
            found = (
                inverted(entry.exact, at) if isinstance(entry.exact, Inverse) else jet(entry.exact, at, entry.varied)
            )
            every = [number for value, slopes in found for number in (value, *(n for slope in slopes for n in slope))]
            return found if all(mp.isfinite(number) for number in every) else None
        except FAILURES:
            return None


def jet(function: Callable[..., Any], at: list[Any], varied: list[int]) -> Jet:
    values = results(function, at)
    slopes: list[list[Slope]] = [[] for _ in values]
    for i in varied:
        step = (abs(at[i]) or mpf(1)) * mpf(10) ** -(mp.dps // 4)
        for j, (first, second) in enumerate(differences(function, at, i, step, values)):
            scale, noise = abs(at[i] * second), mpf(10) ** (2 - mp.dps) * abs(values[j].rest) / step
            near = scale > NEAR * abs(first) > NEAR * noise and beside_zero(function, at, i, j, step, first, second)
            slopes[j].append((first, scale if near else mpf(0), noise))
    return [(value.whole, found) for value, found in zip(values, slopes, strict=True)]


def inverted(inverse: Inverse, at: list[Any]) -> Jet:
    """By the implicit function theorem."""
    *parameters, level = at
    found = inverse.solve(*parameters, level)
    there = [*parameters, found]
    ((_, slopes),) = jet(inverse.forward, there, list(range(len(there))))
    *by_parameters, (density, _, noise) = slopes
    value, factor = inverse.shown(found)
    slope, unsure = factor / density, abs(noise / density)
    implied = [(-by * slope, mpf(0), abs(by * slope) * unsure + abs(left * slope)) for by, _, left in by_parameters]
    return [(value, [*implied, (slope, mpf(0), abs(slope) * unsure)])]


def results(function: Callable[..., Any], at: list[Any]) -> list[Split]:
    found = function(*at)
    return [Split.of(number) for number in (found if isinstance(found, tuple) else (found,))]


def differences(
    function: Callable[..., Any], at: list[Any], i: int, step: Any, values: list[Split]
) -> list[tuple[Any, Any]]:
    """The first and second derivative in one argument, of each result."""
    up, down = (results(function, [*at[:i], at[i] + sign * step, *at[i + 1 :]]) for sign in (1, -1))
    return [((u - d) / (2 * step), ((u - v) - (v - d)) / step**2) for u, v, d in zip(up, values, down, strict=True)]


def beside_zero(
    function: Callable[..., Any], at: list[Any], i: int, j: int, step: Any, first: Any, second: Any
) -> bool:
    """Whether a step of Newton's method finds a derivative of less than a tenth."""
    there = [*at[:i], at[i] - first / second, *at[i + 1 :]]
    try:
        return bool(abs(differences(function, there, i, step, results(function, there))[j][0]) < abs(first) / 10)
    except FAILURES:  # outside of the domain
        return False


def agree(found: Jet, last: Jet) -> bool:
    def same(x: Any, y: Any, noise: Any) -> bool:
        return abs(x - y) + noise <= AGREED * abs(x) or max(abs(x), abs(y)) + noise < NOTHING

    return all(
        same(value, old, 0) and all(same(s[0], b[0], s[2]) for s, b in zip(slopes, before, strict=True))
        for (value, slopes), (old, before) in zip(found, last, strict=True)
    )


def rounded(value: Any, slopes: list[Slope]) -> list[float]:
    high = float(value)
    low = float(value - mpf(high)) if abs(high) < float("inf") else 0.0
    return [high, low, *(float(number) for slope in slopes for number in slope[:2])]


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after so many seconds, where the system has such a clock."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def expire(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
