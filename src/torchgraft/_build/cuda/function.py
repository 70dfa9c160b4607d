"""A function in C on CUDA tensors of one combination of dtypes: compiled when a call first needs it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from typing import Any

import torch

from ..c_arguments import CODES, Argument, Array, Number, SeedOfSample
from ..prototype import Prototype
from ..source import Source
from .device import Device
from .launcher import BOOLEAN, NUMBER, SEED, TENSOR, Kernel, Slot, registered
from .text import ENTRIES, emit, folders, words_of

_MISSING = re.compile(r"tg_missing (\d+) (\d+)")
_CODES = CODES | {torch.float16: 5, torch.bfloat16: 15}


class CudaFunction:
    """A kernel for each way in which tensors lie, behind one function of the dispatcher.

    Args:
        source: where the function is.
        prototype: what it takes.
        dtypes: of each tensor, outputs too, by name.
        device: what it runs on.
    """

    def __init__(self, source: Source, prototype: Prototype, dtypes: Mapping[str, torch.dtype], device: Device) -> None:
        self._source, self._prototype, self._dtypes, self._device = source, prototype, dict(dtypes), device
        self._trailing = len(prototype.trailing)
        self._images: list[bytes] = []
        arguments = [self._slot(argument) for argument in prototype.arguments]
        results = [Slot(r.name.encode(), TENSOR, 0, *self._element(r.name)) for r in prototype.results]
        tensors = [slot for slot in arguments if slot.kind in (TENSOR, SEED)]
        self._kernel = Kernel(
            prototype.signature.name.encode(), (Slot * len(arguments))(*arguments), (Slot * len(results))(*results),
            (ctypes.c_int32 * len(tensors))(*(slot.dtype for slot in tensors)), len(arguments), len(results),
            len(tensors) + len(results), sum(map(words_of, prototype.arguments)), self._trailing,
        )  # fmt: skip
        self._address = ctypes.addressof(self._kernel)
        separator = ", " if len(arguments) + self._trailing else ""
        schema = f"(int tg_kernel{separator}{prototype.schema().removeprefix('(')}"
        self._function = registered(device, prototype.symbol, schema)

    def __call__(self, *values: Any) -> Any:
        """Call the function; what it needs and is not there yet is compiled.

        Raises:
            BuildError: NVRTC refused the source, or is not there.
            RuntimeError: the launch failed.
        """
        missing = len(self._prototype.arguments) + self._trailing - len(values)
        while True:
            try:
                return self._function(self._address, *values, *(None,) * missing)
            except RuntimeError as error:
                found = _MISSING.search(str(error))
                if found is None:
                    raise
            self._compile(int(found[1]), int(found[2]))

    def _compile(self, number: int, entry: int) -> None:
        text = emit(self._prototype, self._dtypes, self._source, ENTRIES[entry])
        image = self._device.compiled(text, number, self._prototype.signature.name, flags(self._source))
        self._images.append(image)  # The driver reads it later.
        self._kernel.images[number][entry] = image

    def _slot(self, argument: Argument) -> Slot:
        name = argument.name.encode()
        if isinstance(argument, Array):
            return Slot(name, SEED if isinstance(argument, SeedOfSample) else TENSOR, 0, *self._element(argument.name))
        assert isinstance(argument, Number)
        return Slot(name, BOOLEAN if argument.scalar.type is bool else NUMBER, argument.optional, 0, 8)

    def _element(self, name: str) -> tuple[int, int]:
        dtype = self._dtypes[name]
        return _CODES[dtype], dtype.itemsize


def flags(source: Source) -> list[str]:
    """The options for NVRTC: folders for `#include`, definitions, and whether products and sums are fused."""
    own = [flag for flag in source.flags if flag.startswith(("-D", "-U"))]
    own += ["--fmad=false"] if "-ffp-contract=off" in source.flags else []
    return [*(f"-I{folder}" for folder in folders(source)), *own]
