"""The CUDA text of a function that sees one element: a kernel around the C source as it is.

A kernel has one parameter, the frame, whose layout `launcher.c` fills: 64 bits for each number, for each tensor its
address and its strides in bytes. There are four kernels for a function, of which a text has one: over memory that is
flat or has strides, with an index of 32 or 64 bits. C keeps C's meaning, see `include/math.h`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import torch

from ..._spec.dtypes import HALVES, name_of
from ...errors import DeclarationError
from ..c_arguments import Argument, Array, Number, SeedOfSample
from ..heads import bare
from ..prototype import C_TYPES, Prototype
from ..source import Source
from .headers import included

AXES = 8
"""Axes that a kernel walks along. Neighbours that all tensors walk evenly count as one."""

TENSORS = 32
"""Tensors that a kernel takes, outputs too."""

WORDS = 512
"""Words of a frame: 4 KiB, which a kernel takes on every device."""

ENTRIES = ("tg_flat32", "tg_rows32", "tg_flat64", "tg_rows64")
"""Names of the kernels, as `launcher.c` numbers them."""

_LONG_DOUBLE = re.compile(r"\blong\s+double\b|\bdouble\s+long\b")
_HALVES = {torch.float16: "tg_half", torch.bfloat16: "tg_bfloat16"}

_TEXT = """\
#include <torchgraft/device.h>
{typedefs}
{body}

struct tg_frame {{
    int64_t n, dim, size[{axes}];
{fields}
}};

extern "C" __global__ void __launch_bounds__(256) {entry}(const __grid_constant__ tg_frame tg_f) {{
{numbers}
    const tg_index tg_step = (tg_index)gridDim.x * blockDim.x;
    for (tg_index tg_i = (tg_index)blockIdx.x * blockDim.x + threadIdx.x; tg_i < (tg_index)tg_f.n; tg_i += tg_step) {{
{walk}
        {call}
    }}
}}
"""

_WALK = """\
        tg_index tg_rest = tg_i;
        int64_t {starts};
        for (int64_t tg_d = tg_f.dim; tg_d-- > 0;) {{
            const int64_t tg_at = (int64_t)(tg_d ? tg_rest % (tg_index)tg_f.size[tg_d] : tg_rest);
            if (tg_d) tg_rest /= (tg_index)tg_f.size[tg_d];
            {steps}
        }}"""

_STEP = "tg_o_{0} += tg_at * tg_f.s_{0}[tg_d];"


def unfit(prototype: Prototype, source: Source) -> list[tuple[str | None, str, str, str]]:
    """Say why a function has no kernel on CUDA: argument, problem, what is expected, what there is."""
    found: list[tuple[str | None, str, str, str]] = []
    if not prototype.scalar:
        found.append((None, "sees a sample, and C functions of samples run on the CPU alone", "an elementwise operator",
                      prototype.declaration()))  # fmt: skip
    if source.imports:
        lent = ", ".join(name for name, _ in source.imports)
        found.append((None, "calls functions that Python modules lend, which a GPU does not have", "none", lent))
    texts = [source.code, *included(source.code, folders(source)).values()]
    if any(_LONG_DOUBLE.search(bare(text)) for text in texts):
        found.append((None, "computes in long double, which a GPU does not have", "double, or pairs of doubles",
                      "long double"))  # fmt: skip
    for argument in prototype.arguments:
        if not isinstance(argument, (Array, Number)):
            kind = type(argument).__name__.lower()
            found.append((argument.name, "is no tensor and no number", "a tensor, or a number", kind))
    tensors = len(prototype.arrays) + len(prototype.results)
    words = 2 + AXES + sum(map(words_of, prototype.arguments)) + tensors * (1 + AXES)
    if tensors > TENSORS or words > WORDS:
        found.append((None, "takes more than the frame of a kernel holds", f"{TENSORS} tensors, {WORDS} words",
                      f"{tensors} tensors, {words} words"))  # fmt: skip
    return found


def folders(source: Source) -> list[str]:
    """The folders in which a source finds headers."""
    return list(dict.fromkeys(map(str, (source.folder, *source.include))))


def words_of(argument: Argument) -> int:
    """Count the words of an argument among the numbers of the frame."""
    return 2 if isinstance(argument, Number) else int(isinstance(argument, SeedOfSample))


def emit(prototype: Prototype, dtypes: Mapping[str, torch.dtype], source: Source, entry: str) -> str:
    """Make the text of one kernel.

    Args:
        dtypes: of each tensor, outputs too, by name.
        entry: of `ENTRIES`.

    Raises:
        DeclarationError: a dtype has no counterpart on CUDA.
    """
    for name, dtype in dtypes.items():
        if dtype.is_complex:
            raise DeclarationError(
                "complex elements have no C type on CUDA", operator=prototype.signature.name, argument=name,
                expected="real dtypes", got=name_of(dtype), hint="pass tensors on the CPU",
            )  # fmt: skip
    wide = {name: torch.float32 if dtype in HALVES else dtype for name, dtype in dtypes.items()}
    typedefs = [f"typedef {kind} {name};" for name, kind in prototype.typedefs(wide).items()]
    if any(isinstance(argument, SeedOfSample) for argument in prototype.arguments):
        typedefs.append("#include <torchgraft/random.h>")
    names = [*(a.name for a in prototype.arrays), *(r.name for r in prototype.results)]
    rows = "rows" in entry
    place = "(tg_f.p_{0} + tg_o_{0})" if rows else "(tg_f.p_{0} + (int64_t)tg_i * sizeof({1}))"
    walk = _WALK.format(
        starts=", ".join(f"tg_o_{name} = 0" for name in names),
        steps=" ".join(_STEP.format(name) for name in names),
    )
    return _TEXT.format(
        typedefs="\n".join([f"typedef uint{entry[-2:]}_t tg_index;", *typedefs]),
        body=mended(source.body(f"source of {prototype.signature.name}")),
        axes=AXES,
        fields="\n".join(f"    {field}" for field in _fields(prototype)),
        entry=entry,
        numbers="\n".join(f"    {line}" for line in _numbers(prototype)),
        walk=walk if rows else "",
        call=_call(prototype, lambda name: place.format(name, _stored(dtypes[name])), dtypes),
    )


def mended(body: str) -> str:
    """C as C++ reads it: line markers, and compound literals of structures that the source names."""
    body = re.sub(r"^# (?=\d+ \")", "#line ", body, flags=re.M)
    names = re.findall(r"^\s*typedef\s+struct\s*\w*\s*\{[^{}]*\}\s*(\w+)\s*;", body, re.M)
    names += re.findall(r"^\}\s*(\w+)\s*;", body, re.M)
    return re.sub(rf"\(({'|'.join(sorted(set(names)))})\)\s*\{{", r"\1{", body) if names else body


def _stored(dtype: torch.dtype) -> str:
    """The type of an element in memory."""
    return _HALVES.get(dtype) or C_TYPES[dtype]


def _fields(prototype: Prototype) -> Iterator[str]:
    for argument in prototype.arguments:
        if isinstance(argument, Number):
            kind = "double" if argument.scalar.type is float else "int64_t"
            yield f"int64_t given_{argument.name}; {kind} a_{argument.name};"
        elif isinstance(argument, SeedOfSample):
            yield f"int64_t shared_{argument.name};"
    for name in (*(a.name for a in prototype.arrays), *(r.name for r in prototype.results)):
        yield f"char *p_{name}; int64_t s_{name}[{AXES}];"


def _numbers(prototype: Prototype) -> Iterator[str]:
    """Constants of the numbers, in the types that the function takes."""
    for argument in prototype.arguments:
        if isinstance(argument, Number):
            name, kind = argument.name, argument.parameters()[0].removeprefix("const ").split()[0]
            yield f"const {kind} tg_a_{name} = ({kind})tg_f.a_{name};"


def _call(prototype: Prototype, at: Callable[[str], str], dtypes: Mapping[str, torch.dtype]) -> str:
    """The statement for one element; `at` says where a tensor has it."""
    values = [_value(argument, at, dtypes) for argument in prototype.arguments]
    results = [(r.name, r.element, f"({_stored(dtypes[r.name])} *){at(r.name)}") for r in prototype.results]
    if prototype.returns_result:
        ((_, _, target),) = results
        return f"tg_put({target}, {prototype.symbol}({', '.join(values)}));"
    made = " ".join(f"{element} tg_v_{name};" for name, element, _ in results)
    called = f"{prototype.symbol}({', '.join([*values, *(f'&tg_v_{name}' for name, _, _ in results)])});"
    return " ".join([made, called, *(f"tg_put({target}, tg_v_{name});" for name, _, target in results)])


def _value(argument: Argument, at: Callable[[str], str], dtypes: Mapping[str, torch.dtype]) -> str:
    if isinstance(argument, Number):
        value = f"tg_a_{argument.name}"
        return f"(tg_f.given_{argument.name} ? &{value} : nullptr)" if argument.optional else value
    got = f"tg_get((const {_stored(dtypes[argument.name])} *){at(argument.name)})"
    if isinstance(argument, SeedOfSample):  # One number is that of all, from which each element has its own.
        return f"(tg_f.shared_{argument.name} ? tg_fold({got}, (int64_t)tg_i) : {got})"
    return got
