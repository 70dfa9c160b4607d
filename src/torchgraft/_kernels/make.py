"""The choice of the kind of kernel for a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._build.source import Source
from .._spec.signature import Signature
from .array_kernel import ArrayKernel
from .kernel import Kernel, TorchKernel
from .native_kernel import NativeKernel


def make_kernel(
    signature: Signature, function: Callable[..., Any], *, numpy: bool, source: Source | None = None
) -> Kernel:
    """The kernel of a C function, of a function of arrays, or of tensors."""
    if source is not None:
        return NativeKernel(signature, function, source)
    return ArrayKernel(signature, function) if numpy else TorchKernel(signature, function)
