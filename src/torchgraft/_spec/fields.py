"""Reading the fields of NamedTuples and dataclasses: each becomes a parameter, or what cannot be is refused."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import DeclarationError
from .signature import Parameter
from .structures import Structure

Read = Callable[[inspect.Parameter, Any, str], Parameter]
"""Reads one field: as a parameter, with its annotation and the name that callers know."""


def is_structure(annotation: Any) -> bool:
    """Tell whether an annotation is the class of a NamedTuple or of a dataclass."""
    if not isinstance(annotation, type):
        return False
    return dataclasses.is_dataclass(annotation) or (issubclass(annotation, tuple) and hasattr(annotation, "_fields"))


def structures_in(annotation: Any) -> list[type]:
    """The classes of structures that an annotation is made of."""
    if is_structure(annotation):
        return [annotation]
    origin = typing.get_origin(annotation)
    parts = () if origin is None else (origin, *typing.get_args(annotation))
    return [cls for part in parts for cls in structures_in(part)]


def read_structure(
    parameter: inspect.Parameter, cls: type, operator: str, scope: Mapping[str, Any], read: Read
) -> tuple[Structure, list[Parameter]]:
    """The structure that a parameter is, and the parameters that its fields are.

    Args:
        parameter: of the user's function.
        cls: the class that annotates it.
        operator: for error texts.
        scope: names that annotations may use, beside those of the class's module.
        read: reads a field.

    Raises:
        DeclarationError: a field has no type that a parameter may have, or the class cannot be taken apart.
    """
    default = parameter.default
    if default is not inspect.Parameter.empty and type(default) is not cls:
        raise DeclarationError(
            "has a default of another class", operator=operator, argument=parameter.name, expected=cls.__name__,
            got=type(default).__name__, hint="give each field its default, or none",
        )  # fmt: skip
    reader = _Reader(operator, scope, read, parameter.kind)
    structure = reader.read(parameter.name, cls, default)
    only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    return dataclasses.replace(structure, default=default, keyword_only=only), reader.parameters


class _Reader:
    """Reads one parameter's structure; collects the parameters that its fields are."""

    def __init__(self, operator: str, scope: Mapping[str, Any], read: Read, kind: Any) -> None:
        self.operator, self.scope, self._read, self._kind = operator, scope, read, kind
        self.parameters: list[Parameter] = []
        self._above: list[type] = []

    def read(self, name: str, cls: type, default: Any) -> Structure:
        """The structure of a class, in the place that `name` says."""
        if cls in self._above:
            raise self._refuse(f"{cls.__name__} holds itself", name, "a structure of known depth", cls.__name__)
        self._above.append(cls)
        hints, fields = self._hints(name, cls), field_names(cls)
        self._check(name, cls, fields, hints)
        read = tuple((f, self._field(f"{name}.{f}", hints[f], _default(cls, f, default))) for f in fields)
        self._above.pop()
        return Structure(name, cls, read)

    def _field(self, name: str, annotation: Any, default: Any) -> str | Structure:
        if is_structure(annotation):
            return self.read(name, annotation, default)
        parameter = inspect.Parameter(name.replace(".", "_"), self._kind, default=default)
        self.parameters.append(self._read(parameter, annotation, name))
        return parameter.name

    def _hints(self, name: str, cls: type) -> dict[str, Any]:
        """The annotations of a class, those of its bases too."""
        hints: dict[str, Any] = {}
        try:
            for base in reversed(cls.__mro__):
                hints |= inspect.get_annotations(base)
            if any(isinstance(hint, (str, typing.ForwardRef)) for hint in hints.values()):
                hints = typing.get_type_hints(cls, None, dict(self.scope), include_extras=True)
        except Exception as error:
            raise self._refuse(
                f"annotations of {cls.__name__} cannot be read: {error}", name,
                "names that are defined where the class is", ", ".join(f"{key}: {hints[key]!r}" for key in hints),
                "look for a misspelt name, and import names outside of `if TYPE_CHECKING:`",
            ) from error  # fmt: skip
        return hints

    def _check(self, name: str, cls: type, fields: Sequence[str], hints: Mapping[str, Any]) -> None:
        if not fields:
            raise self._refuse(f"{cls.__name__} has no fields", name, "a field that is a tensor or a number", "none")
        for field in fields:
            if field not in hints:
                raise self._refuse(
                    "has no annotation", f"{name}.{field}", 'a type, such as Float[Tensor, "n"]', "nothing",
                    f"declare {cls.__name__} as a typing.NamedTuple or a dataclass",
                )  # fmt: skip
        for attribute in unannotated(cls, hints):
            raise self._refuse(
                f"'{attribute}' has no annotation, and so is no field of {cls.__name__}", f"{name}.{attribute}",
                "an annotation", "nothing", f"write {attribute}: float = ..., or {attribute}: ClassVar[float] = ...",
            )  # fmt: skip
        if not issubclass(cls, tuple):
            try:
                object.__new__(cls)
            except TypeError as error:
                raise self._refuse(
                    f"{cls.__name__} cannot be put together from its fields: {error}", name,
                    "a dataclass with fields alone", " and ".join(base.__name__ for base in cls.__bases__),
                ) from None  # fmt: skip

    def _refuse(self, problem: str, name: str, expected: str, got: str, hint: str | None = None) -> DeclarationError:
        return DeclarationError(problem, operator=self.operator, argument=name, expected=expected, got=got, hint=hint)


def field_names(cls: Any) -> list[str]:
    """The names of the fields of a NamedTuple's or a dataclass's class."""
    if issubclass(cls, tuple):
        return list(cls._fields)
    return [field.name for field in dataclasses.fields(cls)]


_OF_PYTHON = {"_fields", "_field_defaults", "_abc_impl", "_is_protocol", "_is_runtime_protocol"}
"""Attributes that NamedTuple, ABC, Generic and Protocol give to classes."""


def unannotated(cls: type, hints: Mapping[str, Any]) -> Iterator[str]:
    """Attributes of a class that look like fields, and are none: an instance's own would be lost."""
    for base in cls.__mro__:
        for name, value in vars(base).items():
            inner = name.startswith("__") or name in _OF_PYTHON
            if not (inner or name in hints or isinstance(value, type) or hasattr(value, "__get__")):
                yield name


def _default(cls: Any, field: str, given: Any) -> Any:
    """The default of a field: that of the parameter's default, or the one that the class declares, if it is plain."""
    if given is not inspect.Parameter.empty:
        return getattr(given, field)
    if issubclass(cls, tuple):
        return cls._field_defaults.get(field, inspect.Parameter.empty)
    default = cls.__dataclass_fields__[field].default
    return inspect.Parameter.empty if default is dataclasses.MISSING else default
