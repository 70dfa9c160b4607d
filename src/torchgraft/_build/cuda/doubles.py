"""Double precision in the kernels of float32, which most GPUs compute many times slower."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

from ..._spec.dtypes import Dtypes
from ...errors import BuildError
from ..native_function import NativeFunction
from . import nvrtc
from .device import machine_code
from .function import flags
from .text import ENTRIES, emit

_ARITHMETIC = re.compile(r"^\s*(?:@!?%p\d+\s+)?(?!ld|st|mov|cvt)\w[\w.]*\.f64\b", re.M)


def said(natives: list[NativeFunction]) -> str:
    """Say which functions compute float32 in double, with how many instructions, and which NVRTC refuses.

    Empty where there is nothing to say, and where NVRTC is not there.
    """
    if not nvrtc.is_there():
        return ""
    counted: dict[str, int] = {}
    for native in natives:
        try:
            counted[native.label] = count(native)
        except BuildError as error:
            return f"{native.label} does not compile: {str(error.got).partition(chr(10))[0]}"
    slow = ", ".join(f"{label} ({number} instructions)" for label, number in counted.items() if number)
    return f"float32 is computed in double by {slow}: <tgmath.h> has functions of both types" if slow else ""


def count(native: NativeFunction) -> int:
    """Count the instructions of double precision in the kernel of float32; 0 where it takes no float32.

    Raises:
        BuildError: NVRTC refuses the source, or is not there.
    """
    dtypes = dtypes_of(native)
    if native.unfit or torch.float32 not in dtypes.values():
        return 0
    text = emit(native.prototype, dtypes, native.source, ENTRIES[0])
    ptx = machine_code(text, "compute_80", native.label, flags(native.source))
    return len(_ARITHMETIC.findall(ptx.decode(errors="replace")))


def dtypes_of(native: NativeFunction, preferred: torch.dtype = torch.float32) -> Mapping[str, torch.dtype]:
    """A dtype for each tensor: the preferred one where it is admitted."""
    signature = native.prototype.signature
    types = [(p.name, p.tensor.dtypes) for _, p in signature.tensors]
    types += [(output.name, output.type.dtypes) for output in signature.outputs]
    return {name: _one_of(dtypes, preferred) for name, dtypes in types}


def _one_of(dtypes: Dtypes, preferred: torch.dtype) -> torch.dtype:
    if dtypes.exact is not None:
        return dtypes.exact
    known: list[torch.dtype] = [preferred, torch.float64, torch.int64, torch.bool, *(dtypes.admitted or ())]
    return next(dtype for dtype in known if dtypes.admits(dtype))
