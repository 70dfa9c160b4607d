"""The refusal of what is passed in the place of a structure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._spec.structures import Structure
from ..errors import ArgumentError


def refuse(operator: str, structure: Structure, value: Any) -> ArgumentError:
    """The error for a value that is not of the structure's own class.

    A subclass may compute with its fields in another way, and the kernel would get the class that was declared.
    """
    cls, given = structure.cls, type(value)
    hint = None
    if given.__qualname__ == cls.__qualname__ and given.__module__ == cls.__module__:
        hint = f"{cls.__name__} was defined again after the operator: declare the operator again, too"
    elif issubclass(given, cls):
        fields = ", ".join(f"{structure.name}.{name}" for name, _ in structure.fields)
        hint = f"pass {cls.__name__}({fields}): the kernel gets a {cls.__name__}, and would lose what {given.__name__} adds"
    elif isinstance(value, Mapping):
        hint = f"pass {cls.__name__}(**{structure.name})"
    elif isinstance(value, (tuple, list)):
        hint = f"pass {cls.__name__}(*{structure.name})"
    return ArgumentError(
        f"is not a {cls.__name__}", operator=operator, argument=structure.name, expected=cls.__name__,
        got=given.__name__, hint=hint,
    )  # fmt: skip
