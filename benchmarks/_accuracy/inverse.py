"""Quantiles in mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp, mpf


def solved(tail: Callable[[Any], tuple[bool, Any]], lower: Any, upper: Any, guess: Any) -> Any:
    """The place where a distribution function is `lower`, and its complement `upper`.

    A tail's logarithm is nearly straight: its root is found to 20 digits by Ridders' method, then by the secant's.

    Args:
        tail: the smaller of the two at a place, and whether it is the lower one.
        lower: what the distribution function is to be.
        upper: 1 less that.
        guess: of the place.

    Raises:
        ValueError: the place is an end of the range.
    """
    if lower <= 0 or upper <= 0:
        raise ValueError("an end of the range")

    def gap(u: Any) -> Any:
        is_lower, value = tail(u)
        low, high = (value, 1 - value) if is_lower else (1 - value, value)
        if lower < upper:
            return mp.log(low) - mp.log(lower) if low > 0 else mpf("-inf")
        return mp.log(upper) - mp.log(high) if high > 0 else mpf("inf")

    with mp.workdps(25):
        low, high = (bracket(gap, guess, sign) for sign in (-1, 1))
        new = low if low == high else ridders(gap, low, high)
    old, before, left = new + (abs(new) or 1) * mpf(10) ** -18, None, 10
    before = gap(old)
    while (value := gap(new)) != before and abs(new - old) > (abs(new) + 1e-3) * mpf(10) ** (6 - mp.dps) and left:
        old, new, before, left = new, new - value * (new - old) / (value - before), value, left - 1
    if not left:
        raise mp.NoConvergence
    return new


def ridders(gap: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """To 18 digits."""
    below, above = gap(low), gap(high)
    while high - low > max(abs(low), abs(high), mpf(1) / 16) * mpf(10) ** -18:
        middle = (low + high) / 2
        value = gap(middle)
        if value == 0:
            return middle
        guess = middle - (middle - low) * value / mp.sqrt(value**2 - below * above)
        there = gap(guess)
        for place, found in ((middle, value), (guess, there)):
            if low < place < high:
                low, below, high, above = (place, found, high, above) if found < 0 else (low, below, place, found)
        if abs(there) < mpf(10) ** -19:
            return guess
    return (low + high) / 2


def bracket(gap: Callable[[Any], Any], guess: Any, sign: int) -> Any:
    """A place on the given side of the root."""
    step = mpf(1) / 8
    while sign * gap(guess) < 0:
        guess, step = guess + sign * step, 2 * step
    return guess
