"""The launcher in C: built once for a machine, loaded once for a driver, and a function of it in the dispatcher."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ... import _torch
from ...errors import BuildError
from .. import cache
from ..inputs import Inputs
from ..library import SPACE, libtorch, space
from ..shipped import FOLDER
from ..toolchain import HEADER, SHIM, compiler
from .description import DEVICES
from .device import Device
from .text import AXES, FILLED, TENSORS, THREADS, WORDS

_SOURCE = Path(__file__).with_name("launcher.c")
_numbers = itertools.count()


def registered(device: Device, symbol: str, schema: str) -> Callable[..., Any]:
    """Register the launcher in torch's dispatcher under a new name.

    Args:
        schema: without a name; the first argument is an int, the address of a `Kernel`.

    Raises:
        BuildError: it cannot be built or loaded here.
    """
    library = loaded(device)
    name = f"{symbol}_cuda_{next(_numbers)}"
    space().define(name + schema)
    if library.tg_register(SPACE.encode(), name.encode(), device.key.encode()):
        raise BuildError("torch refused to register the kernel", operator=symbol)
    return _torch.bare_operator(getattr(getattr(torch.ops, SPACE), name).default)


@functools.cache
def loaded(device: Device) -> ctypes.CDLL:
    """Load the launcher for the driver of some devices.

    Raises:
        BuildError: it cannot be built or loaded here.
    """
    # Each driver has a copy of its own, since the library keeps the functions that it finds.
    library = ctypes.CDLL(str(_built(device.driver)))
    library.tg_load.restype = ctypes.c_char_p
    library.tg_has_ready_calls.restype = library.tg_is_ready.restype = ctypes.c_bool
    library.tg_prepared_size.restype, library.tg_prepared_size.argtypes = ctypes.c_int64, [ctypes.c_void_p]
    missing = library.tg_load(str(libtorch()).encode(), device.torch_library.encode(), device.driver.encode())
    if missing:
        raise BuildError(
            f"lacks {missing.decode()}, by which kernels on CUDA are launched",
            expected="a torch that is built for CUDA", got=f"torch {torch.__version__}", hint="see https://pytorch.org/get-started/locally",
        )  # fmt: skip
    return library


def _built(driver: str) -> Path:
    shipped = Path(__file__).parents[2] / FOLDER / shipped_name()
    if shipped.is_file():
        return shipped
    tools = compiler("c", "the launcher")
    key = cache.key_of(shipped_name(), tools.version, tools.program, driver)
    return cache.built(key, build).path


def build(made: Path) -> Inputs:
    """Compile the library that launches kernels on CUDA.

    Raises:
        BuildError: there is no compiler, or it refused.
    """
    file = made.with_suffix(".c")
    file.write_text(_SOURCE.read_text())
    compiler("c", "the launcher").build_own(file, made, _options())
    return Inputs()


def shipped_name() -> str:
    """The file name of the launcher in a wheel of torchgraft, which needs no compiler then."""
    limits = [option for option in _options() if option.startswith("-D")]
    return f"launcher-{cache.key_of(_SOURCE.read_text(), HEADER.read_text(), SHIM.read_text(), repr(limits))}.so"


def source_file() -> Path:
    """The source of the launcher."""
    return _SOURCE


def limits() -> dict[str, int]:
    """The sizes that its source takes as macros, without their ``TG_``."""
    sizes = {"AXES": AXES, "TENSORS": TENSORS, "WORDS": WORDS, "DEVICES": DEVICES}
    return sizes | {"THREADS": THREADS, "FILLED": FILLED}


def _options() -> list[str]:
    return [f"-I{HEADER.parent}", *(f"-DTG_{name}={value}" for name, value in limits().items())]
