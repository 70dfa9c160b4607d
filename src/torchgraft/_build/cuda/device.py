"""The devices that kernels run on: those of CUDA, or what stands in for them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...errors import BuildError
from .. import cache
from ..inputs import Inputs
from . import nvrtc
from .headers import headers, included

QUICK, PATIENT = 1.5, 60.0
"""Seconds for NVRTC: with all that it does by itself, and then with less inlining.

Most sources take 0.1 s. A few, whose functions call many others, take half a minute, and 2 s with less inlining.
"""


@dataclass(frozen=True)
class Device:
    """The driver of some devices, and how machine code is made for them.

    Attributes:
        driver: the library of the driver.
        torch_library: torch's library that knows the current stream.
        key: the dispatch key of their tensors.
        serves: whether a tensor is on one of them.
        architecture: that of the device with a number, as ``"sm_90"``.
        compiled: makes machine code of a text: text, architecture, operator, flags.
    """

    driver: str
    torch_library: str
    key: str
    serves: Callable[[Tensor], bool]
    architecture: Callable[[int], str]
    compiled: Callable[[str, str, str, Sequence[str]], bytes]


def architectures(capabilities: object) -> tuple[str, ...]:
    """The architectures of compute capabilities: ``("sm_90",)`` of ``["90"]``.

    Raises:
        BuildError: it is no list of them.
    """
    given = capabilities if isinstance(capabilities, (list, tuple)) else [None]
    if not all(isinstance(one, str) and len(one) > 1 and one.isdigit() for one in given):
        raise BuildError(
            "asks for GPUs in another way than by compute capabilities", argument="cuda",
            expected='a list of capabilities without a point, as ["80", "90"]', got=repr(capabilities),
        )  # fmt: skip
    return tuple(f"sm_{one}" for one in given)


def machine_code(text: str, architecture: str, operator: str, flags: Sequence[str] = ()) -> bytes:
    """Compile a text for an architecture, such as ``"sm_90"``, or take what was compiled before.

    Raises:
        BuildError: NVRTC refused it, or is not there.
    """
    read = included(text, [flag[2:] for flag in flags if flag.startswith("-I")])
    key = cache.key_of(text, repr([*headers().items(), *read.items()]), architecture, repr((nvrtc.version(), *flags)))

    def make(made: Path) -> Inputs:
        made.write_bytes(_compiled(text, architecture, operator, flags))
        return Inputs()

    return cache.built(key, make, ".cubin").path.read_bytes()


def _compiled(text: str, architecture: str, operator: str, flags: Sequence[str]) -> bytes:
    """Compile a text; a source that would take long, for its functions are copied into one another, in another way."""
    try:
        return nvrtc.compiled(text, architecture, headers(), operator, flags, QUICK)
    except nvrtc.TooLong:
        pass
    try:
        return nvrtc.compiled(text, architecture, headers(), operator, [*flags, nvrtc.less_inlining()], PATIENT)
    except nvrtc.TooLong:
        raise BuildError(
            "takes too long to compile for CUDA", operator=operator, expected=f"{PATIENT:g} s", got="more",
            hint="write it with fewer branches and calls, as NVRTC copies functions into their callers; or give "
            f'@{operator}.kernel("cuda") a kernel of its own; or pass tensors on the CPU',
        ) from None  # fmt: skip


def _architecture(number: int) -> str:
    major, minor = torch.cuda.get_device_capability(number)
    return f"sm_{major}{minor}"


def _is_on_cuda(tensor: Tensor) -> bool:
    return tensor.is_cuda


CUDA = Device(
    "libcuda.so.1", str(Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"), "CUDA", _is_on_cuda, _architecture,
    machine_code,
)  # fmt: skip
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
