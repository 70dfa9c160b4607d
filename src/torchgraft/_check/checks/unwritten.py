"""Memory that nobody has written: filled with bytes that are known, and found in what a call returns."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from ..baseline import cotangents_for, distance
from ..case import Case
from ..clock import OutOfTime
from ..finding import Finding, Skip, Verdict
from ..variations import within
from ..work import tried
from .ways import tensors

_FREED = 0x3F, 0xFF
"""Bytes that freed memory gets; new memory gets their complements, as `malloc` of the GNU C library has it.

The first are numbers of usual size in every dtype, so that no sum hides them; the others are NaN, and zeros.
"""
_PERTURB = -6  # M_PERTURB in <malloc.h>.
_SORTING = 1 << 16
"""Bytes of an allocation before which `malloc` sorts what was freed: it hands some of that out as it is, until then."""
_ARRAYS, _PIECES = range(4, 516, 4), range(24, 1033, 16)
"""Sizes in bytes of small arrays and of pieces of `malloc`, of which NumPy and the C library keep up to seven each."""
_KEPT = 7
_AGAIN = 4
"""Times that a dependence is found again: results that vary by chance are equal once, and not so often."""


@functools.cache
def _mallopt() -> Callable[[int, int], int] | None:
    """The C library's function for options of `malloc`; None where there is none."""
    return getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None


_filled = 0  # The option's value in this process.


@contextlib.contextmanager
def filled(freed: int = _FREED[0]) -> Iterator[None]:
    """Within, memory that is new holds the complement of a byte, and not by chance what is right.

    It holds for the CPU memory of torch, and for pieces of more than a kilobyte of NumPy and of C functions. Nothing
    happens where the C library cannot do it.
    """
    global _filled
    set_option, before = _mallopt(), _filled
    if set_option is None:
        yield
        return
    _filled = freed
    set_option(_PERTURB, freed)
    np.empty(_SORTING, np.uint8)
    try:
        yield
    finally:
        _filled = before
        set_option(_PERTURB, before or _asked_for())


def _asked_for() -> int:
    """Return the byte that the environment asks for, 0 for none."""
    with contextlib.suppress(ValueError):
        return int(os.environ.get("MALLOC_PERTURB_", "0"), 0)
    return 0


def _is_filled() -> bool:
    """Return True if new memory of torch can be filled: another allocator may stand in the place of the C library's."""
    with filled():
        return bool((torch.empty(_SORTING, dtype=torch.uint8) == _FREED[0] ^ 0xFF).all())


def with_unwritten(case: Case, finding: Finding) -> Finding:
    """Return a finding whose cause is memory that nobody has written, where a call of the case returns any."""
    with contextlib.suppress(Exception, OutOfTime):  # What else is wrong has been found.
        for found in unwritten(case):
            return finding.but(cause=found.cause, hint=found.hint)
    return finding


def unwritten(case: Case) -> Iterator[Finding]:
    """Call where new memory holds some bytes, then others, and find the first result that depends on them.

    Then at zeros, which masks often leave out.

    Raises:
        Skip: new memory cannot be filled; or nothing was found, and no argument can have a derivative.
    """
    if any(isinstance(leaf, Tensor) and leaf.device.type != "cpu" for leaf in case.leaves):
        raise Skip("memory of a device cannot be filled")
    if not _is_filled():
        raise Skip("the allocator of this process cannot fill new memory")
    found = _first(case)
    if found is None and case.primals and not case.target.is_torch:
        zeros = case.replaced([torch.zeros_like(primal) for primal in case.primals])
        with contextlib.suppress(Exception):  # It may refuse them.
            found = _first(zeros) if tried(zeros, given=case) is not None and within(zeros) else None
    if found is not None:
        yield found
        return
    if not case.primals:  # Nothing is proved of a derivative.
        raise case.nothing_to_differentiate() or Skip("no argument can have a derivative")


def _first(case: Case) -> Finding | None:
    """The first result of a call that depends on the bytes of new memory."""
    first, other = (_results(case, freed) for freed in _FREED)
    for name in filter(other.__contains__, first):
        cause = _cause(name, first[name], other[name])
        if cause is not None and _repeats(case, name, first, other):
            return Finding(
                "unwritten-memory", Verdict.FAIL, f"{name.capitalize()} depends on memory that nobody has written",
                f"{name}; {case.label}", cause=cause,
                hint="write every element, or begin with zeros: torch.zeros, np.zeros, calloc",
            )  # fmt: skip
    return None


def _repeats(case: Case, name: str, *made: Mapping[str, Tensor]) -> bool:
    """Return True if a result hangs on the bytes of new memory alone: not on chance, nor on the number of the call."""
    again = (
        (before, _results(case, freed))
        for _ in range(_AGAIN)
        for before, freed in reversed([*zip(made, _FREED, strict=True)])
    )
    return all(name in now and distance(before[name], now[name]) == 0 for before, now in again)


def _fill_caches(byte: int) -> None:
    """Fill the memory of small arrays and pieces, which is kept by NumPy, and by `malloc` for each thread."""
    library = ctypes.CDLL(None)
    library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    taken = [(library.malloc(size), size) for size in _PIECES for _ in range(_KEPT)]
    for piece, size in taken:
        ctypes.memset(piece, byte, size)
        library.free(piece)
    full = np.full(_ARRAYS.stop, byte, np.uint8)
    made = [full[:size].copy() for size in _ARRAYS for _ in range(_KEPT)]  # A tenth of the time of np.full.
    del made


def _results(case: Case, freed: int) -> dict[str, Tensor]:
    """All tensors that a call returns, and the gradients of its arguments, by their names in reports."""
    with filled(freed):
        _fill_caches(freed ^ 0xFF)
        outputs = tensors(case.call())
        made = {"the output" if len(outputs) == 1 else f"output {i}": output for i, output in enumerate(outputs)}
        with contextlib.suppress(Exception):  # There may be no derivative.
            recorded = case.linearize()
            gradients = recorded.vjp(cotangents_for(case, recorded.outputs))
            made |= {f"the gradient of {n}": g for n, g in zip(case.names, gradients, strict=True) if g is not None}
    return {name: value.detach().clone() for name, value in made.items() if value.layout == torch.strided}


def _cause(name: str, first: Tensor, other: Tensor) -> str | None:
    """Say how a result hangs on the bytes of new memory; None if it is the same, as far as rounding goes."""
    if first.shape != other.shape:
        return f"the size of {name} is computed from memory that nobody has written"
    left = _holds(first, _FREED[0]) & _holds(other, _FREED[1])
    if left.any():
        place = left.nonzero()[0].tolist()
        element = f"{name}{place if place else ''}"
        return f"{element} is never written: {int(left.sum())} of {left.numel()} elements are as memory was before"
    rounding = 0.0
    if first.numel() and (first.is_floating_point() or first.is_complex()):
        rounding = 64 * torch.finfo(first.dtype).eps * float(first.abs().nan_to_num(0, 0, 0).max())
    if distance(other, first) > rounding:
        return f"{name} is computed from memory that nobody has written: torch.empty, np.empty, malloc or beyond an end"
    return None


def _holds(tensor: Tensor, freed: int) -> Tensor:
    """Mark elements all of whose bytes are those of new memory, or of memory that was freed."""
    flat = tensor.resolve_conj().resolve_neg().reshape(-1).clone(memory_format=torch.contiguous_format)
    data = flat.view(torch.uint8).view(*tensor.shape, tensor.dtype.itemsize)
    return (data == freed ^ 0xFF).all(-1) | (data == freed).all(-1)
