"""NVRTC, NVIDIA's compiler of CUDA text, by ctypes: it needs neither a toolkit nor a device."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import BuildError

_WHEEL = "pip install nvidia-cuda-nvrtc"
_WHERE = ("nvidia/*/lib/libnvrtc.so.1?", "nvidia/*/lib/libnvrtc.so.1?.*")
_FLOW = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_CANCELLED = 16
_FRAME = re.compile(r"\b[1-9]\d* bytes stack frame")
_SIZE = "bytes cumulative stack size"
"""Words of the assembler's log: the stack of one function, and that of all together. The second is missing where
functions call one another in a circle, as no size is enough then."""
_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")


@functools.cache
def _library() -> ctypes.CDLL | None:
    """NVRTC of torch's own CUDA packages, which lie beside it; else what the system finds."""
    found = [path for folder in sys.path for pattern in _WHERE for path in sorted(Path(folder or ".").glob(pattern))]
    for name in (*map(str, found), *_NAMES):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return library
    return None


def is_there() -> bool:
    """Tell whether NVRTC can be loaded."""
    return _library() is not None


def version() -> tuple[int, int]:
    """The version of NVRTC.

    Raises:
        BuildError: it is not there.
    """
    major, minor = ctypes.c_int(), ctypes.c_int()
    _loaded("").nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def less_inlining() -> str:
    """The option for sources that take long; the code is slower. It came with 12.8, whose only value is `max`."""
    return f"--Ofast-compile={'mid' if version() >= (12, 9) else 'max'}"


def _loaded(operator: str) -> ctypes.CDLL:
    library = _library()
    if library is None:
        raise BuildError(
            "NVRTC, which compiles for CUDA, cannot be loaded", operator=operator or None,
            expected="libnvrtc, which a torch that is built for CUDA brings along", got="none", hint=_WHEEL,
        )  # fmt: skip
    return library


class TooLong(Exception):
    """NVRTC was stopped, for it took too long."""


def compiled(
    text: str, architecture: str, headers: Mapping[str, str], operator: str, flags: Sequence[str], seconds: float
) -> bytes:
    """Compile a text into machine code.

    Args:
        text: in CUDA C++; functions that say nothing else are for the device.
        architecture: of the device, as ``"sm_90"``; ``"compute_90"`` asks for PTX, which people can read.
        headers: texts of headers by the names that `#include` has.
        operator: for messages.
        flags: for NVRTC, after ours.
        seconds: after which NVRTC is stopped; version 12.8 and later can be.

    Raises:
        BuildError: NVRTC refused it, with its own message; its stack has no size; or NVRTC is not there.
        TooLong: it was stopped.
    """
    library, program = _loaded(operator), ctypes.c_void_p()
    names, texts = ((ctypes.c_char_p * len(headers))(*(v.encode() for v in values))
                    for values in (headers, headers.values()))  # fmt: skip
    encoded = text.encode("utf-8", "surrogateescape")
    failed = library.nvrtcCreateProgram(ctypes.byref(program), encoded, b"kernel.cu", len(headers), texts, names)
    if failed:
        raise _refused(library, failed, "", operator)
    try:
        options = [f"--gpu-architecture={architecture}", "-default-device", "-std=c++20", "-w", "-Xptxas=-v", *flags]
        passed = (ctypes.c_char_p * len(options))(*map(str.encode, options))
        end = time.monotonic() + seconds
        is_over = _FLOW(lambda *_: int(time.monotonic() > end))  # It lives as long as the compilation.
        if hasattr(library, "nvrtcSetFlowCallback"):
            library.nvrtcSetFlowCallback(program, is_over, None)
        failed = library.nvrtcCompileProgram(program, len(options), passed)
        if failed == _CANCELLED:
            raise TooLong
        if failed:
            raise _refused(library, failed, _log(library, program), operator)
        log = _log(library, program)
        if _FRAME.search(log) and _SIZE not in log:
            raise BuildError(
                "calls functions to a depth that the compiler does not know, and the stack of a GPU's threads is small",
                operator=operator, expected="no function that calls itself, or another one that calls it",
                got="one that does", hint="write a loop; or pass tensors on the CPU",
            )  # fmt: skip
        return _read(library, program, "PTX" if architecture.startswith("compute") else "CUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _log(library: ctypes.CDLL, program: ctypes.c_void_p) -> str:
    return _read(library, program, "ProgramLog").decode(errors="replace")


def _read(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    memory = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, memory)
    return memory.raw[: size.value]


def _refused(library: ctypes.CDLL, status: int, log: str, operator: str) -> BuildError:
    return BuildError(
        "NVRTC refused the source", operator=operator, expected="C that is C++ as well, or CUDA",
        got=log.strip("\0\n ") or library.nvrtcGetErrorString(status).decode(),
    )  # fmt: skip
