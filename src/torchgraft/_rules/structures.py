"""Structures in rules: what a rule asks for as a whole, and what it returns as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._spec.reading import own_structure
from .._spec.signature import Signature
from .._spec.structures import Structure, gathering
from ..errors import RuleError
from .kinds import Kind
from .results import as_results


def readable_wholes(
    signature: Signature, kind: Kind, given: Iterable[str], inputs: Sequence[str]
) -> dict[str, Structure]:
    """The structures that a rule may ask for, by name; a jvp for a structure has its tangent, which is one too.

    Args:
        given: what the rule is a derivative with respect to, as its author wrote it.
        inputs: the same, as parameters.
    """
    wholes = signature.wholes
    if kind == "adjoint":  # An adjoint does not depend on the value of its input.
        return {name: whole for name, whole in wholes.items() if not set(inputs) & set(whole.parameters)}
    if kind != "jvp":
        return wholes

    def tangent(name: str) -> str:
        return f"{name}_tangent" if name in inputs else name

    moved = [whole for name in given if (whole := signature.whole(name)) is not None]
    return wholes | {f"{whole.identifier}_tangent": whole.renamed(tangent) for whole in moved}


class Asked:
    """The names that a rule asks for, among them those of structures, and the parameters behind them.

    Attributes:
        names: of the parameters and of all else, each once.
        arrays: a structure is annotated with a class whose fields are arrays.
    """

    def __init__(
        self,
        signature: Signature,
        asked: Iterable[str],
        wholes: Mapping[str, Structure],
        hints: Mapping[str, Any],
        label: str,
        scope: Mapping[str, Any],
    ) -> None:
        self._signature, self._label = signature, label
        self._items: list[str | Structure] = []
        self._own: dict[str, type] = {}
        self.arrays = False
        for name in asked:
            item: str | Structure = wholes.get(name, name)
            if isinstance(item, Structure) and name in signature.wholes:
                item, arrays = own_structure(signature, item, hints.get(name), label, scope)
                self._own[name] = item.cls
                self.arrays |= arrays
            self._items.append(item)
        flat = [n for item in self._items for n in ((item,) if isinstance(item, str) else item.parameters)]
        self.names = tuple(dict.fromkeys(flat))

    def wrap(self, function: Callable[..., Any], returned: Sequence[str]) -> Callable[..., Any]:
        """The rule as a function of fields, which returns the gradients of fields.

        Args:
            function: the rule, by position.
            returned: names of its results, of which some may be structures.
        """
        wholes = [self._signature.whole(name) for name in returned]
        if any(whole is not None for whole in wholes):
            function = self._splitting(function, returned, wholes)
        if all(isinstance(item, str) for item in self._items):
            return function
        return gathering(function, self._items)

    def _splitting(
        self, function: Callable[..., Any], names: Sequence[str], wholes: Sequence[Structure | None]
    ) -> Callable[..., Any]:
        """`function` with the fields of structures that it returns one by one."""

        def call(*values: Any) -> Any:
            flat: list[Any] = []
            results = as_results(self._label, function(*values), names, many=False)
            for name, whole, result in zip(names, wholes, results, strict=True):
                flat += [result] if whole is None else self._fields(name, whole, result)
            return flat[0] if len(flat) == 1 else tuple(flat)

        return call

    def _fields(self, name: str, whole: Structure, result: Any) -> list[Any]:
        if type(result) not in (whole.cls, self._own.get(whole.identifier)):
            raise RuleError(
                f"returned {type(result).__name__}", operator=self._label, argument=name,
                expected=f"a {whole.cls.__name__} with the gradients in its fields", got=type(result).__name__,
                hint=f"return {whole.cls.__name__}(...); numbers in it are not looked at",
            )  # fmt: skip
        found = dict(zip(whole.parameters, whole.values(result), strict=True))
        return [found[n] for n in self._signature.inputs(name)]
