"""The kinds of rules, and the names of the cotangents that they may ask for."""

from __future__ import annotations

from typing import Literal

from .._spec.signature import Output, Signature

Kind = Literal["vjp", "jvp", "partial", "adjoint"]


def differentiable_outputs(signature: Signature) -> tuple[Output, ...]:
    """The visible outputs that can have a cotangent."""
    return tuple(output for output in signature.visible if output.type.dtypes.differentiable)


def cotangent_names(signature: Signature) -> dict[str, str]:
    """For each differentiable output the name of its cotangent: ``grad``, or ``grad_NAME`` if there are several."""
    outputs = differentiable_outputs(signature)
    if len(outputs) == 1:
        return {outputs[0].name: "grad"}
    return {output.name: f"grad_{output.name}" for output in outputs}
