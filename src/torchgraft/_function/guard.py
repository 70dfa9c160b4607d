"""Backward while a graph is being recorded: what it returns has the right derivative, or one that refuses.

A second derivative is wrong without a word where backward leaves torch (``.data``, NumPy, ``no_grad``), or reads what
forward computed out of autograd's sight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from .. import _torch
from .._lower.refuse import Why, refuse_derivative
from .._lower.watch import Watch
from .._spec.dtypes import is_inexact
from ..errors import DerivativeError
from .call import Call, attributes_of
from .context import handing_out, take_constants
from .dialect import Dialect
from .nested import hides_tensors, tensors_in

_REMEDY = (
    "compute from the inputs again, with torch functions; or @once_differentiable on backward if first derivatives are "
    "enough; or ctx.mark_constant(tensor) for what is constant on purpose"
)

_ONCE = Why(
    "it is marked with once_differentiable",
    "ask for first derivatives only; or write it with torch functions, and take the mark away",
)
_INTERMEDIATE = Why("it reads what forward computed and saved", _REMEDY)
_DETACHED = Why("its result is detached from what it was computed from", _REMEDY)


def guarded(
    label: str,
    call: Call,
    ctx: Any,
    run: Callable[[], Any],
    linear: Sequence[Any],
    inputs: Callable[[], Sequence[Tensor]],
    *,
    once: bool = False,
) -> tuple[Any, ...]:
    """Return the result of `run`, connected to a refusal where its own derivative would be wrong.

    Args:
        label: of what is run.
        call: the call of the Function.
        ctx: its context.
        run: runs backward or jvp, and checks what it returned.
        linear: the cotangents or tangents.
        inputs: the inputs that need a gradient; raises where they cannot be had any more.
        once: whether what is run says of itself that it cannot be differentiated.
    """
    # Ask before it runs: backward may use up what it finds there.
    attributes = [tensor for attribute in call.attributes if (tensor := attribute.tensor()) is not None]
    hidden = call.intermediates or hides_tensors(attributes_of(ctx), [*call.given, *attributes])
    given = [*linear, *tensors_in(attributes_of(ctx))]
    with Watch(given, lambda: vars(ctx).get("_graft_constants", ())) as watch, handing_out(ctx, watch.know):
        made: tuple[Any, ...] = run()
        lost = [watch.lost(value) for value in made]
    constants = take_constants(ctx)
    cotangents = [value for value in linear if isinstance(value, Tensor)]
    needed = set[int]().union(*map(_torch.recording_levels, cotangents))
    sources = cotangents
    if hidden or any(lost):
        saved = _saved(ctx)
        sources = [*cotangents, *(saved or ()), *attributes]
        sources += inputs() if hidden or saved is None else ()

    def connected(value: Any, lost: str | None) -> Any:
        if not isinstance(value, Tensor) or not is_inexact(value.dtype) or any(value is c for c in constants):
            return value
        if once and (lost is not None or hidden or needed - _torch.recording_levels(value)):
            return refuse_derivative(value, sources, label, _ONCE)
        if lost is not None:
            return refuse_derivative(value, sources, label, Why(f"it leaves torch through {lost}", _REMEDY))
        if hidden:
            return refuse_derivative(value, sources, label, _INTERMEDIATE)
        if needed - _torch.recording_levels(value):
            return refuse_derivative(value, sources, label, _DETACHED)
        return value

    return tuple(map(connected, made, lost))


def _saved(ctx: Any) -> list[Tensor] | None:
    """The saved tensors; None where they can be had once (``clear_saved_tensors_on_access``, checkpointing)."""
    try:
        return [t for t in ctx.saved_tensors if t is not None]
    except RuntimeError:
        return None


def node_inputs(dialect: Dialect, ctx: Any, call: Call) -> list[Tensor]:
    """The inputs of a node that need a gradient, found without having kept them alive.

    Raises:
        DerivativeError: one of them is gone, so that nothing could refuse its second derivative.
    """
    found: list[Tensor] = []
    edges = [edge for edge in ctx.next_functions if edge[0] is not None]
    saved = _saved(ctx) or ()
    for i, (node, number) in enumerate(edges):
        tensor = getattr(node, "variable", call.inputs[i]() if call.inputs else None)
        if tensor is None:
            tensor = next((t for t in saved if t.grad_fn is node and t.output_nr == number), None)
        if tensor is None:
            raise DerivativeError(
                "cannot be differentiated again: it reads what forward computed and saved, and not its inputs",
                operator=f"{dialect.name}.{dialect.reverse}",
                expected="a backward pass without create_graph",
                got="create_graph=True",
                hint=_REMEDY,
            )
        found.append(tensor)
    return found
