"""The arguments of a C function: how each is declared, taken from torch, and passed.

An argument takes one slot of torch's boxed calling convention (a workspace takes none), lives in the call's frame, and
becomes one or more parameters of the C function.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from .._spec.axes import Axes
from .._spec.scalars import Scalar

CODES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float32: 6, torch.float64: 7,
    torch.complex64: 9, torch.complex128: 10, torch.bool: 11, torch.uint16: 27, torch.uint32: 28, torch.uint64: 29,
}  # fmt: skip
"""`c10::ScalarType`, whose numbers are part of the stable interface."""


@dataclass(frozen=True)
class Argument(ABC):
    """One argument of a function in C.

    Attributes:
        name: as the annotations have it.
        optional: it may be None.
    """

    name: str
    optional: bool

    @property
    def field(self) -> str:
        """The argument's place in the frame of the call."""
        return f"tg_f->a_{self.name}"

    @property
    def schema(self) -> str | None:
        """Its type in the dispatcher's schema; None if it has no slot."""
        return None

    def parameters(self) -> list[str]:
        """The parameters of the C function."""
        raise NotImplementedError

    def fields(self) -> Iterator[str]:
        """Its members of the frame."""
        yield from ()

    def own(self, slot: str) -> Iterator[str]:
        """Statements that see to it that nothing leaks, whatever fails afterwards."""
        yield from ()

    def take(self, slot: str) -> Iterator[str]:
        """Statements that read a scalar."""
        yield from ()

    def values(self) -> list[str]:
        """The expressions that the function is called with."""
        raise NotImplementedError

    def convert(self, value: Any) -> Any:
        """The value as the schema wants it."""
        return value

    @property
    def converts(self) -> bool:
        """True if `convert` does anything."""
        return type(self).convert is not Argument.convert

    def from_python(self) -> str | None:
        """An expression that makes the value of a Python object, ``{}``; None where there is none."""
        return None


@dataclass(frozen=True)
class Number(Argument):
    """A bool, int, float or dtype by value; an optional one by pointer."""

    scalar: Scalar

    _TYPES: ClassVar[dict[type, tuple[str, str, str | None]]] = {
        bool: ("bool", "((uint8_t){} != 0)", "tg_torch.PyObject_IsTrue({}) > 0"),
        int: ("int64_t", "(int64_t){}", "tg_torch.PyLong_AsLongLong({})"),
        float: ("double", "tg_as_double({})", "tg_torch.PyFloat_AsDouble({})"),
        torch.dtype: ("int32_t", "(int32_t){}", None),
    }  # fmt: skip

    @property
    def schema(self) -> str:
        return self.scalar.schema + ("?" if self.optional else "")

    def parameters(self) -> list[str]:
        kind = self._TYPES[self.scalar.type][0]
        return [f"const {kind} *{self.name}" if self.optional else f"{kind} {self.name}"]

    def fields(self) -> Iterator[str]:
        yield f"{self._TYPES[self.scalar.type][0]} a_{self.name}; bool given_{self.name}"

    def take(self, slot: str) -> Iterator[str]:
        value = f"{self.field} = {self._TYPES[self.scalar.type][1].format(slot)};"
        yield f"if ((tg_f->given_{self.name} = tg_some(&{slot}))) {value}" if self.optional else value

    def values(self) -> list[str]:
        return [f"tg_f->given_{self.name} ? &{self.field} : NULL" if self.optional else self.field]

    def from_python(self) -> str | None:
        return self._TYPES[self.scalar.type][2]


@dataclass(frozen=True)
class Items(Argument):
    """A list, which C gets as a pointer and a length; NULL where it is left out."""

    @property
    def item(self) -> str:
        """The C type of an item."""
        raise NotImplementedError

    @property
    def of_torch(self) -> str:
        """Its type in the dispatcher's schema."""
        raise NotImplementedError

    def unpack(self, slot: str) -> Iterator[str]:
        """Statements that set the pointer and the length."""
        raise NotImplementedError

    @property
    def schema(self) -> str:
        return self.of_torch + ("?" if self.optional else "")

    def parameters(self) -> list[str]:
        constant = self.item.replace(" *", " *const ") if "*" in self.item else f"const {self.item} "
        return [f"{constant}*{self.name}", f"int64_t {self.name}_length"]

    def fields(self) -> Iterator[str]:
        yield f"{self.item} *a_{self.name}; int64_t a_{self.name}_length"

    def own(self, slot: str) -> Iterator[str]:
        yield f"{self.field} = NULL, {self.field}_length = 0;"
        yield f"if (tg_some(&{slot})) {{" if self.optional else "{"
        yield from (f"    {line}" for line in self.unpack(slot))
        yield "}"

    def values(self) -> list[str]:
        return [self.field, f"{self.field}_length"]


@dataclass(frozen=True)
class Numbers(Items):
    """A list of numbers."""

    scalar: Scalar

    @property
    def item(self) -> str:
        return Number._TYPES[self.scalar.type][0]

    @property
    def of_torch(self) -> str:
        return self.scalar.schema

    def unpack(self, slot: str) -> Iterator[str]:
        yield f"tg_value *tg_items = tg_list(tg_c, {slot}, &{self.field}_length, NULL);"
        yield f"{self.field} = ({self.item} *)tg_memory(tg_c, {self.field}_length, sizeof *{self.field});"
        yield f"for (int64_t tg_i = 0; tg_i < {self.field}_length; tg_i++)"
        yield f"    {self.field}[tg_i] = {Number._TYPES[self.scalar.type][1].format('tg_items[tg_i]')};"


@dataclass(frozen=True)
class Complexes(Items):
    """A complex number, by value, or a list of them; torch's C interface knows real ones alone."""

    many: bool
    item = "double _Complex"
    of_torch = "float[]"

    def parameters(self) -> list[str]:
        pointer, length = super().parameters()
        if self.many:
            return [pointer, length]
        return [pointer if self.optional else f"{self.item} {self.name}"]

    def unpack(self, slot: str) -> Iterator[str]:
        yield f"tg_value *tg_items = tg_list(tg_c, {slot}, &{self.field}_length, NULL);"
        yield f"{self.field}_length /= 2; /* real and imaginary parts, whose bits are those of the words */"
        yield f"{self.field} = ({self.item} *)tg_memory(tg_c, {self.field}_length, sizeof({self.item}));"
        yield f"memcpy((void *){self.field}, tg_items, (size_t){self.field}_length * sizeof({self.item}));"

    def values(self) -> list[str]:
        if self.many:
            return super().values()
        return [self.field if self.optional else f"*{self.field}"]

    def convert(self, value: Any) -> Any:
        if value is None:
            return None
        numbers = value if self.many else [value]
        return [part for number in numbers for part in (number.real, number.imag)]


@dataclass(frozen=True)
class Text(Items):
    """An argument that is a string."""

    item = "char"
    of_torch = "str"

    def fields(self) -> Iterator[str]:
        yield f"const char *a_{self.name}; int64_t a_{self.name}_length"

    def unpack(self, slot: str) -> Iterator[str]:
        yield f"tg_keep(tg_c, (void *){slot}, tg_torch.torch_delete_string);"
        yield f"{self.field} = tg_string(tg_c, {slot}, &{self.field}_length);"


@dataclass(frozen=True)
class DeviceName(Text):
    """A device, as its name."""

    def convert(self, value: Any) -> Any:
        return None if value is None else str(value)


@dataclass(frozen=True)
class Texts(Items):
    """A list of strings."""

    item = "const char *"
    of_torch = "str[]"

    def unpack(self, slot: str) -> Iterator[str]:
        yield f"tg_value *tg_items = tg_list(tg_c, {slot}, &{self.field}_length, tg_torch.torch_delete_string);"
        yield f"{self.field} = (const char **)tg_memory(tg_c, {self.field}_length, sizeof *{self.field});"
        yield f"for (int64_t tg_i = 0, tg_n; tg_i < {self.field}_length; tg_i++)"
        yield f"    {self.field}[tg_i] = tg_string(tg_c, tg_items[tg_i], &tg_n);"


@dataclass(frozen=True)
class Array(Argument):
    """An argument that is a tensor.

    Attributes:
        element: the C type of its elements.
        core: the axes of one sample; None for a function that is told dim, sizes and strides.
        scalar: the function sees one element, by value.
    """

    element: str
    core: Axes | None
    scalar: bool

    @property
    def schema(self) -> str:
        return "Tensor" + ("?" if self.optional else "")

    def parameters(self) -> list[str]:
        if self.scalar:
            return [f"{self.element} {self.name}"]
        return [f"const {self.element} *{self.name}", *(whole(self.name) if self.core is None else [])]

    def fields(self) -> Iterator[str]:
        yield f"tg_tensor a_{self.name}"

    def own(self, slot: str) -> Iterator[str]:
        yield f"{f'if (tg_some(&{slot})) ' if self.optional else ''}tg_own(tg_c, {slot});"

    def each(self, statement: str, slot: str = "") -> Iterator[str]:
        """A statement about ``{tensor}``, whose handle is in ``{slot}``; for a list, about each item."""
        yield _filled(statement, f"&{self.field}", slot)

    def values(self) -> list[str]:
        if self.core is None:
            return [f"(const {self.element} *){self.field}.data", *whole_values(self.field)]
        data = f"(const {self.element} *)tg_at(tg_c, &{self.field}, tg_i)"
        return [f"{self.field}.handle ? {data} : NULL" if self.optional else data]

    def from_python(self) -> str | None:
        return "tg_data({})"


@dataclass(frozen=True)
class Written(Array):
    """A tensor that the function writes: it gets the memory of an output, which holds the argument's values before.

    Attributes:
        output: the name of that output.
    """

    output: str

    def parameters(self) -> list[str]:
        return [f"{self.element} *{self.name}", *(whole(self.name) if self.core is None else [])]

    def values(self) -> list[str]:
        place = f"tg_f->o_{self.output}"
        if self.core is None:
            return [f"({self.element} *){place}.data", *whole_values(place)]
        return [f"({self.element} *)tg_at(tg_c, &{place}, tg_i)"]


@dataclass(frozen=True)
class SeedOfSample(Array):
    """The seed of one sample, or of one element, by value: the library makes it of one that is for all."""

    def parameters(self) -> list[str]:
        return [f"int64_t {self.name}"]

    def values(self) -> list[str]:
        return [self.of_sample("tg_i")]

    def of_sample(self, number: str) -> str:
        """The expression for a sample, whose number is an expression, too."""
        return f"tg_seed(tg_c, &{self.field}, {number})"


@dataclass(frozen=True)
class Arrays(Array):
    """A list of tensors: a pointer to pointers, their sizes where they differ, and a length."""

    @property
    def schema(self) -> str:
        return "Tensor[]"

    def parameters(self) -> list[str]:
        items = f"const {self.element} *const *{self.name}"
        return [items, *of_items(self.name, self.core), f"int64_t {self.name}_length"]

    def fields(self) -> Iterator[str]:
        yield f"tg_tensor *a_{self.name}; tg_value *a_{self.name}_items; int64_t a_{self.name}_length"
        if of_items(self.name, self.core):
            yield f"const int64_t **a_{self.name}_sizes"

    def own(self, slot: str) -> Iterator[str]:
        owner = "tg_torch.aoti_torch_delete_tensor_object"
        yield f"{self.field}_items = tg_list(tg_c, {slot}, &{self.field}_length, {owner});"
        yield f"{self.field} = (tg_tensor *)tg_memory(tg_c, {self.field}_length, sizeof(tg_tensor));"

    def each(self, statement: str, slot: str = "") -> Iterator[str]:
        yield f"for (int64_t tg_i = 0; tg_i < {self.field}_length; tg_i++)"
        yield "    " + _filled(statement, f"&{self.field}[tg_i]", f"{self.field}_items[tg_i]")

    def values(self) -> list[str]:
        sizes = [f"{self.field}_sizes"] if of_items(self.name, self.core) else []
        return [f"(const {self.element} *const *)tg_p_{self.name}", *sizes, f"{self.field}_length"]

    def from_python(self) -> str | None:
        return None


@dataclass(frozen=True)
class Scratch(Argument):
    """Memory that the function may use, not initialised; it is told in the annotations, and nobody passes it.

    Attributes:
        element: the C type of its elements.
        core: its axes.
    """

    element: str
    core: Axes

    def parameters(self) -> list[str]:
        return [f"{self.element} *{self.name}"]

    def fields(self) -> Iterator[str]:
        yield f"int64_t a_{self.name}"

    def values(self) -> list[str]:
        return [f"({self.element} *)tg_w_{self.name}"]


def _filled(statement: str, tensor: str, slot: str) -> str:
    """Return a statement with what ``{tensor}`` and ``{slot}`` stand for; names of axes have braces too."""
    return statement.replace("{tensor}", tensor).replace("{slot}", slot)


def of_items(name: str, core: Axes | None) -> list[str]:
    """The parameter that tells the sizes of each tensor of a list, where annotations leave one of them open."""
    is_open = core is not None and any(token.anonymous for token in core.tokens)
    return [f"const int64_t *const *{name}_sizes"] if is_open else []


def whole(name: str) -> list[str]:
    """The parameters that tell about a whole array; strides count elements."""
    return [f"int64_t {name}_dim", f"const int64_t *{name}_sizes", f"const int64_t *{name}_strides"]


def whole_values(field: str) -> list[str]:
    """The values of a list as the function gets them."""
    return [f"{field}.dim", f"{field}.sizes", f"{field}.strides"]
