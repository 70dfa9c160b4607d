"""A rule that tracers cannot see into, as an operator of the dispatcher, so that compilers and `vmap` can carry it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._mesh.call import replicated_call
from .._record import Record
from .._rules.kinds import list_names
from .._rules.rule import Rule
from .dispatcher_op import DispatcherOp, companion
from .rule_call import SCHEMA, RuleCall


class OperatorRule(ABC):
    """A rule as an operator; that its own derivative raises is seen to by the caller (`connect`).

    Attributes:
        reads: what it is called with: what the rule reads, and for an adjoint, whose derivative is the operator again,
            every non-tensor argument.
    """

    def __init__(self, record: Record, rule: Rule) -> None:
        self.record = record
        self.rule = rule
        self.many = {name for name in rule.inputs if record.signature.names[name].many}
        names = record.signature.names
        scalars = tuple(n for n in names if not names[n].is_tensor) if rule.kind == "adjoint" else ()
        self._lists = list_names(record.signature)
        self.reads = tuple(dict.fromkeys((*rule.reads, *scalars)))
        self.scalar_names = tuple(n for n in self.reads if n in names and not names[n].is_tensor)
        self.tensor_names = tuple(n for n in self.reads if n not in self.scalar_names)
        self.size_names = tuple(rule.native.prototype.sizes) if rule.native is not None else ()
        schema = "".join(f", {names[n].scalar.schema}{'?' if names[n].optional else ''} {n}" for n in self.scalar_names)
        name = companion(record.qualname, f"{rule.kind}_{'_'.join(rule.inputs)}")
        tags = () if rule.native is not None and rule.runs_on("cuda") else (torch.Tag.cudagraph_unsafe,)
        self._dispatched = DispatcherOp(name, SCHEMA.format(scalars=schema), tags=tags)
        self._dispatched.backend(self._backend)
        self._dispatched.fake(self._fake)
        self._dispatched.vmap(self._vmap)
        self._dispatched.dtensors(self._on_mesh)
        self._dispatched.at_key("Batched", self._legacy_vmap)
        if rule.kind != "adjoint":  # An adjoint gets its derivatives from `differentiate_adjoint`.
            self._dispatched.at_key("Autograd", _torch.fallthrough_kernel)

    @abstractmethod
    def _run(self, call: RuleCall) -> list[Tensor]:
        """Compute the results of the rule."""

    @property
    def torch_op(self) -> Any:
        return self._dispatched.torch_op

    def at_autograd(self, kernel: Callable[..., Any]) -> None:
        """Give the rule derivatives of its own."""
        self._dispatched.at_key("Autograd", kernel, with_keyset=True)

    def __call__(self, call: RuleCall) -> list[Tensor]:
        if not call.reads:
            with _torch.directly():
                numbers = [(result.item(), result.dtype) for result in self._run(call)]
            return [torch.scalar_tensor(number, dtype=dtype) for number, dtype in numbers]
        recording = torch.is_grad_enabled() and any(read.requires_grad for read in call.reads)
        if not recording and _torch.is_direct(call.reads) and call.reads[0].is_cpu:
            return self._run(call)
        return list(self._dispatched(*call.pack()))

    def is_list(self, name: str) -> bool:
        """Return True if what the rule reads under a name is a list of tensors."""
        parameter = self.record.signature.names.get(name.removesuffix("_tangent"))
        return parameter.many if parameter is not None else name in self._lists

    # -- what the dispatcher calls --------------------------------------------------------------------------

    def _backend(self, *args: Any) -> list[Tensor]:
        return self._run(RuleCall.unpack(args))

    def _fake(self, *args: Any) -> list[Tensor]:
        call = RuleCall.unpack(args)
        return [torch.empty(shape, dtype=dtype, device=call.reads[0].device) for shape, dtype in call.results]

    def _on_mesh(self, *args: Any) -> list[Tensor]:
        """Run the rule on all ranks alike. DTensors come here where a transform differentiates before the mesh cuts."""
        call = RuleCall.unpack(args)
        return replicated_call(self.rule.label, lambda reads: self(replace(call, reads=tuple(reads))), call.reads)

    def _vmap(self, info: Any, in_dims: Any, *args: Any) -> Any:
        made = self._mapped(RuleCall.unpack(args), in_dims[0], info.batch_size)
        return made, [0] * len(made)

    def _legacy_vmap(self, *args: Any) -> list[Tensor]:
        call = RuleCall.unpack(args)
        level, reads, dims = _torch.legacy_unwrap(call.reads)
        size = next(read.shape[0] for read, dim in zip(reads, dims, strict=True) if dim is not None)
        plain = replace(call, reads=tuple(reads))
        return [_torch.legacy_wrap(result, level) for result in self._mapped(plain, dims, size)]

    def _mapped(self, call: RuleCall, dims: Sequence[int | None], size: int) -> list[Tensor]:
        rank = call.batch_rank
        reads: list[Tensor] = []
        leads: list[int] = []
        for leaf, lead, dim in zip(call.reads, call.leads, dims, strict=True):
            if dim is not None:  # Axes of size 1 line the new axis up with the others' leading ones.
                moved = leaf.movedim(dim, 0)
                ones = (1,) * (rank - lead)
                reads.append(moved.reshape(moved.shape[0], *ones, *moved.shape[1:]))
                leads.append(rank + 1)
            else:
                reads.append(leaf)
                leads.append(lead)
        results = tuple(((size, *shape), dtype) for shape, dtype in call.results)
        return self(replace(call, reads=tuple(reads), leads=tuple(leads), results=results))
