"""The expression of ``-k``: which names are meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .._errors import ArgumentError

Selector = Callable[[str], bool]


def selector(text: str) -> Selector:
    """Whether a name is meant, by parts of it, whatever their case, with ``and``, ``or``, ``not`` and parentheses.

    Raises:
        ArgumentError: it cannot be read.

    Example:
        >>> meant = selector("linear and not (bias or c)")
        >>> meant("ops.py:Linear")
        True
    """
    return _Reader(text).all()


class _Reader:
    """Reads the grammar of pytest's own: a part binds stronger than `not`, that than `and`, that than `or`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: Iterator[re.Match[str]] = re.finditer(r"[()]|[^\s()]+", text)
        self._next()

    def all(self) -> Selector:
        found = self._either()
        if self._token:
            raise self._wrong("the end")
        return found

    def _either(self) -> Selector:
        found = self._both()
        while self._took("or"):
            found = _either(found, self._both())
        return found

    def _both(self) -> Selector:
        found = self._one()
        while self._took("and"):
            found = _both(found, self._one())
        return found

    def _one(self) -> Selector:
        if self._took("not"):
            inverse = self._one()
            return lambda name: not inverse(name)
        if self._took("("):
            found = self._either()
            if not self._took(")"):
                raise self._wrong(")")
            return found
        part = self._token
        if not part or part in ("and", "or", ")"):
            raise self._wrong("a part of a name")
        self._next()
        return lambda name: part.lower() in name.lower()

    def _took(self, token: str) -> bool:
        if self._token != token:
            return False
        self._next()
        return True

    def _next(self) -> None:
        match = next(self._tokens, None)
        self._token, self._place = (match[0], match.start()) if match else ("", len(self._text))

    def _wrong(self, expected: str) -> ArgumentError:
        got = f"'{self._token}'" if self._token else "the end"
        return ArgumentError(
            "cannot be read",
            argument="-k",
            expected=f"{expected} at column {self._place + 1} of '{self._text}'",
            got=got,
        )


def _either(first: Selector, second: Selector) -> Selector:
    return lambda name: first(name) or second(name)


def _both(first: Selector, second: Selector) -> Selector:
    return lambda name: first(name) and second(name)
