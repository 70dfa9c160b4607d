"""Choice of the rows of large tables that `make test` runs; `make test-all` runs them all."""

import itertools
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


def in_turn(every: int, *tables: Iterable[Any], name: Callable[..., str] = words) -> list[pytest.ParameterSet]:
    """Make parameters of a product of tables, of which only every n-th is quick: each row with a part of the others."""
    made = []
    for row in itertools.product(*map(enumerate, tables)):
        places, values = zip(*row, strict=True)
        marks = pytest.mark.slow if sum(places) % every else ()
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
