"""A rule in C: which function is its own, and what that reads and writes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace

from .._build.prototype import Prototype
from .._spec.signature import Output, Parameter, Signature
from .._spec.workspace import Memory
from ..errors import DeclarationError
from .kinds import Kind, cotangent_names, differentiable_outputs


def rule_prototype(
    signature: Signature,
    kind: Kind,
    inputs: Sequence[str],
    reads: Sequence[str],
    workspaces: tuple[tuple[int, str, Memory], ...],
    symbol: str,
    label: str,
    called: Prototype | None = None,
) -> Prototype:
    """Make the prototype of a rule's C function.

    Args:
        signature: of the operator.
        reads: names of what the rule reads.
        workspaces: position, name and annotation of each.
        symbol: the stub's name; ``_`` for a name made of operator, kind and inputs.
        label: of the rule.
        called: of the user's function that this one calls, if it is ours.

    Raises:
        DeclarationError: what it reads or returns has no counterpart in C.
    """
    for name in inputs:
        parameter = signature.names[name]
        if parameter.many or (parameter.optional and len(inputs) > 1):
            raise DeclarationError(
                "a rule in C returns as many gradients as it has inputs", operator=label, argument=name,
                expected="a rule of its own for an optional input, and one in torch for a list",
                got=str(parameter.type),
            )  # fmt: skip
        _check_shape_arguments(signature, kind, inputs, reads, label)
    symbol = "_".join([signature.name, kind, *inputs]) if symbol == "_" else symbol
    rule = replace(
        signature,
        name=label,
        parameters=tuple(_read(signature, name) for name in reads),
        outputs=tuple(_results(signature, kind, inputs)),
        workspaces=workspaces,
    )
    known = Prototype(replace(signature, late=()), signature.name).sizes
    axes = [p.tensor.axes for p in rule.parameters if p.is_tensor]
    told = {token.name for item in axes if item is not None for token in item.tokens}
    sizes = [name for name in known if name in told or name not in signature.late_names]
    return Prototype(rule, symbol, sizes=sizes, called=called)


def _check_shape_arguments(
    signature: Signature, kind: Kind, inputs: Sequence[str], reads: Sequence[str], label: str
) -> None:
    """The C function computes with axes like ``{k}``, and so must be told `k`."""
    types = [_read(signature, name) for name in reads]
    tensors = [(p.name, p.tensor.axes) for p in types if p.is_tensor]
    tensors += [(result.name, result.type.axes) for result in _results(signature, kind, inputs)]
    for name, axes in tensors:
        missing = sorted(axes.reads()[1] - set(reads)) if axes is not None else []
        if missing:
            raise DeclarationError(
                f"the shape of '{name}' depends on '{missing[0]}', which the rule does not read", operator=label,
                argument=missing[0], expected=f"{missing[0]} among the stub's parameters", got=", ".join(reads),
            )  # fmt: skip


def _read(signature: Signature, name: str) -> Parameter:
    """Describe something that the rule reads as a parameter."""
    if name in signature.names:
        return replace(signature.names[name], written=False)
    cotangents = cotangent_names(signature)
    for output in signature.outputs:
        if name in (output.name, cotangents.get(output.name)):
            return Parameter(name, output.type, False, output.many, inspect.Parameter.empty, False)
    primal = signature.names[name.removesuffix("_tangent")]
    return replace(primal, name=name, optional=False, written=False)


def _results(signature: Signature, kind: Kind, inputs: Sequence[str]) -> list[Output]:
    if kind in ("vjp", "adjoint"):
        parameters = [signature.names[name] for name in inputs]  # ``grad_y`` of a written `y` is the cotangent.
        return [Output(f"grad_{p.name}{'_before' if p.written else ''}", p.tensor, False) for p in parameters]
    suffix = "tangent" if kind == "jvp" else inputs[0]
    outputs = differentiable_outputs(signature)
    return [Output(f"{output.name}_{suffix}", output.type, False, many=output.many) for output in outputs]
