"""Structures as pytrees, so that torch's transforms take them and give them back."""

from __future__ import annotations

from .. import _torch
from .signature import Signature
from .structures import Structure


def register_structures(signature: Signature) -> None:
    """Register the dataclasses that an operator takes, as far as their author has not."""
    for structure in signature.wholes.values():
        if not structure.is_tuple:
            _register(structure, signature)


def _register(structure: Structure, signature: Signature) -> None:
    parameters = {f: signature.names[kept] for f, kept in structure.fields if isinstance(kept, str)}
    rest = [field for field, parameter in parameters.items() if not parameter.is_tensor]
    optional = [field for field, p in parameters.items() if p.is_tensor and p.optional]
    children = [field for field, _ in structure.fields if field not in rest]
    _torch.register_dataclass(structure.cls, children, rest, optional)
