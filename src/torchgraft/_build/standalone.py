"""A library that makes an operator known to libtorch by being loaded, for programs without Python.

Each combination of dtypes is compiled by itself, as for Python, and its names are made its own, so that nothing of one
is taken for another's; a dispatching function looks at the dtypes of a call's tensors.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from .._spec.dtypes import HALVES, name_of
from ..errors import BuildError, UnsupportedError
from .c_arguments import Array, Arrays
from .combinations import combinations, combinations_on_cuda
from .cuda import standalone as cuda
from .cuda.description import TYPE_CODES
from .cuda.device import current
from .library import build, source_of, write_source
from .native_function import NativeFunction
from .prototype import Prototype, Results
from .source import Source
from .toolchain import HEADER, compiler, processor_level, see_again

_VARIANT = """
#ifdef __cplusplus
extern "C"
#endif
tg_boxed tg_variant_{number}(void); /* hidden: of the library alone */
tg_boxed tg_variant_{number}(void) {{ return tg_find_symbols("{torch}") ? NULL : tg_entry; }}
"""

_DISPATCH = """\
#include "{header}"
#include <stdio.h>
#ifdef __cplusplus
#define TG_OTHER extern "C"
#else
#define TG_OTHER extern
#endif
{declarations}

typedef struct {{
    tg_boxed (*find)(void), entry;
    int32_t dtypes[{tensors}]; /* -1 for a tensor that is not there */
}} tg_variant;

typedef struct {{
    const char *key; /* of torch's dispatcher */
    tg_boxed dispatch;
    tg_variant *variants;
    int count;
}} tg_device;

static TG_UNUSED int32_t tg_dtype(tg_value handle) {{
    int32_t found = -1;
    tg_torch.aoti_torch_get_dtype((tg_handle)handle, &found);
    return found;
}}

static TG_UNUSED int32_t tg_dtype_if_any(tg_value slot) {{ return slot ? tg_dtype(*(tg_value *)slot) : -1; }}

static TG_UNUSED int32_t tg_dtype_of_first(tg_value slot) {{
    size_t size = 0;
    tg_value item = 0;
    if (tg_torch.torch_list_size((tg_handle)slot, &size) || !size) return -1;
    if (tg_torch.torch_list_get_item((tg_handle)slot, 0, &item)) return -1;
    return tg_dtype(item); /* which stays the list's */
}}

static void tg_dispatch(const tg_variant *variants, int count, tg_value *tg_stack, uint64_t tg_in, uint64_t tg_out) {{
    const int32_t found[] = {{{found}}};
    const tg_variant *close = NULL;
    int most = -1;
    for (const tg_variant *variant = variants; variant < variants + count; variant++) {{
        int fit = 0;
        bool like = true; /* the same tensors are there */
        for (int i = 0; i < {tensors}; i++) {{
            like &= (found[i] < 0) == (variant->dtypes[i] < 0);
            fit += found[i] == variant->dtypes[i];
        }}
        if (like && fit > most) close = variant, most = fit;
    }}
    if (close) /* if not all fit, it says which does not */
        close->entry(tg_stack, tg_in, tg_out);
    else
        tg_torch.aoti_torch_check(false, "{operator}", "torchgraft", 0, "{operator}: got no tensor at all");
}}
{tables}
static tg_device tg_devices[] = {{{devices}}};
static const int tg_device_count = sizeof tg_devices / sizeof *tg_devices;

static char tg_problem[TG_TEXT];

__attribute__((constructor)) static void tg_start_up(void) {{
    static const char *const names[] = {{{names}}}, *const schemas[] = {{{schemas}}};
    const char *missing = tg_find_symbols("{torch}");
    if (missing) snprintf(tg_problem, TG_TEXT, "there is no %s, which torch 2.11 or newer has loaded", missing);
    for (int d = 0; d < tg_device_count && !*tg_problem; d++)
        for (int i = 0; i < tg_devices[d].count; i++)
            tg_devices[d].variants[i].entry = tg_devices[d].variants[i].find();
    for (int i = 0; i < 2 && !*tg_problem; i++) {{
        int32_t failed = tg_define("{space}", schemas[i], "{title}");
        for (int d = 0; d < tg_device_count && !failed; d++)
            failed = tg_implement("{space}", names[i], tg_devices[d].key, tg_devices[d].dispatch, "{title}");
        if (failed) snprintf(tg_problem, TG_TEXT, "torch does not take {space}::%s; is it defined already?", names[i]);
    }}
    if (*tg_problem) fprintf(stderr, "torchgraft: {operator}: %s\\n", tg_problem);
}}

/* Why the operator is not there; NULL if it is. */
TG_EXPORT const char *torchgraft_problem(void) {{ return *tg_problem ? tg_problem : NULL; }}
"""

_TABLE = """
static tg_variant tg_on_{device}[] = {{
{variants}
}};
static void tg_dispatch_{device}(tg_value *stack, uint64_t in, uint64_t out) {{
    tg_dispatch(tg_on_{device}, {count}, stack, in, out);
}}
"""


@dataclass(frozen=True)
class _Part:
    """Functions of a library for one kind of devices.

    Attributes:
        key: of torch's dispatcher.
        name: of the devices.
        variants: dtypes of a function, by the name of the C function that gives its entry.
        files: with those functions.
    """

    key: str
    name: str
    variants: Mapping[str, Mapping[str, torch.dtype]]
    files: Sequence[Path]


def save(
    path: Path,
    names: tuple[str, str],
    schema: str,
    native: NativeFunction,
    dtypes: Sequence[torch.dtype],
    on_cuda: NativeFunction,
    architectures: Sequence[str] = (),
) -> None:
    """Write a library that needs no Python.

    Args:
        path: where.
        names: under which programs call the operator, with their namespace.
        schema: of the operator, without a name.
        native: the function for the CPU.
        on_cuda: that for CUDA.
        architectures: of GPUs that it serves too, as ``"sm_90"``.

    Raises:
        UnsupportedError: Python has a part in calls of the operator.
        BuildError: a compiler refused it, or there is none.
    """
    source, prototype = native.source, native.prototype
    on_cpu = [dtype for dtype in dtypes if dtype not in HALVES] if architectures else dtypes
    _check(source, prototype, on_cpu)
    with tempfile.TemporaryDirectory() as scratch:
        steps = _Steps(source, prototype, Path(scratch))
        parts = [steps.on_cpu(prototype, on_cpu)]
        if architectures:
            _check_on_cuda(on_cuda)
            parts.append(steps.on_cuda(on_cuda, dtypes, architectures))
        parts = [part for part in parts if part.variants]
        if not parts:
            raise _nothing(prototype, dtypes)
        text = _dispatch(names, schema, prototype, parts)
        shutil.move(steps.library(text, [file for part in parts for file in part.files]), path)


class _Steps:
    """The steps of the compiler and its tools.

    Args:
        prototype: of the function.
        folder: for what is made.
    """

    def __init__(self, source: Source, prototype: Prototype, folder: Path) -> None:
        self.operator = prototype.signature.name
        tools = compiler(source.language, self.operator)
        self.folder = folder
        self.source = source
        self.shim = str(tools.shim(source.language, processor_level()))
        self.whole = tools.arguments(source, processor_level(), prototype)
        self.objects = [argument for argument in self.whole if argument not in ("-shared", "-Wl,-z,defs")]
        self.libraries = ["-ldl", "-lm", *(f"-l{name}" for name in source.libraries)]

    def on_cpu(self, prototype: Prototype, dtypes: Sequence[torch.dtype]) -> _Part:
        """The functions for the CPU, each compiled by itself."""
        variants, files = {}, []
        for number, combination in enumerate(combinations(prototype, dtypes)):
            build(self.source, prototype, combination)  # It says what is wrong with the source.
            text = source_of(self.source, prototype, combination) + _VARIANT.format(number=number, torch=_TORCH)
            symbol = f"tg_variant_{number}"
            made = self.folder / f"{symbol}.o"
            files.append(self._part(write_source(made, self.source, text), self.objects, self.shim, [symbol]))
            variants[symbol] = combination
        return _Part("CPU", "cpu", variants, files)

    def on_cuda(self, native: NativeFunction, dtypes: Sequence[torch.dtype], architectures: Sequence[str]) -> _Part:
        """The kernels for CUDA, and what launches them."""
        device, tools = current(), compiler("c", self.operator)
        source, prototype = native.source, native.prototype
        variants = {f"tg_cuda_{i}": c for i, c in enumerate(combinations_on_cuda(prototype, source, dtypes))}
        file = self.folder / "cuda.c"
        file.write_text(cuda.part(source, prototype, variants, architectures, device, _TORCH))
        objects = [*tools.own_arguments(), f"-I{HEADER.parent}"]
        made = self._part(file, objects, str(tools.shim("c", None)), list(variants))
        return _Part(device.key, "cuda", variants, [made])

    def _part(self, file: Path, objects: Sequence[str], shim: str, symbols: Sequence[str]) -> Path:
        """An object file that shows some names, and keeps every other one to itself, templates' too."""
        made = file.with_suffix(".o")
        partly = ("-r", "-nostdlib", "-Wl,--force-group-allocation")
        self._run(*objects, *partly, str(file), shim, "-o", str(made))
        self._run("objcopy", *(f"--keep-global-symbol={symbol}" for symbol in symbols), str(made))
        return made

    def library(self, text: str, parts: Sequence[Path]) -> Path:
        """The library of a source and parts."""
        made = self.folder / "library.so"
        file = write_source(made, self.source, text)
        link = [argument for argument in self.whole if argument not in _FAST]
        self._run(*link, str(file), self.shim, *map(str, parts), "-o", str(made), *self.libraries)
        return made

    def _run(self, *command: str) -> None:
        if not shutil.which(command[0]):
            raise BuildError(
                f"there is no {command[0]}", operator=self.operator, expected="a compiler with its binutils", got="none"
            )
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if result.returncode:
            again = see_again(command, self.folder)
            raise BuildError(f"{command[0]} failed", operator=self.operator, got=result.stderr.strip(), hint=again)


_TORCH = "libtorch_cpu.so"

_FAST = {"-ffast-math", "-Ofast", "-funsafe-math-optimizations"}
"""When they link, GCC before version 13 adds code that flushes denormals to zero in the program that loads."""


def _check(source: Source, prototype: Prototype, dtypes: Sequence[torch.dtype]) -> None:
    """Refuse what Python does around the C function."""
    if source.imports:
        raise _needs_python(prototype, source.imports[0][0], "lends the function", "functions of C libraries")
    if set(dtypes) & HALVES:
        raise _needs_python(prototype, "dtypes", "rounds halves", "float32, float64 and the like")
    if prototype.trailing:
        told = next((r for r in prototype.results if r.core is None or isinstance(r, Results)), None)
        if told is None:
            array = next(array for array in prototype.arrays if array.core is None)
            raise _needs_python(prototype, array.name, "tells the sizes of its axes", "axes without a run")
        if isinstance(told, Results):
            raise _needs_python(prototype, told.name, "gives the length of the list", "a fixed number of tensors")
        raise _needs_python(prototype, told.name, "gives the output's shape", "annotated axes")
    for argument in prototype.arguments:
        if argument.converts:
            raise _needs_python(prototype, argument.name, "converts the argument", "tensors, real numbers and strings")


def _check_on_cuda(native: NativeFunction) -> None:
    """Refuse what has no kernel on CUDA, or one that Python tells sizes and a grid."""
    prototype = native.prototype
    if native.unfit is not None:
        argument, problem, expected, got = native.unfit
        raise UnsupportedError(
            problem, operator=prototype.signature.name, argument=argument, expected=expected, got=got,
            hint="leave cuda= out: the library is for the CPU then",
        )  # fmt: skip
    if not prototype.scalar:
        raise _needs_python(prototype, "cuda", "tells a kernel its sizes", "a function that sees an element")


def _needs_python(prototype: Prototype, argument: str, what: str, expected: str) -> UnsupportedError:
    return UnsupportedError(
        f"Python {what}, which a program without it cannot do", operator=prototype.signature.name, argument=argument,
        expected=expected,
    )  # fmt: skip


def _nothing(prototype: Prototype, dtypes: Sequence[torch.dtype]) -> BuildError:
    return BuildError(
        "the annotations admit none of the dtypes", operator=prototype.signature.name, argument="dtypes",
        expected="; ".join(f"{p.name}: {p.type}" for _, p in prototype.signature.tensors),
        got=", ".join(map(name_of, dtypes)),
    )  # fmt: skip


def _dispatch(names: tuple[str, str], schema: str, prototype: Prototype, parts: Sequence[_Part]) -> str:
    space = names[0].partition("::")[0]
    bare = [name.partition("::")[2] for name in names]
    slots = [argument for argument in prototype.arguments if argument.schema]
    tensors = [(i, a) for i, a in enumerate(slots) if isinstance(a, Array)]
    devices = [f'{{"{p.key}", tg_dispatch_{p.name}, tg_on_{p.name}, {len(p.variants)}}}' for p in parts]
    return _DISPATCH.format(
        header=HEADER,
        declarations="\n".join(f"TG_OTHER tg_boxed {symbol}(void);" for part in parts for symbol in part.variants),
        tensors=len(tensors),
        tables="".join(_table(part, [a for _, a in tensors]) for part in parts),
        devices=", ".join(devices),
        found=", ".join(f"{_reader(a)}(tg_stack[{i}])" for i, a in tensors),
        operator=prototype.signature.name,
        space=space,
        names=", ".join(f'"{name}"' for name in bare),
        schemas=", ".join(f'"{name}{_quoted(schema)}"' for name in bare),
        title=f"<torchgraft {prototype.signature.name}>",
        torch=_TORCH,
    )


def _table(part: _Part, tensors: Sequence[Array]) -> str:
    rows = []
    for symbol, dtypes in part.variants.items():
        codes = ", ".join(str(TYPE_CODES[dtypes[a.name]]) if a.name in dtypes else "-1" for a in tensors)
        rows.append(f"    {{{symbol}, NULL, {{{codes}}}}},")
    return _TABLE.format(device=part.name, count=len(rows), variants="\n".join(rows))


def _reader(argument: Array) -> str:
    if isinstance(argument, Arrays):
        return "tg_dtype_of_first"
    return "tg_dtype_if_any" if argument.optional else "tg_dtype"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
