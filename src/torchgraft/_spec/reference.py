"""A reference: a slow, right implementation that an operator's values are compared with."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import DeclarationError
from .reading import resolve_hints, with_structures
from .signature import Signature

Sees = Literal["tensors", "arrays", "numbers"]


@dataclass(frozen=True)
class Reference:
    """The reference that `Op.reference` declared.

    Attributes:
        function: it has the operator's parameters.
        sees: what it gets for tensors: ``numbers`` means one element at a time.
        signature: the operator's, with the classes by which the reference annotates structures.
        number: makes such a number of a Python one; it is mpmath's ``mpf`` or ``mpc``, or ``float`` or ``complex``.
    """

    function: Callable[..., Any]
    sees: Sees
    signature: Signature
    number: Callable[[Any], Any] | None = None


def read_reference(signature: Signature, function: Callable[..., Any], *, frames: int) -> Reference:
    """The reference that `function` is.

    Args:
        frames: how many frames up the declaration stands, whose local names annotations may use.

    Raises:
        DeclarationError: it has other parameters, or sees numbers and the operator is not elementwise.
    """
    if isinstance(function, np.ufunc):
        return Reference(function, "arrays", signature)
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # Some builtins tell nothing.
        return Reference(function, "tensors", signature)
    wanted = [item.name for item in signature.given]
    if parameters != wanted:
        raise DeclarationError(
            "the reference has other parameters",
            operator=signature.name,
            expected=", ".join(wanted),
            got=", ".join(parameters),
        )
    signature, arrays = with_structures(signature, function, frames=frames)
    hints = resolve_hints(function, signature.name, sys._getframe(frames + 1))
    seen = [hints[parameter.name] for _, parameter in signature.tensors if parameter.name in hints]
    if arrays or any("ndarray" in str(hint) for hint in seen):
        return Reference(function, "arrays", signature)
    number = next((hint for hint in seen if _is_number(hint)), None)
    if number is None:
        return Reference(function, "tensors", signature)
    if not signature.elementwise:
        raise DeclarationError(
            "a reference on numbers is for elementwise operators",
            operator=signature.name,
            expected='every tensor annotated "..."',
            got=", ".join(f"{p.name}: {p.tensor}" for _, p in signature.tensors),
            hint="take tensors or arrays, and loop",
        )
    return Reference(function, "numbers", signature, number)


def _is_number(hint: Any) -> bool:
    """Return True if an annotation is a type of numbers: Python's, or mpmath's, which is not imported for that."""
    return hint in (float, complex) or getattr(hint, "__module__", "").partition(".")[0] == "mpmath"
