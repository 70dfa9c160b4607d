"""Choice of the rows of large tables that `make test` runs; `make test-all` runs them all."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest


def words(*values: Any) -> str:
    """Join values with hyphens, as pytest names a test by them."""
    return "-".join(map(str, values))


def by_default(
    rows: Iterable[Any], chosen: Callable[..., bool], name: Callable[..., str] = words
) -> list[pytest.ParameterSet]:
    """Make parameters of rows, a tuple each if there are several; those that are not chosen are slow tests."""
    made = []
    for row in rows:
        values = row if isinstance(row, tuple) else (row,)
        marks = () if chosen(*values) else pytest.mark.slow
        made.append(pytest.param(*values, id=name(*values), marks=marks))
    return made


def first_of_each(rows: Iterable[Any], traits: Callable[[Any], Iterable[Hashable]]) -> list[Any]:
    """List the rows with a trait that no row before has."""
    seen: set[Hashable] = set()
    found = []
    for row in rows:
        own = set(traits(row))
        if not own <= seen:
            found.append(row)
        seen |= own
    return found
