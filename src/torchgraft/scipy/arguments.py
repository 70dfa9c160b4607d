"""Arguments of the functions: they are looked at, and brought to one dtype."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from ..errors import ArgumentError, DeviceError, DtypeError, UnsupportedError
from .errors import InvalidValueError


def check_tensors(operator: str, **arguments: object) -> None:
    """Refuse what is no tensor; SciPy takes arrays and lists, whose dtype and device would be a guess.

    Raises:
        ArgumentError: an argument is something else.
        UnsupportedError: it is sparse.
    """
    for name, value in arguments.items():
        if not isinstance(value, Tensor):
            raise ArgumentError(
                "is not a tensor", operator=operator, argument=name, expected="a tensor", got=type(value).__name__,
                hint=f"pass torch.as_tensor({name}), with the dtype that you mean",
            )  # fmt: skip
        if value.layout is not torch.strided:
            raise UnsupportedError(
                f"is a tensor of layout {str(value.layout).removeprefix('torch.')}", operator=operator, argument=name,
                expected="a dense tensor", got=value.layout, hint=f"pass {name}.to_dense()",
            )  # fmt: skip


def check_cpu(operator: str, name: str, tensor: Tensor) -> None:
    """Refuse a tensor on another device than that of SciPy.

    Raises:
        DeviceError: it is on one.
    """
    if tensor.device.type != "cpu":
        raise DeviceError(
            "is on another device than the CPU, and is not copied", operator=operator, argument=name,
            expected="a tensor on the CPU", got=tensor.device, hint=f"pass {name}.cpu()",
        )  # fmt: skip


def check_axis(operator: str, x: Tensor, axis: int) -> int:
    """The axis, counted from the first.

    Raises:
        InvalidValueError: there is none such.
    """
    if not hasattr(axis, "__index__") or not -x.dim() <= axis < x.dim():
        raise InvalidValueError(
            "there is no such axis", operator=operator, argument="axis",
            expected=f"between {-x.dim()} and {x.dim() - 1}" if x.dim() else "x with an axis at least", got=axis,
        )  # fmt: skip
    return axis % x.dim()


def inexact(operator: str, **tensors: Tensor) -> list[Tensor]:
    """The tensors in their common dtype.

    Raises:
        DtypeError: all are integers.
    """
    dtypes = [tensor.dtype for tensor in tensors.values()]
    if not any(dtype.is_floating_point or dtype.is_complex for dtype in dtypes):
        raise DtypeError(
            "filters no integers", operator=operator, argument=next(iter(tensors)),
            expected="a floating or complex dtype among the arguments", got=", ".join(map(str, dtypes)),
            hint="pass x.double()",
        )  # fmt: skip
    common = common_dtype(dtypes)
    return [tensor.to(common) for tensor in tensors.values()]


def common_dtype(dtypes: Sequence[torch.dtype]) -> torch.dtype:
    """The dtype to which NumPy promotes: beside floats, integers of 32 bits and more need double precision."""
    kinds = {dtype.is_floating_point or dtype.is_complex for dtype in dtypes}
    integers = [dtype for dtype in dtypes if not dtype.is_floating_point and not dtype.is_complex]
    wide = [torch.float64 for dtype in integers if kinds == {True, False} and dtype.itemsize >= 4]
    return functools.reduce(torch.promote_types, [*dtypes, *wide])


def known(condition: Any) -> bool:
    """Return True if a condition on sizes is known to hold: for a compiler's symbols, that it must."""
    if isinstance(condition, bool) and not torch.compiler.is_compiling():
        return condition
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # The import brings what compilers need.

    return statically_known_true(condition)


def has_numbers(tensor: Tensor) -> bool:
    """Return True if the values of a tensor can be looked at: in no compiler, and under no transform."""
    return not torch.compiler.is_compiling() and not _torch.functorch_active() and _torch.holds_numbers(tensor)
