"""The description of a kernel that `launcher.c` reads, in memory and as C."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import torch

from ..._spec.axes import Axes
from ..c_arguments import CODES, Argument, Array, Number, SeedOfSample
from ..prototype import Prototype
from ..source import Source
from .text import ENTRIES, neighbours, sizes_of, trailing, words_of

DEVICES = 64
"""Devices that a kernel is loaded on."""

TENSOR, SEED, INTEGER, FLOAT, BOOLEAN = range(5)
"""Kinds of slots."""

TYPE_CODES = CODES | {torch.float16: 5, torch.bfloat16: 15}
"""Torch's numbers of dtypes, as `c10::ScalarType` has them."""

_COUNTS = (
    "argument_count", "result_count", "tensor_count", "number_count", "size_count", "by_hand", "trailing", "neighbours",
)  # fmt: skip


class Slot(ctypes.Structure):
    """An argument or a result, as `launcher.c` has it."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("kind", ctypes.c_int32), ("optional", ctypes.c_int32), ("dtype", ctypes.c_int32),
        ("item", ctypes.c_int32), ("core", ctypes.c_int32), ("axes", ctypes.POINTER(ctypes.c_int32)),
        ("after", ctypes.c_int32),
    )  # fmt: skip


class Kernel(ctypes.Structure):
    """A kernel, as `launcher.c` has it.

    Attributes:
        kept: what it points to.
    """

    _fields_ = (
        ("operator_name", ctypes.c_char_p), ("arguments", ctypes.POINTER(Slot)), ("results", ctypes.POINTER(Slot)),
        *((name, ctypes.c_int64) for name in _COUNTS), ("images", (ctypes.c_char_p * len(ENTRIES)) * DEVICES),
        ("functions", (ctypes.c_void_p * len(ENTRIES)) * DEVICES), ("shared", ctypes.c_int64 * DEVICES),
        ("equip", ctypes.c_void_p),
    )  # fmt: skip
    kept: list[Any]


def describe(prototype: Prototype, source: Source, dtypes: Mapping[str, torch.dtype]) -> Kernel:
    """Describe the kernel of a function, without machine code.

    Args:
        dtypes: of each tensor that is there, outputs too, by name.
    """
    arguments = [_slot(prototype, argument, dtypes) for argument in prototype.arguments]
    written = [output.after for output in prototype.signature.outputs]
    names = [array.name for array in prototype.arrays]
    results = [
        Slot(r.name.encode(), TENSOR, 0, *_element(dtypes.get(r.name)), *_axes(prototype, r.core),
             -1 if after is None else names.index(after))
        for r, after in zip(prototype.results, written, strict=True)
    ]  # fmt: skip
    tensors = [slot for slot in arguments if slot.kind in (TENSOR, SEED)]
    kernel = Kernel(
        prototype.signature.name.encode(), (Slot * len(arguments))(*arguments), (Slot * len(results))(*results),
        len(arguments), len(results), len(tensors) + len(results), sum(map(words_of, prototype.arguments)),
        -1 if prototype.scalar else len(sizes_of(prototype)), source.launch is not None, len(trailing(prototype)),
        neighbours(prototype, dtypes),
    )  # fmt: skip
    kernel.kept = [arguments, results]
    return kernel


def _slot(prototype: Prototype, argument: Argument, dtypes: Mapping[str, torch.dtype]) -> Slot:
    name = argument.name.encode()
    if isinstance(argument, Array):
        kind = SEED if isinstance(argument, SeedOfSample) else TENSOR
        element = _element(dtypes.get(argument.name))
        return Slot(name, kind, argument.optional, *element, *_axes(prototype, argument.core), -1)
    assert isinstance(argument, Number)
    kinds: dict[type, int] = {bool: BOOLEAN, float: FLOAT}
    return Slot(name, kinds.get(argument.scalar.type, INTEGER), argument.optional, 0, 8, 0, None, -1)


def _element(dtype: torch.dtype | None) -> tuple[int, int]:
    """Torch's number of a dtype, and the bytes of an element; 0 for an optional tensor that is not there."""
    return (0, 0) if dtype is None else (TYPE_CODES[dtype], dtype.itemsize)


def _axes(prototype: Prototype, core: Axes | None) -> tuple[int, Any]:
    """For each axis of a sample, the number of the size that it has in full; -1 where it has its own."""
    assert core is not None
    known = sizes_of(prototype)
    numbers = [known.index(token.name) if token.name in known else -1 for token in core.tokens]
    return len(numbers), (ctypes.c_int32 * len(numbers))(*numbers)


def in_c(kernel: Kernel, name: str) -> str:
    """Declare the kernel of a function that sees an element, under a name, as C; `tg_equip` finds its machine code."""
    return "\n".join(
        [
            _slots_in_c(f"{name}_arguments", kernel.arguments[: kernel.argument_count]),
            _slots_in_c(f"{name}_results", kernel.results[: kernel.result_count]),
            f'static tg_kernel {name} = {{"{kernel.operator_name.decode()}", {name}_arguments, {name}_results, '
            f"{', '.join(str(getattr(kernel, count)) for count in _COUNTS)}, {{{{0}}}}, {{{{0}}}}, {{0}}, tg_equip}};",
        ]
    )


def _slots_in_c(name: str, slots: list[Slot]) -> str:
    rows = [f'{{"{s.name.decode()}", {s.kind}, {s.optional}, {s.dtype}, {s.item}, 0, NULL, {s.after}}}' for s in slots]
    return f"static const tg_slot {name}[] = {{{', '.join(rows)}}};"
