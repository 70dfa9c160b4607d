"""The devices that kernels run on: those of CUDA, or what stands in for them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .. import cache
from ..inputs import Inputs
from ..toolchain import INCLUDE
from . import nvrtc

_OWN = Path(__file__).with_name("include")


@dataclass(frozen=True)
class Device:
    """The driver of some devices, and how machine code is made for them.

    Attributes:
        driver: the library of the driver.
        torch_library: torch's library that knows the current stream.
        key: the dispatch key of their tensors.
        serves: whether a tensor is on one of them.
        compiled: makes machine code of a text, for the device with a number: text, number, operator, flags.
    """

    driver: str
    torch_library: str
    key: str
    serves: Callable[[Tensor], bool]
    compiled: Callable[[str, int, str, Sequence[str]], bytes]


@functools.cache
def headers() -> dict[str, str]:
    """Texts of the headers that a source finds, by the names that it includes them by."""
    found = {str(path.relative_to(_OWN)): path.read_text() for path in sorted(_OWN.rglob("*.h"))}
    return found | {str(path.relative_to(INCLUDE)): path.read_text() for path in sorted(INCLUDE.rglob("*.h"))}


def machine_code(text: str, architecture: str, operator: str, flags: Sequence[str] = ()) -> bytes:
    """Compile a text for an architecture, such as ``"90"``, or take what was compiled before.

    Raises:
        BuildError: NVRTC refused it, or is not there.
    """
    key = cache.key_of(text, repr(sorted(headers().items())), architecture, nvrtc.version(), repr(list(flags)))

    def make(made: Path) -> Inputs:
        made.write_bytes(nvrtc.compiled(text, architecture, headers(), operator, flags))
        return Inputs()

    return cache.built(key, make, ".cubin").path.read_bytes()


def _for_device(text: str, number: int, operator: str, flags: Sequence[str]) -> bytes:
    major, minor = torch.cuda.get_device_capability(number)
    return machine_code(text, f"{major}{minor}", operator, flags)


def _is_on_cuda(tensor: Tensor) -> bool:
    return tensor.is_cuda


CUDA = Device(
    "libcuda.so.1", str(Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"), "CUDA", _is_on_cuda, _for_device
)
_current: list[Device] = [CUDA]


def current() -> Device:
    """The devices that kernels run on."""
    return _current[-1]


@contextlib.contextmanager
def standing_in(device: Device) -> Iterator[None]:
    """Run kernels on something else: a driver that runs them without a device. For tests."""
    _current.append(device)
    try:
        yield
    finally:
        _current.pop()
