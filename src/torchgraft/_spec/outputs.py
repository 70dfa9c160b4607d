"""Outputs one by one, where one of them may be a list of tensors: flat inside of torchgraft, in groups for rules.

Beside a list every other output is one tensor, so that the number of all tensors tells the length of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def many(self) -> bool: ...


Kind = TypeVar("Kind", bound=_Named)


def spread(outputs: Sequence[Kind], count: int) -> list[Kind]:
    """The output that each of `count` tensors belongs to."""
    length = count - len(outputs) + 1
    return [output for output in outputs for _ in range(length if output.many else 1)]


def leaf_names(outputs: Sequence[Kind], count: int) -> list[str]:
    """The name of each of `count` tensors: ``out[2]`` in a list."""
    length = count - len(outputs) + 1
    return [name for o in outputs for name in ([f"{o.name}[{i}]" for i in range(length)] if o.many else [o.name])]


def grouped(outputs: Sequence[Kind], leaves: Sequence[Any]) -> list[Any]:
    """One value for each output: a list of tensors for one that is a list."""
    length = len(leaves) - len(outputs) + 1
    rest = iter(leaves)
    return [[next(rest) for _ in range(length)] if output.many else next(rest) for output in outputs]


def flattened(outputs: Sequence[Kind], groups: Sequence[Any]) -> list[Any]:
    """The values of `grouped`, one after another."""
    flat: list[Any] = []
    for output, group in zip(outputs, groups, strict=True):
        flat.extend(group) if output.many else flat.append(group)
    return flat
