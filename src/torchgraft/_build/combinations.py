"""The combinations of dtypes that a function in C may be called with, told from its annotations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch

from .._spec.dtypes import FLOATS, HALVES, Dtypes, complex_twin, name_of
from .._spec.plan import check_dtypes
from ..errors import BuildError, DtypeError
from .cuda.text import reads_halves
from .native_function import WIDE
from .prototype import C_TYPES, Prototype
from .source import Source


def read_dtypes(names: Sequence[str]) -> tuple[torch.dtype, ...]:
    """The dtypes of names like ``float32``.

    Raises:
        BuildError: one is no dtype that C has.
    """
    known = {name_of(dtype): dtype for dtype in (*C_TYPES, *HALVES)}
    for name in names:
        if name not in known:
            raise BuildError("there is no such dtype in C", expected=", ".join(known), got=name)
    return tuple(known[name] for name in names)


def combinations(
    prototype: Prototype, dtypes: Sequence[torch.dtype], *, widened: bool = True
) -> Iterator[dict[str, torch.dtype]]:
    """Every combination, as dtypes of the tensors that are there, outputs too, by name.

    A tensor that may be left out, and a list that may be empty, is there in some and not in others. Where annotations
    say ``Complex`` or ``Inexact``, the complex twins of `dtypes` count too. The dtypes of a rule's results are those of
    its operator's inputs, which it need not read.

    Args:
        dtypes: that are wanted.
        widened: halves are float32 to the function; False for one that reads and rounds them itself.
    """
    signature = prototype.signature
    kinds = {p.name: p.tensor.dtypes for _, p in signature.tensors}
    optional = {p.name for _, p in signature.tensors if p.optional or p.many}
    results = {output.name: output.type.dtypes for output in signature.outputs}
    free = kinds | results if prototype.is_rule else kinds
    choices = [[*_choices(kind, dtypes), *([None] if name in optional else [])] for name, kind in free.items()]
    seen: list[dict[str, torch.dtype]] = []
    for chosen in itertools.product(*choices):
        there = {name: dtype for name, dtype in zip(free, chosen, strict=True) if dtype is not None}
        if not there.keys() & kinds.keys():
            continue
        try:
            found = check_dtypes(signature, [(name, free[name], dtype) for name, dtype in there.items()])
            made = there if prototype.is_rule else there | dict(zip(results, found, strict=True))
            wide = {name: WIDE.get(dtype, dtype) for name, dtype in made.items()}
            prototype.typedefs(wide)
        except DtypeError:  # These dtypes do not go together.
            continue
        made = wide if widened else made
        if made not in seen:
            seen.append(made)
            yield made


def combinations_on_cuda(
    prototype: Prototype, source: Source, dtypes: Sequence[torch.dtype]
) -> Iterator[dict[str, torch.dtype]]:
    """The combinations that have a kernel on CUDA: there are no complex elements."""
    for made in combinations(prototype, dtypes, widened=not reads_halves(prototype, source)):
        if not any(dtype.is_complex for dtype in made.values()):
            yield made


def _choices(kind: Dtypes, wanted: Sequence[torch.dtype]) -> list[torch.dtype]:
    """List the wanted dtypes that one annotation admits; integers where it admits none, for indices."""
    if kind.exact is not None:
        return [kind.exact]
    if kind.admitted is None:
        return list(wanted)
    twins = [complex_twin(dtype) for dtype in wanted if dtype in FLOATS]
    found = [dtype for dtype in dict.fromkeys((*wanted, *twins)) if kind.admits(dtype)]
    return found or [dtype for dtype in (torch.int64, torch.uint8) if kind.admits(dtype)][:1]
