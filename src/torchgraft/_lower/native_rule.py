"""A rule in C: as an operator, and as backward calls it where nothing but plain tensors is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import _torch
from .._build import debug
from .._generated import compile_source
from .._spec.axes import broadcast
from .._spec.plan import Leaf, Plan, leaves_of
from .operator_rule import OperatorRule
from .rule_call import RuleCall

if TYPE_CHECKING:
    from .._build.native_function import NativeFunction


class NativeRule(OperatorRule):
    """A rule in C or C++."""

    def _run(self, call: RuleCall) -> list[Tensor]:
        assert self.rule.native is not None
        values: dict[str, Any] = dict(zip(self.scalar_names, call.scalars, strict=True))
        leads: dict[str, list[int]] = {}
        rest = iter(zip(call.reads, call.leads, strict=True))
        for name, count in zip(self.tensor_names, call.counts, strict=True):
            found = [next(rest) for _ in range(count)]
            many = self.is_list(name)
            values[name] = [read for read, _ in found] if many else (found[0][0] if found else None)
            leads[name] = [lead for _, lead in found]
        return self.rule.native.run(
            [values[name] for name in self.rule.reads],
            [lead for name in self.rule.reads for lead in leads.get(name, ())],
            call.batch_rank,
            call.results,
            dict(zip(self.size_names, call.sizes, strict=True)),
        )


_MEMO_SIZE = 1024
_PULL = """\
def vjp(plan, {reads}):
    entry = entries.get(id(plan))
    if entry is not None:
        function, admits, _ = entry
        if admits({tensors}):
            try:
                return function({reads})
            except error as raised:
                raise explained(raised, ({reads},)) from None
    return find(plan, {reads})
"""


class NativeVJP:
    """A reverse rule in C for backward's plain case: one C call to recognise the tensors, one to compute.

    Args:
        inputs: whose gradients it computes.
        reads: what it is called with.
        native: the function.

    Attributes:
        function: takes the plan and what the rule reads; returns the gradients in the shapes of their inputs, one or
            a tuple, or None where this is not the plain case.
    """

    def __init__(self, inputs: Sequence[str], reads: Sequence[str], native: NativeFunction) -> None:
        self.inputs = inputs
        self.native = native
        self._tensors = [i for i, _ in native.prototype.signature.tensors]
        # Names of no meaning, so that none hides another.
        names = [f"r{i}" for i in range(len(reads))]
        tensors = [f"{names[i]} if {names[i]} is not None else absent({i})" for i in self._tensors]
        source = _PULL.format(reads=", ".join(names), tensors=", ".join(tensors))
        debug.remembers(self)
        # By the plan's identity, which lives as long as the entry.
        self._entries: dict[int, tuple[Callable[..., Any], Callable[..., bool], Plan]] = {}
        namespace = {
            "entries": self._entries, "find": self._find, "absent": _torch.absent, "error": RuntimeError, "id": id,
            "explained": native.explained,
        }  # fmt: skip
        self.function: Callable[..., Any] = compile_source(source, native.label, namespace)["vjp"]

    def forget(self) -> None:
        """Forget what was recognised; the functions may be others now."""
        self._entries.clear()

    def _find(self, plan: Plan, *values: Any) -> Any:
        leaves = leaves_of(plan, self.inputs)
        reads = [values[i] for i in self._tensors if values[i] is not None]
        lists = any(p.many for _, p in self.native.prototype.signature.tensors)
        if lists or plan.batch or not _torch.is_direct(reads):
            return None
        function = self._function(plan, values, [(leaf.full, leaf.dtype) for leaf in leaves])
        if any(leaf.full != leaf.shape for leaf in leaves):
            function = _summing(function, leaves)
        seen = [_torch.absent(i) if values[i] is None else values[i] for i in self._tensors]
        if len(self._entries) >= _MEMO_SIZE:
            self._entries.clear()
        self._entries[id(plan)] = function, _torch.plain_tensors(*seen), plan
        return self.native.call(function, *values)

    def _function(
        self, plan: Plan, values: Sequence[Any], results: Sequence[tuple[Any, torch.dtype]]
    ) -> Callable[..., Any]:
        native, shapes = self.native, [shape for shape, _ in results]
        device = native.device_of(values)
        may_be_told = device is None or native.prototype.scalar  # A kernel on CUDA is given the sizes of samples.
        told = may_be_told and self._told(values, shapes)
        trailing = None if told else native.trailing(plan.sizes, shapes, device)
        outputs = tuple(dtype for _, dtype in results)
        ready = native.ready(values, outputs, trailing)
        if ready is not None:
            return ready
        function = native.variant(native.dtypes(values), outputs, bare=trailing is None, device=device)
        return function if trailing is None else lambda *values: function(*values, *trailing)

    def _told(self, values: Sequence[Any], shapes: Sequence[Any]) -> bool:
        """Return True if the rule's arguments tell the sizes of its results: nothing is summed or broadcasts."""
        prototype = self.native.prototype
        if not prototype.tells_sizes or any(values[i] is None for i in self._tensors):
            return False
        arrays = {a.name: len(a.core.tokens) for a in prototype.arrays if a.core is not None}
        names = {i: p.name for i, p in prototype.signature.tensors}
        batches = [tuple(values[i].shape[: values[i].dim() - arrays[names[i]]]) for i in self._tensors]
        batch = broadcast(*batches)
        counts = [0 if r.core is None else len(r.core.tokens) for r in prototype.results]
        return all(tuple(shape[: len(shape) - n]) == batch for shape, n in zip(shapes, counts, strict=True))


def _summing(function: Callable[..., Any], leaves: Sequence[Leaf]) -> Callable[..., Any]:
    """`function` with its gradients in the shapes of inputs that broadcast."""

    def call(*values: Any) -> Any:
        made = function(*values)
        if isinstance(made, Tensor):
            return leaves[0].summed(made)
        return tuple(leaf.summed(value) for leaf, value in zip(leaves, made, strict=True))

    return call
