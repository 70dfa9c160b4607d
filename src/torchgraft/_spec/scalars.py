"""Non-tensor arguments: their types, their conversion, and their names in the dispatcher's schema."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ArgumentError

_SCHEMA: dict[type, str] = {
    bool: "bool",
    int: "SymInt",
    float: "float",
    complex: "complex",
    str: "str",
    torch.dtype: "ScalarType",
    torch.device: "Device",
}
_LISTED = (bool, int, float, complex, str)
_SYMBOLIC: dict[type, tuple[type, ...]] = {
    int: (torch.SymInt,),
    float: (torch.SymFloat, torch.SymInt),
    bool: (torch.SymBool,),
}
_TENSOR_HINT = (
    "a tensor has no place here: pass a Python number\n"
    "wrong: f(x, torch.tensor(2.0))\n"
    'right: f(x, 2.0)        or annotate the parameter as a tensor, Float[Tensor, ""]'
)


@dataclass(frozen=True)
class Scalar:
    """The type of a non-tensor argument.

    Attributes:
        type: bool, int, float, complex, str, `torch.dtype` or `torch.device`.
        many: a list of them.
        choices: the admitted values of a `Literal`.
    """

    type: type
    many: bool = False
    choices: tuple[Any, ...] = ()

    @property
    def schema(self) -> str:
        """The type's name in a dispatcher schema."""
        return _SCHEMA[self.type] + ("[]" if self.many else "")

    def __str__(self) -> str:
        name = f"one of {', '.join(map(repr, self.choices))}" if self.choices else self.type.__name__
        return f"a list of {name}" if self.many else name

    def convert(self, value: Any, operator_name: str, argument: str) -> Any:
        """`value` as this type: numbers are converted, everything else must have the type already."""
        if self.many:
            if isinstance(value, (str, bytes, dict, Tensor)) or not isinstance(value, (Sequence, np.ndarray)):
                raise self._refuse(value, operator_name, argument)
            return [self._convert_one(item, operator_name, argument) for item in value]
        return self._convert_one(value, operator_name, argument)

    def _convert_one(self, value: Any, operator_name: str, argument: str) -> Any:
        if isinstance(value, _SYMBOLIC.get(self.type, ())):
            return value
        try:
            converted = _CONVERTERS[self.type](value)
        except OverflowError:
            raise self._too_large(value, operator_name, argument) from None
        except (TypeError, ValueError, RuntimeError):  # `torch.device` raises the last one.
            raise self._refuse(value, operator_name, argument) from None
        if self.choices and converted not in self.choices:
            raise self._refuse(value, operator_name, argument)
        return converted

    def check_range(self, value: Any, operator_name: str, argument: str) -> None:
        """Refuse an int that C and torch's schemas do not have."""
        for item in value if self.many else [value]:
            if self.type is int and isinstance(item, int) and not -(2**63) <= item < 2**63:
                raise self._too_large(item, operator_name, argument)

    def _too_large(self, value: Any, operator_name: str, argument: str) -> ArgumentError:
        digits = str(value) if abs(value) < 10**30 else f"a number of {value.bit_length()} bits"
        return ArgumentError(
            "is too large", operator=operator_name, argument=argument, got=digits,
            expected="at least -2**63 and less than 2**63" if self.type is int else "less than 2**1024",
            hint="pass a smaller number, or a tensor" if self.type is int else "pass a smaller number",
        )  # fmt: skip

    def _refuse(self, value: Any, operator_name: str, argument: str) -> ArgumentError:
        if isinstance(value, Tensor):
            got, hint = f"a Tensor of shape {tuple(value.shape)}", _TENSOR_HINT
        else:
            got = f"{value!r} of type {type(value).__name__}"
            hint = f"pass {self}" if self.many or self.choices else f"pass a value of type {self}"
        return ArgumentError(
            "has the wrong type" if not self.choices else "is not one of the choices",
            operator=operator_name,
            argument=argument,
            expected=str(self),
            got=got,
            hint=hint,
        )


def _number(value: Any, kinds: tuple[type, ...], make: Callable[[Any], Any]) -> Any:
    if isinstance(value, kinds) and not isinstance(value, Tensor):
        return make(value)
    raise TypeError


def _exactly(kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise TypeError

    return convert


_INTEGERS = (int, np.integer, np.bool_)
_REALS = (*_INTEGERS, float, np.floating)
_CONVERTERS: dict[type, Callable[[Any], Any]] = {
    bool: lambda value: _number(value, (bool, np.bool_), bool),
    int: lambda value: _number(value, _INTEGERS, int),
    float: lambda value: _number(value, _REALS, float),
    complex: lambda value: _number(value, (*_REALS, complex, np.complexfloating), complex),
    str: _exactly(str),
    torch.dtype: _exactly(torch.dtype),
    torch.device: lambda value: value if isinstance(value, torch.device) else torch.device(_exactly(str)(value)),
}


def read_scalar(annotation: Any) -> Scalar | None:
    """The `Scalar` that an annotation means; None if it means something else."""
    if isinstance(annotation, type) and annotation in _SCHEMA:
        return Scalar(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        kinds = {type(choice) for choice in arguments}
        if len(kinds) == 1 and (kind := kinds.pop()) in (bool, int, str):
            return Scalar(kind, choices=arguments)
        return None
    is_list = isinstance(origin, type) and issubclass(origin, Sequence)
    if is_list and (len(arguments) == 1 or (len(arguments) == 2 and arguments[1] is Ellipsis)):
        item = read_scalar(arguments[0])
        if item is not None and not item.many and item.type in _LISTED:
            return Scalar(item.type, many=True, choices=item.choices)
    return None


def strip_numbers(annotation: Any) -> tuple[Any, bool]:
    """``X`` and whether it was ``X | float``, for tensors; other unions stay as they are."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = typing.get_args(annotation)
        rest = [member for member in members if member not in (int, float, complex)]
        if len(rest) < len(members) and any(hasattr(member, "dim_str") for member in rest):
            return typing.Union[tuple(rest)], True  # noqa: UP007 # Its members are known here only.
    return annotation, False


def strip_optional(annotation: Any) -> tuple[Any, bool]:
    """``X`` and whether it was ``X | None``."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        rest = [member for member in typing.get_args(annotation) if member is not type(None)]
        if len(rest) == 1 and len(typing.get_args(annotation)) == 2:
            return rest[0], True
    return annotation, False
