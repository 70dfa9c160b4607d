"""The CUDA part of a library for programs without Python: the launcher, kernels described in C, and machine code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from ..c_arguments import Array
from ..prototype import Prototype
from ..source import Source
from .description import describe, in_c
from .device import Device
from .function import machine_code_of
from .launcher import limits, source_file
from .text import ENTRIES

_TEXT = """\
{limits}
#include "{launcher}"

static void tg_equip(tg_call *call, tg_value *stack);
static const bool tg_tensors[] = {{{tensors}}}; /* of the arguments */
{kernels}

{codes}

typedef struct {{
    tg_kernel *kernel;
    int entry, major, minor;
    const void *code;
}} tg_code;

static const tg_code tg_codes[] = {{ /* the earlier devices of a generation first */
{table}
}};

/* Finds the machine code for the device of a call, once: that of the latest device up to it, of its generation. */
static void tg_equip(tg_call *call, tg_value *stack) {{
    static bool loaded, equipped[TG_DEVICES];
    int32_t device = -1;
    int handle = 0, major = 0, minor = 0;
    bool found = false;
    const char *missing = loaded ? NULL : tg_load("{torch}", "{torch_cuda}", "{driver}");
    if (missing) tg_fail(call, "{operator}: there is no %s, which calls on CUDA need", missing);
    loaded = true;
    for (int i = 0; i < {arguments} && device < 0; i++)
        if (tg_tensors[i] && stack[i]) tg_cuda.aoti_torch_get_device_index((tg_handle)stack[i], &device);
    if (device < 0 || device >= TG_DEVICES || equipped[device]) return; /* the call itself says what is wrong */
    tg_cuda.cuDeviceGet(&handle, device);
    tg_cuda.cuDeviceGetAttribute(&major, 75 /* COMPUTE_CAPABILITY_MAJOR */, handle);
    tg_cuda.cuDeviceGetAttribute(&minor, 76 /* COMPUTE_CAPABILITY_MINOR */, handle);
    for (size_t i = 0; i < sizeof tg_codes / sizeof *tg_codes; i++) {{
        const tg_code *code = &tg_codes[i];
        if (code->major != major || code->minor > minor) continue;
        code->kernel->images[device][code->entry] = code->code;
        found = true;
    }}
    if (!found)
        tg_fail(call, "{operator}: the library is for {architectures}, the device is sm_%d%d", major, minor);
    equipped[device] = true;
}}
{entries}
"""

_ENTRY = """
static void tg_entry_{number}(tg_value *stack, uint64_t in, uint64_t out) {{
    (void)in, (void)out;
    tg_run(&tg_kernel_{number}, stack, stack);
}}
tg_boxed {symbol}(void);
tg_boxed {symbol}(void) {{ return tg_find_symbols("{torch}") ? NULL : tg_entry_{number}; }}"""


def part(
    source: Source,
    prototype: Prototype,
    variants: Mapping[str, Mapping[str, torch.dtype]],
    architectures: Sequence[str],
    device: Device,
    torch_library: str,
) -> str:
    """Make the text in C of the part.

    Args:
        prototype: of a function that sees an element.
        variants: dtypes of a kernel, by the name of the C function that gives its entry.
        architectures: as ``"sm_90"``.
        torch_library: torch's library for the CPU.

    Raises:
        BuildError: NVRTC refused the source, or is not there.
    """
    arguments = [argument for argument in prototype.arguments if argument.schema]
    codes: list[str] = []
    table = []
    for number, dtypes in enumerate(variants.values()):
        for architecture in sorted(architectures, key=_capability):
            for i, entry in enumerate(ENTRIES):
                name = f"tg_code_{len(codes)}"
                code = machine_code_of(source, prototype, dtypes, entry, architecture, device)
                codes.append(f"static const unsigned char {name}[] = {{{','.join(map(str, code))},0}};")
                major, minor = _capability(architecture)
                table.append(f"    {{&tg_kernel_{number}, {i}, {major}, {minor}, {name}}},")
    return _TEXT.format(
        limits="\n".join(f"#define TG_{name} {value}" for name, value in limits().items()),
        launcher=source_file(),
        kernels="\n".join(_kernels(source, prototype, variants)),
        codes="\n".join(codes),
        table="\n".join(table),
        operator=prototype.signature.name,
        arguments=len(arguments),
        tensors=", ".join(str(int(isinstance(argument, Array))) for argument in arguments),
        torch=torch_library,
        torch_cuda=Path(device.torch_library).name,
        driver=Path(device.driver).name,
        architectures=", ".join(architectures),
        entries="\n".join(
            _ENTRY.format(number=i, symbol=symbol, torch=torch_library) for i, symbol in enumerate(variants)
        ),
    )


def _kernels(source: Source, prototype: Prototype, variants: Mapping[str, Mapping[str, torch.dtype]]) -> Iterator[str]:
    for number, dtypes in enumerate(variants.values()):
        yield in_c(describe(prototype, source, dtypes), f"tg_kernel_{number}")


def _capability(architecture: str) -> tuple[int, int]:
    """Major and minor number of an architecture: 9 and 0 of ``"sm_90"``."""
    digits = architecture.removeprefix("sm_")
    return int(digits[:-1]), int(digits[-1])
