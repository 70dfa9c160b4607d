"""Dataclasses as pytrees: what torch's transforms take apart, map and put together again.

Fields that are tensors are children; all else belongs to the context. As a child, a number would make
`torch.func.grad` raise. NamedTuples are always torch's own, numbers and all: it looks up no registration for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils import _pytree


def register_dataclass(cls: type, children: Sequence[str], rest: Sequence[str], optional: Sequence[str]) -> None:
    """Register a class as a pytree, if nobody has done so.

    Args:
        cls: the dataclass.
        children: names of the fields that are tensors, lists of them, or structures.
        rest: names of the other fields, which the context holds.
        optional: the children that may be None, and then belong to the context.
    """
    if cls in _pytree.SUPPORTED_NODES:
        return

    def flatten(value: Any) -> tuple[list[Any], Any]:
        held = [name for name in children if name not in optional or getattr(value, name) is not None]
        return [getattr(value, name) for name in held], (tuple(held), tuple([getattr(value, name) for name in rest]))

    def unflatten(leaves: Iterable[Any], context: Any) -> Any:
        held, numbers = context
        made: Any = object.__new__(cls)  # Transforms put anything in, which `__init__` may refuse.
        for name in optional:
            object.__setattr__(made, name, None)
        for name, leaf in zip(held, leaves, strict=True):
            object.__setattr__(made, name, leaf)
        for name, number in zip(rest, numbers, strict=True):
            object.__setattr__(made, name, number)
        return made

    def flatten_with_keys(value: Any) -> tuple[list[tuple[Any, Any]], Any]:
        leaves, context = flatten(value)
        return [(_pytree.GetAttrKey(name), leaf) for name, leaf in zip(context[0], leaves, strict=True)], context

    _pytree.register_pytree_node(
        cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}", to_dumpable_context=_dump,
        from_dumpable_context=_load,
    )  # fmt: skip


def _dump(context: Any) -> str:
    """A context as JSON, for exported programs in files."""
    held, numbers = context
    return json.dumps([held, [_written(number) for number in numbers]])


def _load(text: str) -> Any:
    held, numbers = json.loads(text)
    return tuple(held), tuple([_read(number) for number in numbers])


def _written(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_written(item) for item in value]}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, (torch.dtype, torch.device)):
        return {type(value).__name__: str(value).removeprefix("torch.")}
    return value


def _read(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    match kind:
        case "list":
            return [_read(item) for item in held]
        case "tuple":
            return tuple([_read(item) for item in held])
        case "complex":
            return complex(*held)
        case "dtype":
            return getattr(torch, held)
    return torch.device(held)
