"""Between tensors and NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._spec.dtypes import HALVES, name_of
from ..errors import DeviceError, KernelError, TorchgraftError

Array = np.ndarray[Any, Any]


def array_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which NumPy sees `dtype`: float16 and bfloat16 are computed in float32."""
    if dtype is torch.complex32:
        return torch.complex64
    return torch.float32 if dtype in HALVES else dtype


def to_array(tensor: Tensor, operator: str, argument: str, *, writable: bool = False) -> Array:
    """A read-only array that shares memory with `tensor` (half precision excepted).

    Args:
        writable: the array may be written.

    Raises:
        DeviceError: the tensor is not in the CPU's memory.
    """
    if not tensor.is_cpu:
        name, device = operator.partition(".")[0], tensor.device.type
        raise DeviceError(
            f"is on {tensor.device}, for which there is no kernel",
            operator=operator,
            argument=argument,
            expected="cpu",
            got=str(tensor.device),
            hint=f"pass {argument}.cpu(), or add a kernel: @{name}.kernel('{device}')",
        )
    base = tensor._base
    # `Tensor.numpy` marks memory as fixed for ever, and FSDP resizes that of Parameters, of which a rank's part of a
    # DTensor may be one without its type. DLPack costs 1.5 us more.
    resized = isinstance(tensor if base is None else base, torch.nn.Parameter) or _among_processes()
    tensor = tensor.detach().resolve_conj().resolve_neg()
    dtype = array_dtype(tensor.dtype)
    if dtype is not tensor.dtype:
        tensor = tensor.to(dtype)
    array: Array = np.from_dlpack(tensor) if resized else tensor.numpy()
    if not writable:
        array.setflags(write=False)
    return array


def _among_processes() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def masked(operator: str, output: str, error: type[TorchgraftError]) -> TorchgraftError:
    """Make the error for a masked array."""
    return error(
        "returned a masked array, whose mask would be lost", operator=operator, argument=output,
        expected="np.ndarray", got="MaskedArray", hint="return array.filled(value)",
    )  # fmt: skip


def to_tensor(
    value: Any, operator: str, output: str, dtype: torch.dtype | None, error: type[TorchgraftError] = KernelError
) -> Tensor:
    """Convert the result of a NumPy kernel to a tensor that owns its memory's layout.

    Args:
        dtype: the dtype that the output shall have; half precision is rounded to it, and a Python number, which
            has no dtype of its own, takes it. Anything else keeps what it has, to be compared by the caller.
    """
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        if dtype is not None and not holds(_kind(dtype), value):
            raise error(
                f"returned {value!r} for {name_of(dtype)}", operator=operator, argument=output,
                expected=name_of(dtype), got=type(value).__name__,
            )  # fmt: skip
        return torch.tensor(value, dtype=dtype)
    if isinstance(value, Tensor):
        raise error(
            "returned a tensor where its annotations say np.ndarray", operator=operator, argument=output,
            expected="np.ndarray", got="Tensor", hint="return tensor.numpy(), or annotate with Tensor",
        )  # fmt: skip
    if not isinstance(value, (np.ndarray, np.generic)):
        hints = {type(None): "return the array", list: "return np.asarray(...)"}
        raise error(
            f"returned {type(value).__name__}", operator=operator, argument=output, expected="np.ndarray",
            got=type(value).__name__, hint=hints.get(type(value)),
        )  # fmt: skip
    if isinstance(value, np.ma.MaskedArray):
        raise masked(operator, output, error)
    array = np.asarray(value)
    # An axis of one element counts as contiguous with any stride.
    backwards = any(stride < 0 for stride in array.strides)
    if backwards or not array.flags.c_contiguous or not array.flags.writeable or not array.dtype.isnative:
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    try:
        tensor = torch.from_numpy(array)
    except TypeError:
        raise error(
            f"returned an array of dtype {array.dtype}, which torch does not have",
            operator=operator,
            argument=output,
            expected=name_of(dtype) if dtype is not None else "a torch dtype",
            got=str(array.dtype),
        ) from None
    if dtype is not None and dtype is not tensor.dtype and array_dtype(dtype) is tensor.dtype:
        return tensor.to(dtype)
    return tensor


def holds(kind: str, value: Any) -> bool:
    """Return True if a dtype of NumPy's `kind` holds a Python number without cutting off a part of it."""
    accepted: dict[str, tuple[type, ...]] = {
        "b": (bool,), "i": (bool, int), "u": (bool, int), "f": (bool, int, float), "c": (bool, int, float, complex),
    }  # fmt: skip
    return isinstance(value, accepted.get(kind, ()))


def _kind(dtype: torch.dtype) -> str:
    if dtype is torch.bool:
        return "b"
    return "c" if dtype.is_complex else ("f" if dtype.is_floating_point else "i")
