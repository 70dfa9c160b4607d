"""The CUDA text of a function: a kernel around the source as it is.

A kernel has one parameter, the frame, whose layout `launcher.c` fills: 64 bits for each size and number, for each
tensor its address and its strides in bytes. There are four kernels for a function that sees an element or a sample, of
which a text has one: over memory that is flat or has strides, with an index of 32 or 64 bits. One that is written by
hand has one, which passes on what is in the frame, so that the compiler checks its parameters. C keeps C's meaning, see
`include/math.h`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from ..._spec.dtypes import HALVES, name_of
from ...errors import DeclarationError
from ..c_arguments import Argument, Array, Arrays, Number, SeedOfSample, Written
from ..heads import bare
from ..prototype import C_TYPES, Prototype, Results
from ..source import Source
from .headers import included

AXES = 8
"""Axes that a kernel walks along. Neighbours that all tensors walk evenly count as one."""

TENSORS = 32
"""Tensors that a kernel takes, outputs too."""

WORDS = 512
"""Words of a frame: 4 KiB, which a kernel takes on every device."""

SLOTS = 64
"""Arguments of an operator of torch; one of ours on CUDA has the kernel, sizes and shapes among them."""

THREADS = 256
"""Threads of a block, where nobody says."""

FILLED = 262144
"""Threads that a large device runs at the same time: fewer elements are one for each thread."""

ENTRIES = ("tg_flat32", "tg_rows32", "tg_flat64", "tg_rows64")
"""Names of the kernels, as `launcher.c` numbers them."""

_BETWEEN = r"(?:\s+(?:const|volatile|static|extern|register|inline|constexpr|thread_local|_Thread_local))*\s+"
_LONG_DOUBLE = re.compile(
    rf"\blong{_BETWEEN}double\b|\bdouble{_BETWEEN}long\b|\b__float(?:80|128)\b|\b_Float(?:64x|128)\b"
    r"|(?:\d\.\d*|\.\d+|\d(?=[eE]))(?:[eE][+-]?\d+)?[lL]\b|\b0[xX][\da-fA-F.]+[pP][+-]?\d+[lL]\b"
)
_MAY_BE_LONG = re.compile(r"[lL](?<=[\d.][lL])\b|long|__?[fF]loat")  # Finds more, and is ten times as fast.
_DIRECTIVE = re.compile(r"\s*(?:#|%:|\?\?=)\s*(if\w*|el\w+|endif)\b\s*(.*)")
_ON_DEVICE = re.compile(r"(!?)\s*(?:defined\s*)?\(?\s*__CUDACC__\s*\)?\s*")
_HALVES = {torch.float16: "tg_half", torch.bfloat16: "tg_bfloat16"}

_TEXT = """\
#include <torchgraft/device.h>
{typedefs}
{body}

#line 1 "<torchgraft {name}>"
static inline void tg_check() {{
{check}
}}

struct tg_frame {{
    int64_t n, dim, per, size[{axes}];
{fields}
}};

TG_ENTRY({threads}) {entry}(TG_CONSTANT tg_frame tg_f) {{
{numbers}
{work}
}}
"""

_ELEMENTS = """\
    const tg_index tg_n = (tg_index)tg_f.n, tg_per = (tg_index)tg_f.per;
    const tg_index tg_step = (tg_index)gridDim.x * blockDim.x * tg_per;
    for (tg_index tg_i = ((tg_index)blockIdx.x * blockDim.x + threadIdx.x) * tg_per; tg_i < tg_n; tg_i += tg_step) {{
        const int tg_many = (int)(tg_n - tg_i < tg_per ? tg_n - tg_i : tg_per);
{walk}
{packs}
{loads}
        for (int tg_k = 0; tg_k < {most}; tg_k++)
            if (tg_k < tg_many) {{ {call} }}
{stores}
    }}"""
"""A thread takes some neighbours at once, so that it reads and writes up to 16 bytes at once: one by one of half
precision halves what a GPU's memory could do. Few elements are one for each thread, as the launcher says."""

_SAMPLES = """\
    const tg_index tg_step = (tg_index)gridDim.x * blockDim.x;
    for (tg_index tg_i = (tg_index)blockIdx.x * blockDim.x + threadIdx.x; tg_i < (tg_index)tg_f.n; tg_i += tg_step) {{
{walk}
        {call}
    }}"""

_BY_HAND = """\
#define TG_BY_HAND
#include <tg_constants.h>
#undef __global__
#undef __launch_bounds__
#define __global__
#define __launch_bounds__(...)
{body}"""
"""The user's kernel is a function that ours calls."""

_WALK = """\
        tg_index tg_rest = tg_i;
        int64_t {starts};
        for (int64_t tg_d = tg_f.dim; tg_d-- > 0;) {{
            const int64_t tg_at = (int64_t)(tg_d ? tg_rest % (tg_index)tg_f.size[tg_d] : tg_rest);
            if (tg_d) tg_rest /= (tg_index)tg_f.size[tg_d];
            {steps}
        }}"""

_STEP = "tg_o_{0} += tg_at * tg_f.s_{0}[tg_d];"
_PACK = "tg_pack<{1}, {2}> tg_l_{0};"
_LOAD = "tg_load(tg_l_{0}, tg_f.p_{0} + {3}, tg_many);"
_STORE = "tg_store(tg_l_{0}, tg_f.p_{0} + {3}, tg_many);"
_FLAT = "(int64_t)tg_i * sizeof({1}), sizeof({1})"
_IN_ROWS = "tg_o_{0}, tg_f.s_{0}[tg_f.dim - 1]"
"""Offset of the elements that a thread takes at once, and the distance between them, in bytes."""


Unfit = tuple[str | None, str, str, str]
"""Why a function has no kernel on CUDA: argument, problem, what is expected, what there is."""


def unfit(prototype: Prototype, source: Source) -> Unfit | None:
    """Say why a function has no kernel on CUDA; None where it has one."""
    return next(_reasons(prototype, source), None)


def _reasons(prototype: Prototype, source: Source) -> Iterator[Unfit]:
    seen = [_for_devices(part) if "__CUDACC__" in part else part for part in source.pieces if source.imports]
    lent = ", ".join(name for name, _ in source.imports if any(name in part for part in seen))
    if lent:
        yield (None, "calls functions that Python modules lend, which a GPU does not have", "none", lent)
    if not prototype.scalar:
        yield from _unfit_samples(prototype, source)
    for argument in prototype.arguments:
        if isinstance(argument, Written):
            yield argument.name, "is written, which a GPU does for elementwise operators alone", "an output", "written"
        elif isinstance(argument, Arrays) or not isinstance(argument, (Array, Number)):
            kind = type(argument).__name__.lower()
            yield argument.name, "is no tensor and no number", "a tensor, or a number", kind
    slots = 1 + len(prototype.arguments) + len(trailing(prototype))
    if slots > SLOTS:
        yield (None, "takes more arguments than torch passes to a launch", f"{SLOTS - 1 - len(trailing(prototype))}",
               str(len(prototype.arguments)))  # fmt: skip
    tensors = len(prototype.arrays) + len(prototype.results)
    words = 3 + AXES + len(prototype.sizes) + sum(map(words_of, prototype.arguments)) + tensors * (1 + AXES)
    if tensors > TENSORS or words > WORDS:
        yield (None, "takes more than the frame of a kernel holds", f"{TENSORS} tensors, {WORDS} words",
               f"{tensors} tensors, {words} words")  # fmt: skip
    if _has_long_double(source):
        yield None, "computes in long double, which a GPU does not have", "double, or pairs of doubles", "long double"


def _has_long_double(source: Source) -> bool:
    where = folders(source)
    return any(_in_text(text) for part in source.pieces for text in (part, *included(part, where).values()))


@functools.lru_cache(maxsize=256)
def _in_text(text: str) -> bool:
    if _MAY_BE_LONG.search(text) is None:
        return False
    seen = _for_devices(text)
    return _MAY_BE_LONG.search(seen) is not None and _LONG_DOUBLE.search(seen) is not None


@functools.lru_cache(maxsize=256)
def _for_devices(text: str) -> str:
    """Leave out comments, and what is under `#ifndef __CUDACC__` or in the `#else` of `#ifdef __CUDACC__`."""
    if "__CUDACC__" not in text:
        return bare(text)
    kept, sides = [], [""]  # Of each condition around a line, the side of `__CUDACC__` that the line is on.
    for line in bare(text).splitlines():
        directive = _DIRECTIVE.match(line)
        word, condition = directive.groups() if directive else ("", "")
        if word.startswith("if"):
            sides.append(_side(word, condition))
        elif word == "endif":
            sides = sides[:-1]
        elif word:
            sides[-1:] = [{"device": "host", "host": "device"}.get(sides[-1], "") if word == "else" else ""]
        elif "host" not in sides:
            kept.append(line)
    return "\n".join(kept)


def _side(word: str, condition: str) -> str:
    """Tell which side compiles the text under a condition, "device" or "host"; an empty string stands for both."""
    found = _ON_DEVICE.fullmatch(condition)
    if found is None or (word == "if") != ("defined" in condition):
        return ""
    return "host" if (word == "ifndef") != bool(found[1]) else "device"


def _unfit_samples(prototype: Prototype, source: Source) -> Iterator[Unfit]:
    """Find what is in the way of a function that sees samples, or all of them."""
    if source.launch is None and not source.per_sample:
        yield (None, "sees a sample, and runs on the CPU alone unless that is asked for",
               f'tg.{"c" if source.language == "c" else "cpp"}(..., cuda="per_sample"), for many small samples',
               prototype.declaration())  # fmt: skip
    if source.launch is None and source.fails(prototype.symbol):
        yield (None, "returns an error code, which the threads of a GPU cannot raise", "void", "int")
    if source.launch is not None and prototype.signature.seed is not None:
        yield (prototype.signature.parameters[prototype.signature.seed].name,
               "is a seed, of which each sample has its own", "an integer tensor", "a seed")  # fmt: skip
    if prototype.whole or prototype.late:
        yield (None, "is not told all sizes, or says some itself", "annotated axes", prototype.declaration())
    for result in prototype.results:
        if isinstance(result, Results):
            yield (result.name, "is a list of tensors", "a tensor", "a list")


def reads_halves(prototype: Prototype, source: Source) -> bool:
    """Tell whether a kernel reads elements of half precision itself, and rounds them."""
    return prototype.scalar or source.launch is not None


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
    body = mended(source.body(f"source of {prototype.signature.name}"))
    return _TEXT.format(
        typedefs="\n".join([f"typedef uint{entry[-2:]}_t tg_index;", *_typedefs(prototype, dtypes, source)]),
        body=_BY_HAND.format(body=body) if source.launch else body,
        name=prototype.signature.name,
        check="\n".join(_check(prototype)),
        axes=AXES,
        fields="\n".join(f"    {field}" for field in _fields(prototype)),
        threads=source.launch.threads if source.launch else THREADS,
        entry=entry,
        numbers="\n".join(f"    {line}" for line in _numbers(prototype)),
        work=_work(prototype, dtypes, source, entry),
    )


def _check(prototype: Prototype) -> Iterator[str]:
    """Pointers that take functions of the right types alone: a call would convert its arguments."""
    for number, one in enumerate(dict.fromkeys((prototype, prototype.users))):
        pointer = f"{one.result_type(fails=False)} (*tg_p{number})({one.parameter_text('c++')})"
        yield f"    {pointer} = {one.symbol}; (void)tg_p{number};"


def _typedefs(prototype: Prototype, dtypes: Mapping[str, torch.dtype], source: Source) -> Iterator[str]:
    """``T`` and its like: halves are read as floats, but by a kernel that is written by hand."""
    wide = {name: torch.float32 if dtype in HALVES else dtype for name, dtype in dtypes.items()}
    types = [(p.name, p.tensor.dtypes) for _, p in prototype.signature.tensors]
    types += [(output.name, output.type.dtypes) for output in prototype.signature.outputs]
    halves = {
        prototype.element(name, kind): _HALVES[dtypes[name]] for name, kind in types if dtypes.get(name) in _HALVES
    }
    for name, kind in prototype.typedefs(wide).items():
        yield f"typedef {halves.get(name, kind) if source.launch else kind} {name};"
    if any(isinstance(argument, SeedOfSample) for argument in prototype.arguments):
        yield "#include <torchgraft/random.h>"


def _work(prototype: Prototype, dtypes: Mapping[str, torch.dtype], source: Source, entry: str) -> str:
    """Make the statements of a thread: a loop over elements or samples, or one call of a kernel by hand."""
    if source.launch:
        return "    " + _call(prototype, "tg_f.p_{0}".format, dtypes)
    arrays, results = [a.name for a in prototype.arrays], [r.name for r in prototype.results]
    walk = _WALK.format(
        starts=", ".join(f"tg_o_{name} = 0" for name in (*arrays, *results)),
        steps=" ".join(_STEP.format(name) for name in (*arrays, *results)),
    )
    if not prototype.scalar:
        return _SAMPLES.format(walk=walk, call=_call(prototype, "(tg_f.p_{0} + tg_o_{0})".format, dtypes))
    rows, most = "rows" in entry, neighbours(prototype, dtypes)
    place = _IN_ROWS if rows else _FLAT

    def each(text: str, names: Sequence[str]) -> str:
        return "\n".join(
            f"        {text.format(name, _stored(dtypes[name]), most, place.format(name, _stored(dtypes[name])))}"
            for name in names
            if name in dtypes
        )

    return _ELEMENTS.format(
        walk=walk if rows else "",
        packs=each(_PACK, [*arrays, *results]),
        loads=each(_LOAD, arrays),
        most=most,
        call=_call(prototype, "(tg_l_{0}.at + tg_k)".format, dtypes),
        stores=each(_STORE, results),
    )


def neighbours(prototype: Prototype, dtypes: Mapping[str, torch.dtype]) -> int:
    """Count the elements that a thread takes at once, where there are many: 16 bytes of the largest; or 1 sample."""
    return max(1, 16 // max(dtype.itemsize for dtype in dtypes.values())) if prototype.scalar and dtypes else 1


def mended(body: str) -> str:
    """C as C++ reads it: line markers, and compound literals of structures that the source names."""
    body = re.sub(r"^# (?=\d+ \")", "#line ", body, flags=re.M)
    names = re.findall(r"^\s*typedef\s+struct\s*\w*\s*\{[^{}]*\}\s*(\w+)\s*;", body, re.M)
    names += re.findall(r"^\}\s*(\w+)\s*;", body, re.M)
    return re.sub(rf"\(({'|'.join(sorted(set(names)))})\)\s*\{{", r"\1{", body) if names else body


def _stored(dtype: torch.dtype) -> str:
    """The type of an element in memory."""
    return _HALVES.get(dtype) or C_TYPES[dtype]


def sizes_of(prototype: Prototype) -> list[str]:
    """The sizes in the frame; the number of samples is there anyway."""
    return [name for name in prototype.sizes if name != prototype.count]


def trailing(prototype: Prototype) -> tuple[str, ...]:
    """List what a kernel takes after its arguments: sizes, then shapes of outputs, unless it sees an element."""
    return prototype.trailing if prototype.scalar else ("tg_sizes", "tg_shapes")


def _fields(prototype: Prototype) -> Iterator[str]:
    yield from (f"int64_t z_{name};" for name in sizes_of(prototype))
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
    """The statement for one element or sample, or for all; `at` says where a tensor has it."""
    values = [_value(argument, at, dtypes, scalar=prototype.scalar) for argument in prototype.arguments]
    results = [(r.name, r.element, f"({_stored(dtypes[r.name])} *){at(r.name)}") for r in prototype.results]
    if not prototype.scalar:
        sizes = ["tg_f.n" if name == prototype.count else f"tg_f.z_{name}" for name in prototype.sizes]
        given = [*sizes, *values, *(target for _, _, target in results)]
        return f"{prototype.symbol}({', '.join(given)});"
    if prototype.returns_result:
        ((_, _, target),) = results
        return f"tg_put({target}, {prototype.symbol}({', '.join(values)}));"
    made = " ".join(f"{element} tg_v_{name};" for name, element, _ in results)
    called = f"{prototype.symbol}({', '.join([*values, *(f'&tg_v_{name}' for name, _, _ in results)])});"
    return " ".join([made, called, *(f"tg_put({target}, tg_v_{name});" for name, _, target in results)])


def _value(argument: Argument, at: Callable[[str], str], dtypes: Mapping[str, torch.dtype], *, scalar: bool) -> str:
    if isinstance(argument, Number):
        value = f"tg_a_{argument.name}"
        return f"(tg_f.given_{argument.name} ? &{value} : nullptr)" if argument.optional else value
    if argument.name not in dtypes:
        return "nullptr"
    place = f"(const {_stored(dtypes[argument.name])} *){at(argument.name)}"
    if isinstance(argument, SeedOfSample):  # One number is that of all, from which each sample has its own.
        index = "(int64_t)tg_i + tg_k" if scalar else "(int64_t)tg_i"
        return f"(tg_f.shared_{argument.name} ? tg_fold(tg_get({place}), {index}) : tg_get({place}))"
    return f"tg_get({place})" if scalar else place
