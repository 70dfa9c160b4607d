"""The signature of a target: an operator's own, or that of a function with jaxtyping annotations."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from ..._errors import ArgumentError, DeclarationError
from ..._spec.domain import Domain, check_domains, declared_domains
from ..._spec.reading import read_signature, resolve_hints
from ..._spec.signature import Signature
from ..target import Target, contexts, function_of


def signature_of(target: Target) -> tuple[Signature, Mapping[str, Domain]] | None:
    """The signature and the domains of a target; None where annotations do not say what it takes."""
    if target.operator is not None:
        record = target.operator._record
        return record.signature, record.domains
    function, bound = _annotated(target.origin)
    if function is None:
        return None
    try:
        signature = _read(function, target.name, bound)
        domains = declared_domains(function)
        check_domains(signature, domains)
    except DeclarationError:
        return None
    shaped = all(parameter.tensor.axes is not None for _, parameter in signature.tensors)
    return (signature, domains) if shaped else None


def needed(target: Target) -> tuple[Signature, Mapping[str, Domain]]:
    """The same where there is no other way to arguments.

    Raises:
        ArgumentError: annotations do not say what the target takes.
    """
    found = signature_of(target)
    if found is None:
        raise ArgumentError(
            f"nothing says what {target.name} takes", argument="inputs",
            expected="inputs, or a jaxtyping annotation of each parameter", got="neither",
            hint="pass tensors to check it with",
        )  # fmt: skip
    return found


def _annotated(origin: Any) -> tuple[Callable[..., Any] | None, int]:
    """The Python function that a user wrote, and how many of its first parameters callers do not pass."""
    if isinstance(origin, nn.Module):
        return type(origin).forward, 1
    owner = function_of(origin)
    if owner is not None:
        return getattr(owner, "forward", None), contexts(owner)
    function = inspect.unwrap(origin) if callable(origin) else None
    return (function if isinstance(function, types.FunctionType) else None), 0


def _read(function: Callable[..., Any], name: str, bound: int) -> Signature:
    """The signature without the first parameters; a return annotation that is no tensor says nothing about shapes."""
    hints = resolve_hints(function, name, None)
    parameters = list(inspect.signature(function).parameters.values())[bound:]
    if any(p.name not in hints for p in parameters):
        raise DeclarationError("has parameters without annotations", operator=name)
    kept = {p.name: hints[p.name] for p in parameters}
    given = hints.get("return")
    for returned in (given, Tensor):

        def stub() -> None: ...

        stub.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        stub.__annotations__ = {**kept, "return": returned}
        try:
            return read_signature(stub, name, loop=False, frames=0)
        except DeclarationError:
            if returned is Tensor:
                raise
    raise AssertionError  # pragma: no cover
