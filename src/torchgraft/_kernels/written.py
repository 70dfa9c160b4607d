"""Functions that write into their arguments, made functions that return the new values instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import Tensor

from .._spec.plan import Plan
from .._spec.signature import Signature
from ..errors import KernelError

A = TypeVar("A")


def on_copies(signature: Signature, function: Callable[..., Any], copy: Callable[[A], A]) -> Callable[..., Any]:
    """`function`, writing into copies of the arguments that it writes, which are its first results."""
    places = written_places(signature)
    alone = len(signature.outputs) == 1

    def call(*values: Any) -> Any:
        given = list(values)
        for i in places:
            given[i] = copy(values[i])
        beside = results_beside(signature, function(*given))
        return given[places[0]] if alone else (*(given[i] for i in places), *beside)

    return call


def written_places(signature: Signature) -> list[int]:
    """The positions of the parameters that are written."""
    return [i for i, parameter in enumerate(signature.parameters) if parameter.written]


def results_beside(signature: Signature, result: Any) -> Sequence[Any]:
    """The results of a function that writes, one by one; a wrong number of them raises."""
    count = len(signature.returned)
    if count == 0 and result is None:
        return ()
    if count == 1 and signature.beside is None and not isinstance(result, (tuple, list)):
        return (result,)
    if count and isinstance(result, (tuple, list)) and len(result) == count:
        return result
    names = ", ".join(output.name for output in signature.returned)
    raise KernelError(
        "the kernel returned the wrong number of outputs",
        operator=signature.name,
        expected=f"{count}: {names}" if count else "None: its annotation says that it only writes",
        got=len(result) if isinstance(result, (tuple, list)) else type(result).__name__,
        hint=None if count else f"write the result into {', '.join(p.name for p in signature.written)}, return nothing",
    )


def in_full(signature: Signature, values: Sequence[Any], plan: Plan) -> Sequence[Any]:
    """`values` with what is written in its full shape: it has a place for each result, also under a mapped axis."""
    changed = list(values)
    for i, (shape, _) in zip(written_places(signature), plan.outputs, strict=False):
        value: Tensor = values[i]
        changed[i] = value if shape is None or value.shape == shape else value.expand(shape)
    same = all(one is other for one, other in zip(changed, values, strict=True))
    return values if same else changed


def leads_in_full(signature: Signature, plan: Plan) -> list[int]:
    """The number of leading axes of each tensor of `in_full`."""
    written = {parameter.name for parameter in signature.written}
    return [len(plan.batch) if leaf.owner in written else leaf.lead for leaf in plan.leaves]
