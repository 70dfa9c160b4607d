"""Arguments of functions on arrays, read as SciPy reads them; what would be guesswork is refused."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

import torchgraft as tg

from ..arguments import check_cpu

DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
)  # fmt: skip


def real_tensor(operator: str, name: str, value: Any) -> Tensor:
    """`value`, which is a real tensor on the CPU, or several of one shape, which are stacked.

    Raises:
        ArgumentError: it is something else.
        DtypeError: it is complex or boolean.
        DeviceError: it is on another device.
        ShapeError: they are of several shapes.
    """
    if isinstance(value, Sequence) and value and all(isinstance(item, Tensor) for item in value):
        if any(item.shape != value[0].shape for item in value):
            raise tg.ShapeError(
                "are tensors of several shapes", operator=operator, argument=name, expected="one shape",
                got=[tuple(item.shape) for item in value],
            )  # fmt: skip
        value = torch.stack(list(value))
    if not isinstance(value, Tensor):
        raise tg.ArgumentError(
            "is no tensor", operator=operator, argument=name, expected="a tensor, or one for each axis",
            got=type(value).__name__, hint="pass torch.as_tensor(...) of it",
        )  # fmt: skip
    if value.dtype not in DTYPES:
        raise tg.DtypeError(
            "has a dtype that is not supported", operator=operator, argument=name,
            expected="floating or integer", got=value.dtype, hint="map the real and the imaginary part for themselves",
        )  # fmt: skip
    check_cpu(operator, name, value)
    return value


def real_number(operator: str, name: str, value: Any) -> float:
    """`value`, which is a number: a tensor would lose its gradient.

    Raises:
        ArgumentError: it is something else.
    """
    if not isinstance(value, Real):
        raise tg.ArgumentError(
            "is no real number", operator=operator, argument=name, expected="a Python or NumPy number",
            got=type(value).__name__,
        )  # fmt: skip
    return float(value)


def output_dtype(operator: str, input: Tensor, output: Any) -> torch.dtype:
    """The dtype of a result: that of the input, or `output`, as NumPy or torch writes dtypes.

    Raises:
        ArgumentError: `output` is an array to write into.
        DtypeError: it is another dtype than a real one.
    """
    if output is None:
        return input.dtype
    if isinstance(output, (Tensor, np.ndarray)):
        raise tg.ArgumentError(
            "an output to write into is not supported", operator=operator, argument="output",
            expected="None or a dtype", got=f"a {type(output).__name__}", hint="use what is returned",
        )  # fmt: skip
    try:
        dtype = output if isinstance(output, torch.dtype) else torch.from_numpy(np.empty(0, output)).dtype
    except (TypeError, ValueError) as error:
        raise tg.ArgumentError(
            "is no dtype", operator=operator, argument="output", expected="None or a dtype", got=repr(output)
        ) from error
    if dtype not in DTYPES:
        raise tg.DtypeError(
            "a result cannot have this dtype", operator=operator, argument="output",
            expected="floating or integer", got=dtype,
        )  # fmt: skip
    return dtype


def rounded(values: Tensor, dtype: torch.dtype) -> Tensor:
    """`values` in another dtype; as integers to the nearest, halves away from zero, within the dtype's range."""
    if dtype.is_floating_point:
        return values.to(dtype)
    limits = torch.iinfo(dtype)
    whole = torch.trunc(values + torch.copysign(torch.full_like(values, 0.5), values))
    return whole.clamp(limits.min, limits.max).to(dtype)


def unsupported_mode(operator: str, mode: object, modes: str) -> tg.UnsupportedError:
    """The error for an extension that SciPy does not have."""
    return tg.UnsupportedError(
        "boundary mode not supported", operator=operator, argument="mode", expected=modes, got=repr(mode)
    )
