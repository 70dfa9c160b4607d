"""Dtypes: which ones an annotation admits, and which one an output has.

jaxtyping's kinds fall into three groups. *Exact* kinds (``Float64``, ``Int64``, ``Bool``) are one dtype.
*Numeric* kinds (``Float``, ``Complex``, ``Inexact``, ``Real``, ``Num``) share one common dtype in a call. The
others (``Int``, ``Shaped``, a bare ``Tensor``) admit what they say and stay out of the common dtype.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
COMPLEXES = frozenset({torch.complex32, torch.complex64, torch.complex128})
HALVES = frozenset({torch.float16, torch.bfloat16})

_NUMERIC = frozenset({"Float", "Complex", "Inexact", "Real", "Num"})
_PROMOTING = frozenset({"Real", "Num"})
_TO_COMPLEX = {torch.float16: torch.complex32, torch.float32: torch.complex64, torch.float64: torch.complex128}
_TO_REAL = {twin: real for real, twin in _TO_COMPLEX.items()}


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a dtype: ``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Dtypes:
    """The dtypes of one annotation.

    Attributes:
        kind: jaxtyping's name for them, ``"Float"``, ``"Int64"``...; ``"Shaped"`` for a bare ``Tensor``.
        admitted: the torch dtypes; None for all.
    """

    kind: str
    admitted: frozenset[torch.dtype] | None

    @classmethod
    def read(cls, annotation: Any) -> Dtypes:
        """The dtypes of a jaxtyping annotation, whose ``dtypes`` are names."""
        names = annotation.dtypes
        if not isinstance(names, tuple):  # `Shaped` admits any dtype.
            return ANY
        admitted = {d for name in names if isinstance(d := getattr(torch, name, None), torch.dtype)}
        # No kernel computes in float8: only an annotation that names one of them means it.
        wide = {d for d in admitted if not str(d).startswith("torch.float8")}
        return cls(annotation.dtype.__name__, frozenset(wide or admitted))

    @property
    def exact(self) -> torch.dtype | None:
        """The only admitted dtype, where there is only one."""
        if self.admitted is not None and len(self.admitted) == 1:
            return next(iter(self.admitted))
        return None

    @property
    def numeric(self) -> bool:
        """True if the dtype takes part in the call's common dtype."""
        return self.kind in _NUMERIC

    @property
    def promotes(self) -> bool:
        """True if inputs of other dtypes are cast to the common one instead of refused."""
        return self.kind in _PROMOTING

    def admits(self, dtype: torch.dtype) -> bool:
        return self.admitted is None or dtype in self.admitted

    @property
    def differentiable(self) -> bool:
        """True if a tensor of this annotation can have a derivative."""
        return self.admitted is None or bool(self.admitted & (FLOATS | COMPLEXES))

    def of_output(self, common: torch.dtype | None, first: torch.dtype, integer: torch.dtype | None) -> torch.dtype:
        """The output's dtype, from the inputs' common dtype, the first input's, and the first integer input's."""
        if self.exact is not None:
            return self.exact
        if self.kind == "Float":
            assert common is not None  # The declaration was checked for it.
            return real_twin(common) if is_inexact(common) else torch.float64
        if self.kind == "Complex":
            assert common is not None
            return complex_twin(common if is_inexact(common) else torch.float64)
        if self.kind in ("Int", "UInt", "Integer"):
            if integer is not None and self.admits(integer):
                return integer
            return torch.uint8 if self.kind == "UInt" else torch.int64
        return common if common is not None else first

    def __str__(self) -> str:
        return self.kind


ANY = Dtypes("Shaped", None)


def is_inexact(dtype: torch.dtype) -> bool:
    """Floating or complex: what a derivative can have."""
    return dtype in FLOATS or dtype in COMPLEXES


def complex_twin(dtype: torch.dtype) -> torch.dtype:
    """The complex dtype of the same precision; bfloat16, which has none, takes complex64."""
    return dtype if dtype in COMPLEXES else _TO_COMPLEX.get(dtype, torch.complex64)


def real_twin(dtype: torch.dtype) -> torch.dtype:
    """The floating dtype of the same precision."""
    return _TO_REAL.get(dtype, dtype)


@functools.cache
def promote(dtypes: frozenset[torch.dtype], *, to_float: bool) -> torch.dtype:
    """The common dtype by NumPy's rules (int64 and float32 give float64), which `Real` follows.

    Args:
        to_float: an all-integer result becomes float64, as in NumPy's floating functions.
    """
    if dtypes & {torch.bfloat16, torch.complex32}:  # NumPy does not know these: torch promotes them.
        first, *others = dtypes
        for other in others:
            first = torch.promote_types(first, other)
        return first
    result = np.result_type(*(np.dtype(name_of(dtype)) for dtype in dtypes))
    if to_float and not np.issubdtype(result, np.inexact):
        return torch.float64
    dtype = getattr(torch, result.name)
    assert isinstance(dtype, torch.dtype)
    return dtype
