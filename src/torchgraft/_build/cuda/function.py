"""A function in C on CUDA tensors of one combination of dtypes: compiled when a call first needs it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from ...errors import BuildError
from ..library import ready_function
from ..prototype import Prototype
from ..shipped import find_on_cuda
from ..source import Source
from ..toolchain import check_head, other_head
from .description import describe
from .device import Device
from .launcher import loaded, registered
from .text import ENTRIES, emit, folders, trailing

_MISSING = re.compile(r"tg_missing (\d+) (\d+)")


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
        self._trailing = trailing(prototype)
        self._given = len(prototype.arguments) + len(self._trailing)
        self._images: list[bytes] = []
        self._kernel = describe(prototype, source, self._dtypes)
        self._address = ctypes.addressof(self._kernel)
        given, returned = prototype.schema(bare=True).removeprefix("(").split(")", 1)
        slots = ["int tg_kernel", *([given] if given else []), *(f"SymInt[]? {name}" for name in self._trailing)]
        schema = f"({', '.join(slots)}){returned}"
        self._function = registered(device, prototype.symbol, schema)

    def __call__(self, *values: Any) -> Any:
        """Call the function; what it needs and is not there yet is compiled.

        Raises:
            BuildError: NVRTC refused the source, or is not there.
            RuntimeError: the launch failed.
        """
        while True:
            try:
                return self._function(self._address, *values, *(None,) * (self._given - len(values)))
            except RuntimeError as error:
                found = _MISSING.search(str(error))
                if found is None:
                    raise
            self._compile(int(found[1]), int(found[2]))

    def ready(self, call: Callable[[], Any], *, in_place: bool) -> Callable[..., Any] | None:
        """Make the function for arguments that look like those of a call; see `Library.ready`."""
        launcher = loaded(self._device)
        method = "in_place" if in_place else "fresh"
        return ready_function(launcher, launcher.tg_prepared_size(self._address), call, method, owner=self)

    def _compile(self, number: int, entry: int) -> None:
        architecture = self._device.architecture(number)
        image = find_on_cuda(self._source, self._prototype, self._dtypes, ENTRIES[entry], architecture)
        if image is None:
            image = machine_code_of(
                self._source, self._prototype, self._dtypes, ENTRIES[entry], architecture, self._device
            )
        self._images.append(image)  # The driver reads it later.
        self._kernel.images[number][entry] = image


def machine_code_of(
    source: Source,
    prototype: Prototype,
    dtypes: Mapping[str, torch.dtype],
    entry: str,
    architecture: str,
    device: Device,
) -> bytes:
    """Compile one kernel of a function.

    Raises:
        BuildError: its head is not as annotated; NVRTC refused it, or is not there.
    """
    if not check_head(source, prototype, str) and prototype.users.ambiguous:
        raise other_head(source, prototype, "a head that cannot be read without a compiler")
    text = emit(prototype, dtypes, source, entry)
    try:
        return device.compiled(text, architecture, prototype.signature.name, flags(source))
    except BuildError as error:
        error.hint = error.hint or f"the prototype is {prototype.declaration()}"
        raise


def flags(source: Source) -> list[str]:
    """The options for NVRTC: folders for `#include`, definitions, and whether products and sums are fused."""
    own = [flag for flag in source.flags if flag.startswith(("-D", "-U"))]
    own += ["--fmad=false"] if "-ffp-contract=off" in source.flags else []
    return [*(f"-I{folder}" for folder in folders(source)), *own]


def summing(prototype: Prototype, function: Callable[..., Any]) -> Callable[..., Any]:
    """A rule whose results may be sums over samples: each sample has its own at first, and torch sums them."""
    cores = [0 if result.core is None else len(result.core.tokens) for result in prototype.results]
    of_arrays = [0 if array.core is None else len(array.core.tokens) for array in prototype.arrays]
    tensors = [i for i, _ in prototype.signature.tensors]

    def call(*values: Any) -> Any:
        *given, sizes, encoded = values
        shapes = list(_decoded(encoded))
        batches = [shape[: len(shape) - core] for shape, core in zip(shapes, cores, strict=True)]
        batches += [given[i].shape[: given[i].dim() - core] for i, core in zip(tensors, of_arrays, strict=True)
                    if given[i] is not None]  # fmt: skip
        batch = torch.broadcast_shapes(*batches)
        full = [(*batch, *shape[len(shape) - core :]) for shape, core in zip(shapes, cores, strict=True)]
        made = function(*given, sizes, [number for shape in full for number in (len(shape), *shape)])
        summed = [
            one if one.shape == shape else one.sum_to_size((1,) * (one.dim() - len(shape)) + shape).reshape(shape)
            for one, shape in zip([made] if len(cores) == 1 else made, shapes, strict=True)
        ]
        return summed[0] if len(cores) == 1 else tuple(summed)

    return call


def _decoded(encoded: list[int]) -> Iterator[tuple[int, ...]]:
    """The shapes in a list of numbers of axes, each followed by sizes."""
    at = 0
    while at < len(encoded):
        end = at + 1 + encoded[at]
        yield tuple(encoded[at + 1 : end])
        at = end
