"""Structures in a call: taking them apart where the generated ``__call__`` does not, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._spec.signature import Signature
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
        hint = f"pass {cls.__name__}({fields}), which the kernel gets: what {given.__name__} adds would be lost"
    elif isinstance(value, Mapping):
        hint = f"pass {cls.__name__}(**{structure.name})"
    elif isinstance(value, (tuple, list)):
        hint = f"pass {cls.__name__}(*{structure.name})"
    return ArgumentError(
        f"is not a {cls.__name__}", operator=operator, argument=structure.name, expected=cls.__name__,
        got=given.__name__, hint=hint,
    )  # fmt: skip


def lacking(operator: str, error: AttributeError) -> ArgumentError:
    """The error for a structure that has no value for one of its fields."""
    return ArgumentError(
        f"has no value for its field '{error.name}'", operator=operator, argument=type(error.obj).__name__,
        expected="a value for each field", got=str(error), hint="set the field before the call",
    )  # fmt: skip


def take_apart(signature: Signature, given: Sequence[Any]) -> list[Any]:
    """The values of an operator's parameters, from what its callers pass by position.

    Raises:
        ArgumentError: a value is not of the class of its structure.
    """
    values: list[Any] = []
    for item, value in zip(signature.given, given, strict=True):
        values += _fields(signature.name, item, value) if isinstance(item, Structure) else [value]
    return values


def _fields(operator: str, structure: Structure, value: Any) -> list[Any]:
    if type(value) is not structure.cls:
        raise refuse(operator, structure, value)
    found: list[Any] = []
    for name, field in structure.fields:
        held = getattr(value, name)
        found += [held] if isinstance(field, str) else _fields(operator, field, held)
    return found
