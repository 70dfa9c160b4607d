"""Surrogates: functions whose derivative a rule is meant to give, in the place of its operator's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import TorchgraftError


def read_surrogates(given: object, refuse: type[TorchgraftError]) -> dict[str, Callable[..., Any]]:
    """Surrogates by the names of the arguments; None is none.

    Raises:
        TorchgraftError: of the class `refuse`: it is no dictionary of functions.
    """
    given = {} if given is None else given
    if isinstance(given, Mapping) and all(isinstance(name, str) and callable(of) for name, of in given.items()):
        return dict(given)
    raise refuse(
        "a surrogate is a function on the same arguments, whose derivative is meant", argument="surrogate",
        expected="functions by the names of arguments: {'x': smooth}", got=repr(given),
    )  # fmt: skip


def function_name(function: Any) -> str:
    """The name of a function, as reports show it."""
    if isinstance(function, functools.partial):
        return function_name(function.func)
    return getattr(function, "__name__", type(function).__name__)
