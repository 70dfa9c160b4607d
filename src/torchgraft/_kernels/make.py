"""The choice of the kind of kernel for a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._spec.signature import Signature
from .array_kernel import ArrayKernel
from .kernel import Kernel, TorchKernel

if TYPE_CHECKING:
    from .._build.source import Source


def make_kernel(
    signature: Signature, function: Callable[..., Any], *, numpy: bool, source: Source | None = None
) -> Kernel:
    """The kernel of a C function, of a function of arrays, or of tensors."""
    if source is not None:
        from .native_kernel import NativeKernel  # Programs without C need nothing of it.

        return NativeKernel(signature, function, source)
    return ArrayKernel(signature, function) if numpy else TorchKernel(signature, function)
