"""What an operator's reference returns for given arguments."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._kernels.batching import vectorise
from .._kernels.kernel import positional
from .._op import Op
from .._record import Record
from .._spec.axes import broadcast
from .._spec.plan import convert
from .._spec.reference import Reference
from .finding import Skip

_DIGITS = 50


def reference_outputs(op: Op, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Tensor]:
    """The outputs that callers see, as the operator's reference computes them from inputs in double precision.

    Raises:
        Skip: there is no reference.
        ArgumentError, ShapeError: the operator does not take these arguments.

    Example:
        >>> reference_outputs(softplus, (torch.zeros(1),))
        [tensor([0.6931], dtype=torch.float64)]
    """
    record = op._record
    if record.reference is None:
        raise Skip("no reference is declared")
    given = {**dict(zip(record.signature.names, args, strict=False)), **(kwargs or {})}
    values = convert(record.signature, [given.get(p.name, p.default) for p in record.signature.parameters])
    values = record.promoted(values)
    leaves = [_double(leaf) for leaf in record.leaves(values)]
    call = _caller(record, record.reference)

    def of(leaves: Sequence[Tensor]) -> list[Tensor]:
        return call(record.replace(values, leaves))

    if not record.signature.loop:
        return of(leaves)
    plan = record.plan(values)
    with _torch.level():  # sample by sample, whatever the reference is made of
        return vectorise(of, leaves, [leaf.lead for leaf in plan.leaves], plan.batch)


def _double(leaf: Tensor) -> Tensor:
    leaf = leaf.detach().resolve_conj().resolve_neg()
    if leaf.is_complex():
        return leaf.to(torch.complex128)
    return leaf.double() if leaf.is_floating_point() else leaf


def _caller(record: Record, reference: Reference) -> Callable[[list[Any]], list[Tensor]]:
    """The reference on a list of arguments."""
    function = positional(record.signature, reference.function)
    several = record.signature.structure is not None

    def plain(values: list[Any]) -> list[Tensor]:
        if reference.sees == "arrays":
            arrays: list[Any] = [leaf.numpy() for leaf in record.leaves(values)]
            values = record.replace(values, arrays)
        made = function(*values)
        return [torch.as_tensor(output) for output in (made if several else [made])]

    def each(values: list[Any]) -> list[Tensor]:
        leaves = record.leaves(values)
        shape = broadcast(*(tuple(leaf.shape) for leaf in leaves))
        columns = [leaf.broadcast_to(shape).reshape(-1).tolist() for leaf in leaves]
        with _precision(reference):
            rows = [
                function(*record.replace(values, [_number(reference, item) for item in row]))
                for row in zip(*columns, strict=True)
            ]
        made = [[row[i] for row in rows] for i in range(len(record.signature.visible))] if several else [rows]
        return [_tensor(column).reshape(shape) for column in made]

    return each if reference.sees == "numbers" else plain


def _number(reference: Reference, item: Any) -> Any:
    """An element as the reference wants it; a complex one is made by `complex`, or by mpmath's `mpc`."""
    assert reference.number is not None
    if isinstance(item, complex):
        return _mpmath(reference).mpc(item) if _mpmath(reference) else item
    return reference.number(item)


def _tensor(items: Sequence[Any]) -> Tensor:
    """Numbers of Python or mpmath as a tensor in double precision."""
    if any(isinstance(item, complex) or hasattr(item, "_mpc_") for item in items):
        return torch.tensor([complex(item) for item in items], dtype=torch.complex128)
    return torch.tensor([float(item) for item in items], dtype=torch.float64)


def _mpmath(reference: Reference) -> Any:
    if getattr(reference.number, "__module__", "").partition(".")[0] != "mpmath":
        return None
    return importlib.import_module("mpmath")


def _precision(reference: Reference) -> contextlib.AbstractContextManager[Any]:
    mpmath = _mpmath(reference)
    return mpmath.workdps(_DIGITS) if mpmath else contextlib.nullcontext()
