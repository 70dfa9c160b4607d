"""The kinds of rules, and the names of the cotangents that they may ask for."""

from __future__ import annotations

from typing import Literal

from .._spec.signature import Output, Signature

Kind = Literal["vjp", "jvp", "partial", "adjoint"]


def differentiable_outputs(signature: Signature) -> tuple[Output, ...]:
    """The outputs that have a cotangent."""
    return tuple(output for output in signature.outputs if output.floating and not output.inert)


def cotangent_names(signature: Signature) -> dict[str, str]:
    """For each differentiable output the name of its cotangent: ``grad``, or ``grad_NAME`` if several are floating.

    That of a written argument's value is ``grad_ARGUMENT``. An output without a derivative has none; the names of the
    others do not change by it.
    """
    single = sum(output.floating for output in signature.outputs) == 1 and not signature.written
    return {o.name: "grad" if single else f"grad_{o.after or o.name}" for o in differentiable_outputs(signature)}


def list_names(signature: Signature) -> set[str]:
    """The names under which rules read a list of tensors for a list that is an output: its own, its cotangent's."""
    cotangents = cotangent_names(signature)
    lists = [output.name for output in signature.outputs if output.many]
    return {*lists, *(cotangents[name] for name in lists if name in cotangents)}


def inert_outputs(signature: Signature) -> tuple[Output, ...]:
    """The floating outputs that were declared to have no derivative."""
    return tuple(output for output in signature.outputs if output.inert)
