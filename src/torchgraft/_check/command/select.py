"""The expression of ``-k``: which names are meant."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..._errors import ArgumentError

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
    reader = _Reader(text)
    found = reader.disjunction()
    if reader.token:
        raise reader.wrong("the end")
    return found


class _Reader:
    """Reads the grammar of pytest's ``-k``: `not` binds stronger than `and`, that stronger than `or`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = re.finditer(r"[()]|[^\s()]+", text)
        self._next()

    def disjunction(self) -> Selector:
        found = self._conjunction()
        while self._took("or"):
            found = _either(found, self._conjunction())
        return found

    def _conjunction(self) -> Selector:
        found = self._factor()
        while self._took("and"):
            found = _both(found, self._factor())
        return found

    def _factor(self) -> Selector:
        if self._took("not"):
            inverse = self._factor()
            return lambda name: not inverse(name)
        if self._took("("):
            found = self.disjunction()
            if not self._took(")"):
                raise self.wrong(")")
            return found
        part = self.token
        if part in ("", "and", "or", ")"):
            raise self.wrong("a part of a name")
        self._next()
        return lambda name: part.lower() in name.lower()

    def _took(self, token: str) -> bool:
        if self.token != token:
            return False
        self._next()
        return True

    def _next(self) -> None:
        match = next(self._tokens, None)
        self.token, self._place = (match[0], match.start()) if match else ("", len(self._text))

    def wrong(self, expected: str) -> ArgumentError:
        got = f"'{self.token}'" if self.token else "the end"
        expected = f"{expected} at column {self._place + 1} of '{self._text}'"
        return ArgumentError("cannot be read", argument="-k", expected=expected, got=got)


def _either(first: Selector, second: Selector) -> Selector:
    return lambda name: first(name) or second(name)


def _both(first: Selector, second: Selector) -> Selector:
    return lambda name: first(name) and second(name)
