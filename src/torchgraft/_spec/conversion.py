"""Conversion of what callers pass to what kernels get: numbers of the right type, tensors in the place of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ArgumentError, UnsupportedError
from .dtypes import Dtypes, complex_twin, is_inexact, promote
from .signature import Parameter, Signature


def convert(signature: Signature, values: Sequence[Any]) -> list[Any]:
    """`values` with numbers converted; anything that has the wrong type raises."""
    values = _with_seed_tensor(signature, with_tensors(signature, values))
    return [_convert(signature.name, p, value) for p, value in zip(signature.parameters, values, strict=True)]


def _with_seed_tensor(signature: Signature, values: Sequence[Any]) -> Sequence[Any]:
    """`values` with a tensor in the place of a seed that is a number."""
    at = signature.seed
    if at is None or type(values[at]) is not int:
        return values
    device = next((v.device for i, _ in signature.tensors if isinstance(v := values[i], Tensor)), None)
    return [*values[:at], torch.tensor(values[at], device=device), *values[at + 1 :]]


def with_tensors(signature: Signature, values: Sequence[Any]) -> Sequence[Any]:
    """`values` with tensors in the place of the numbers that an elementwise operator was given for some of them.

    As in NumPy and torch, a number follows the tensors: it takes their dtype, unless that cannot hold its kind. Without
    a tensor there is nothing to follow.
    """
    if not signature.elementwise:
        return values
    given = {i: values[i].item() if isinstance(values[i], np.number) else values[i] for i, _ in signature.tensors}
    places = [(i, p) for i, p in signature.tensors if type(given[i]) in _NUMBERS and not p.written]
    tensors = [values[i] for i, _ in signature.tensors if isinstance(values[i], Tensor)]
    if not places or not tensors:
        return values
    common = promote(frozenset(tensor.dtype for tensor in tensors), to_float=False)
    result = list(values)
    for i, parameter in places:
        dtype = _dtype_of_number(parameter.tensor.dtypes, _NUMBERS[type(given[i])], common)
        result[i] = _scalar_tensor(signature.name, parameter, given[i], dtype, tensors[0].device)
    return result


_NUMBERS = {
    int: torch.int64, float: torch.float64, complex: torch.complex128, torch.SymInt: torch.int64,
    torch.SymFloat: torch.float64,
}  # fmt: skip
"""The types of numbers, a tracer's too, and the dtypes that hold them."""


def _dtype_of_number(dtypes: Dtypes, own: torch.dtype, common: torch.dtype) -> torch.dtype:
    if dtypes.exact is not None:
        return dtypes.exact
    followed = common if own is torch.int64 or is_inexact(common) else torch.float64
    if own.is_complex:
        followed = complex_twin(followed)
    return followed if dtypes.admits(followed) else own


def _scalar_tensor(
    operator: str, parameter: Parameter, number: Any, dtype: torch.dtype, device: torch.device
) -> Tensor:
    if not _holds(dtype, number):
        raise ArgumentError(
            f"is a number that {str(dtype).removeprefix('torch.')} does not hold",
            operator=operator,
            argument=parameter.shown,
            expected=str(parameter.tensor),
            got=repr(number),
            hint="pass a tensor, of another dtype if the operator takes one, or another number",
        )
    given = float(number) if type(number) is int and dtype.is_floating_point else number
    return torch.scalar_tensor(given, dtype=dtype, device=device)


def _holds(dtype: torch.dtype, number: Any) -> bool:
    """Tell whether a dtype holds a number of this kind and size; of a tracer's number the kind alone is known."""
    if dtype is torch.bool or (isinstance(number, complex) and not dtype.is_complex):
        return False
    if not is_inexact(dtype):
        known = torch.iinfo(dtype)
        return isinstance(number, torch.SymInt) or (type(number) is int and known.min <= number <= known.max)
    if isinstance(number, (torch.SymInt, torch.SymFloat)):
        return True
    largest = torch.finfo(dtype).max
    parts = (number.real, number.imag)
    return all((isinstance(part, float) and not math.isfinite(part)) or abs(part) <= largest for part in parts)


def check_ranges(signature: Signature, values: Sequence[Any]) -> None:
    """Refuse ints that a schema cannot pass; for calls that failed, as torch then does not say which it was."""
    for parameter, value in zip(signature.parameters, values, strict=True):
        if not parameter.is_tensor and value is not None:
            parameter.scalar.check_range(value, signature.name, parameter.shown)


def _convert(operator: str, parameter: Parameter, value: Any) -> Any:
    if value is None and parameter.optional:
        return None
    if not parameter.is_tensor:
        return parameter.scalar.convert(value, operator, parameter.shown)
    if not parameter.many:
        return _tensor(operator, parameter.shown, parameter, value)
    if isinstance(value, Tensor) or not isinstance(value, Sequence):
        raise _not_a_tensor(operator, parameter.shown, parameter, value)
    return [_tensor(operator, f"{parameter.shown}[{i}]", parameter, item) for i, item in enumerate(value)]


def _tensor(operator: str, name: str, parameter: Parameter, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise _not_a_tensor(operator, name, parameter, value)
    if value.layout is not torch.strided:
        raise UnsupportedError(
            f"is a tensor of layout {str(value.layout).removeprefix('torch.')}",
            operator=operator,
            argument=name,
            expected="a dense tensor",
            got=str(value.layout),
            hint="pass x.to_dense()",
        )
    return value


def _not_a_tensor(operator: str, name: str, parameter: Parameter, value: Any) -> ArgumentError:
    hint = None
    if isinstance(value, np.generic):
        hint = "pass torch.tensor(value.item())"
    elif type(value).__module__ == "numpy":
        hint = "pass torch.from_numpy(array)"
    elif isinstance(value, (bool, int, float, complex)) or _is_of_numbers(value):
        hint = "pass torch.tensor(value)"
    elif isinstance(value, (dict, tuple, list)):
        hint = "an operator takes flat arguments: pass each tensor of the pytree as an argument of its own"
    return ArgumentError(
        "is not a tensor" if not parameter.many else "is not a list of tensors",
        operator=operator,
        argument=name,
        expected=("a list of " if parameter.many and "[" not in name else "") + str(parameter.tensor),
        got=f"{type(value).__name__}" + (" (None)" if value is None else ""),
        hint=hint,
    )


def _is_of_numbers(value: Any) -> bool:
    """Return True for a list or tuple of numbers, or of such, to any depth."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(item, (int, float, complex)) or _is_of_numbers(item) for item in value)
    return False


def common_dtype(signature: Signature, values: Sequence[Any]) -> torch.dtype | None:
    """The dtype to which the inputs of a `Real` or `Num` operator are cast; None if nothing is to be cast."""
    dtypes = frozenset(
        leaf.dtype
        for i, parameter in signature.tensors
        if parameter.tensor.dtypes.promotes and values[i] is not None
        for leaf in (values[i] if parameter.many else [values[i]])
    )
    if not dtypes:
        return None
    to_float = any(output.type.dtypes.kind in ("Float", "Complex", "Inexact") for output in signature.outputs)
    common = promote(dtypes, to_float=to_float)
    return common if dtypes != {common} else None
