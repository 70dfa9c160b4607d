"""Structures: NamedTuples and dataclasses as parameters. An operator takes each of their fields as a parameter.

Two places know of them: the generated ``__call__`` takes them apart, and `gathering` puts them together again around
each function of the user's. All between the two sees the fields alone, under names like ``state_velocity``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .._generated import compile_source


@dataclass(frozen=True)
class Structure:
    """A parameter that is a NamedTuple or a dataclass, or a field that is one.

    Attributes:
        name: as callers write it: ``state``, ``state.particle``.
        cls: its class.
        fields: by its name, the parameter that a field is, or the structure.
        default: of the parameter.
        keyword_only: it is passed by name alone.
    """

    name: str
    cls: type
    fields: tuple[tuple[str, str | Structure], ...]
    default: Any = inspect.Parameter.empty
    keyword_only: bool = False

    is_seed: ClassVar[bool] = False

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def identifier(self) -> str:
        """The name under which rules ask for all of it: ``state_particle``."""
        return self.name.replace(".", "_")

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that its fields are, those of inner structures too."""
        return tuple(name for _, f in self.fields for name in ((f,) if isinstance(f, str) else f.parameters))

    @property
    def all(self) -> Iterator[Structure]:
        """The structure, and those in it."""
        yield self
        for _, field in self.fields:
            if isinstance(field, Structure):
                yield from field.all

    @property
    def kind(self) -> str:
        """The kind of class that it is, in words."""
        return "NamedTuple" if self.is_tuple else "dataclass"

    @property
    def is_made_of_fields(self) -> bool:
        """True if its class makes a value of fields, all by name, and keeps them as they are."""
        if self.is_tuple:
            return True
        fields = dataclasses.fields(self.cls)
        return not hasattr(self.cls, "__post_init__") and all(field.init for field in fields)

    @property
    def is_tuple(self) -> bool:
        return issubclass(self.cls, tuple)

    def renamed(self, rename: Callable[[str], str]) -> Structure:
        """The structure with other parameters for its fields."""
        fields = tuple((n, rename(f) if isinstance(f, str) else f.renamed(rename)) for n, f in self.fields)
        return dataclasses.replace(self, fields=fields)

    def values(self, given: Any) -> list[Any]:
        """The fields of a value of the class, in the order of `parameters`."""
        found: list[Any] = []
        for name, field in self.fields:
            value = getattr(given, name)
            found += [value] if isinstance(field, str) else field.values(value)
        return found


def gathering(
    function: Callable[..., Any], items: Sequence[str | Structure], keywords: Collection[str] = ()
) -> Callable[..., Any]:
    """`function`, which takes structures, as a function of their fields; each field is taken once.

    Structures are made as copying makes them: their ``__init__`` and ``__post_init__`` have run already, where the
    caller made them, and would convert or refuse a second time.

    Args:
        function: the user's.
        items: what it takes, in its order: structures, and names of whatever else.
        keywords: of these, what it takes by name alone.
    """
    flat: list[str] = []
    lines: list[str] = []
    arguments: list[str] = []
    names: dict[str, Any] = {"function": function, "new": object.__new__, "tuple": tuple.__new__}
    for item in items:
        name, value = (item, item) if isinstance(item, str) else (item.identifier, _build(item, lines, names))
        flat += [item] if isinstance(item, str) else item.parameters
        arguments.append(f"{name}={value}" if name in keywords else value)
    body = "".join(f"    {line}\n" for line in [*lines, f"return @function({', '.join(arguments)})"])
    source = f"def call({', '.join(dict.fromkeys(flat))}):\n{body}".replace("@", "__")
    title = getattr(function, "__name__", type(function).__name__)
    made: Callable[..., Any] = compile_source(source, title, {f"__{k}": v for k, v in names.items()})["call"]
    return made


def _build(structure: Structure, lines: list[str], names: dict[str, Any]) -> str:
    """Add the lines that make a structure of its fields; return the name of the variable that holds it."""
    values = {n: f if isinstance(f, str) else _build(f, lines, names) for n, f in structure.fields}
    number = len(names)  # A structure and its tangent have one name.
    made, cls = f"@made{number}", f"@class{number}"
    names[cls[1:]] = structure.cls
    if structure.is_tuple:
        lines.append(f"{made} = @tuple({cls}, ({', '.join(values.values())},))")
        return made
    lines.append(f"{made} = @new({cls})")
    if "__setattr__" not in {name for base in structure.cls.__mro__[:-1] for name in vars(base)}:
        lines += [f"{made}.{name} = {value}" for name, value in values.items()]
    else:  # It is frozen, or looks at what is set.
        names["set"] = object.__setattr__
        lines += [f"@set({made}, {name!r}, {value})" for name, value in values.items()]
    return made
