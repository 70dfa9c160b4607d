"""Refusals of what SciPy refuses with a `ValueError`."""

from __future__ import annotations

from ..errors import TorchgraftError


class InvalidValueError(TorchgraftError, ValueError):
    """An argument has the right type and a value that SciPy refuses too.

    Example:
        >>> raise InvalidValueError("a[0] is zero", operator="lfilter", argument="a", expected="a[0] != 0", got="0.0")
    """
