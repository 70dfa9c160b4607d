"""What stands in for CUDA where there is none: the same text by g++, launched by the same launcher.

It proves indices, strides, broadcasting, the frame and its layout, roundings, streams and devices. It does not prove
CUDA's own functions, nor speed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchgraft._build import cache
from torchgraft._build.cuda import launcher
from torchgraft._build.cuda.device import Device, standing_in
from torchgraft._build.inputs import Inputs
from torchgraft._build.toolchain import INCLUDE

FOLDER = Path(__file__).with_name("emulated")
OWN = Path(launcher.__file__).with_name("include")
_CXX = ("g++", "-std=c++20", "-fPIC", "-w")
_GRID = """
static int64_t tg_count, tg_most;
extern "C" void tg_run_grid(const unsigned *size, const tg_frame *frame) {{
    gridDim = {{size[0], size[1], size[2]}};
    blockDim = {{size[3], size[4], size[5]}};
    const int64_t blocks = (int64_t)gridDim.x * gridDim.y * gridDim.z, threads = blockDim.x * blockDim.y * blockDim.z;
    for (int64_t i = 0; i < blocks * threads; i++) {{
        const unsigned b = (unsigned)(i / threads), t = (unsigned)(i % threads);
        blockIdx = {{b % gridDim.x, b / gridDim.x % gridDim.y, b / gridDim.x / gridDim.y}};
        threadIdx = {{t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y}};
        {entry}(*frame);
    }}
    tg_count += (int64_t)tg_written.size();
    for (auto &written : tg_written) tg_most = written.second > tg_most ? written.second : tg_most;
    tg_written.clear();
}}
extern "C" void tg_told(int64_t *count, int64_t *most) {{
    *count = tg_count;
    *most = tg_most;
    tg_count = tg_most = 0;
}}
"""


class State(ctypes.Structure):
    """What the driver keeps."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("launches", "loads", "device", "blocks", "threads", "n", "guards")),
        ("stream", ctypes.c_void_p), ("context", ctypes.c_void_p), ("device_of_tensors", ctypes.c_int),
        *((name, ctypes.c_int) for name in ("capturing", "refuses", "dry", "shared")), ("entry", ctypes.c_char * 16),
        ("on_host", ctypes.c_int),
        ("frame", ctypes.c_int64 * 64),
    )  # fmt: skip


@functools.cache
def _prepared(options: Sequence[str]) -> tempfile.TemporaryDirectory[str]:
    """A folder with the header of the device, compiled once: that takes g++ longer than most kernels."""
    folder = tempfile.TemporaryDirectory()
    compiled = Path(folder.name, "torchgraft", "device.h.gch")
    compiled.parent.mkdir()
    header = ("-x", "c++-header", str(FOLDER / "torchgraft" / "device.h"))
    subprocess.run([*_CXX, *options, *header, "-o", str(compiled)], check=True, capture_output=True)
    return folder


def _made(key: str, file: Path | None, text: str, *options: str) -> Path:
    def make(made: Path) -> Inputs:
        source, own = file or made.with_suffix(".cpp"), list(options)
        if file is None:
            source.write_text(text)
            own.insert(0, f"-I{_prepared(options).name}")
        command = [*_CXX, "-shared", *own, str(source), "-o", str(made), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
        return Inputs()

    return cache.built(key, make).path


@functools.cache
def driver() -> Path:
    """The library of the driver."""
    file = FOLDER / "driver.cpp"
    return _made(cache.key_of("stand-in driver", file.read_text()), file, "", "-O1")


@functools.cache
def state() -> State:
    """What the driver has seen; a test may change it."""
    return State.in_dll(ctypes.CDLL(str(driver())), "stand_in")


kernels: list[Path] = []
"""Libraries that were made for kernels in this process."""


def image(text: str, architecture: str, operator: str, flags: Sequence[str]) -> bytes:
    """Compile a text as it is, but for the header of the device; the path of the library is the image."""
    entry = text.rpartition("TG_ENTRY(")[2].partition(") ")[2].partition("(")[0]
    made = text + _GRID.format(entry=entry)
    headers = [(folder / "torchgraft" / name).read_text() for folder, name in ((FOLDER, "device.h"), (OWN, "halves.h"))]
    given = [flag for flag in flags if flag.startswith("-")]
    options = [f"-I{FOLDER}", f"-I{INCLUDE}", f"-idirafter{OWN}", "-O1", "-ffp-contract=off", *given]
    options = [option for option in options if not option.startswith("--")]
    # Each kernel of a test counts its own writes: equal texts of two operators are two libraries.
    path = _made(cache.key_of("emulated", made, *headers, repr(options), operator), None, made, *options)
    kernels.append(path)
    return str(path).encode()


@contextlib.contextmanager
def emulated() -> Iterator[State]:
    """Tensors on the CPU count as tensors on CUDA."""
    device = Device(str(driver()), str(driver()), "CPU", lambda tensor: tensor.is_cpu, lambda number: "sm_86", image)
    seen = state()
    ctypes.memset(ctypes.addressof(seen), 0, ctypes.sizeof(seen))
    with standing_in(device):
        yield seen


def writes() -> tuple[int, int]:
    """How many elements all launches since the last question have written, and how often at most one did one."""
    counts, mosts = [0], [0]
    for path in set(kernels):
        count, most = ctypes.c_int64(), ctypes.c_int64()
        ctypes.CDLL(str(path)).tg_told(ctypes.byref(count), ctypes.byref(most))
        counts.append(count.value)
        mosts.append(most.value)
    return sum(counts), max(mosts)
