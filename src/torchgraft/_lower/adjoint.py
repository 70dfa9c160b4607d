"""The derivatives of an adjoint that is written in NumPy or C.

With ``out = A(y) x`` and the rule ``A*(y) g``, the rule's own derivatives need no further declaration:

- with respect to `g`, it is linear with the adjoint A: the operator itself, applied to the cotangent in the place of x;
- with respect to `y`, ``<t, A*(y) g> = <A(y) t, g>``: the gradient of the operator at ``x = t`` with the cotangent g;
- forward, it is linear in `g`, and in every `y` in which the operator is linear.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._record import Record
from .._rules.kinds import cotangent_names
from .._rules.results import settle_gradient
from .._rules.rule import Rule
from .._spec.outputs import grouped
from .._spec.plan import leaves_of
from ..errors import DerivativeError
from .missing import missing_rule
from .operator_rule import OperatorRule
from .rule_call import RuleCall
from .vjp import VJP


def differentiate_adjoint(
    record: Record, operator: OperatorRule, call: Callable[..., list[Tensor]], vjp: Callable[[Rule], VJP]
) -> None:
    """Give the adjoint's own operator its derivatives.

    Args:
        record: of the operator whose adjoint it is.
        operator: of the adjoint's own.
        call: the operator itself, from its arguments and the number of leading batch axes.
        vjp: makes a rule of the operator callable.
    """
    operator.at_autograd(_Adjoint(record, operator, call, vjp).autograd)


class _Node(_torch.SingleLevelFunction):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, adjoint: _Adjoint, run: Any, call: RuleCall, *primals: Tensor) -> Any:
        ctx.adjoint, ctx.call = adjoint, call
        ctx.save_for_backward(
            *call.reads
        )  # They keep their tangents, for a backward pass inside the same forward level.
        return run(*replace(call, reads=primals).pack())[0]

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        reads = ctx.saved_tensors
        call = replace(ctx.call, reads=reads)
        return None, None, None, *ctx.adjoint.gradients(call, cotangent, ctx.needs_input_grad[3:])


class _Adjoint:
    def __init__(
        self, record: Record, operator: OperatorRule, call: Callable[..., list[Tensor]], vjp: Callable[[Rule], VJP]
    ) -> None:
        self.record = record
        self.operator = operator
        self.call = call
        self.vjp = vjp
        self.rule = operator.rule
        self.input = self.rule.inputs[0]
        self.cotangents = cotangent_names(self.record.signature)

    def autograd(self, keyset: Any, *args: Any) -> list[Tensor]:
        call = RuleCall.unpack(args)
        with _torch.level() if _torch.functorch_active() else contextlib.nullcontext():
            if _torch.tangents_possible():
                duals = [_torch.unpack_dual(read) for read in call.reads]
                if any(tangent is not None for _, tangent in duals):
                    made = self._record(keyset, call, [primal for primal, _ in duals])
                    return [_torch.make_dual(made, self._pushed(call, duals))]
            return [self._record(keyset, call, call.reads)]

    def _record(self, keyset: Any, call: RuleCall, primals: Sequence[Tensor]) -> Tensor:
        run = _torch.redispatch_below_autograd(self.operator.torch_op, keyset)
        if torch.is_grad_enabled() and any(read.requires_grad for read in primals):
            with _torch.single_level():
                node: Tensor = _Node.apply(self, run, call, *primals)
                return node
        result: Tensor = run(*replace(call, reads=tuple(primals)).pack())[0]
        return result

    def _named(self, call: RuleCall) -> dict[str, Any]:
        named: dict[str, Any] = dict(zip(self.operator.scalar_names, call.scalars, strict=True))
        rest = iter(zip(call.reads, call.leads, strict=True))
        for name, count in zip(self.operator.tensor_names, call.counts, strict=True):
            items = [self._with_lead(call, name, *next(rest)) for _ in range(count)]
            named[name] = items if self.operator.is_list(name) else (items[0] if items else None)
        return named

    def _with_lead(self, call: RuleCall, name: str, read: Tensor, lead: int) -> Tensor:
        """A tensor as operator and rules take it: with all leading axes, which a looping operator's inputs may lack."""
        if self.record.signature.loop and name not in self.cotangents.values():
            return read
        return read.reshape((*(1,) * (call.batch_rank - lead), *read.shape))

    def _values(self, call: RuleCall, at: Tensor) -> tuple[list[Any], int]:
        """The operator's arguments with `at` in the place of the input in which it is linear."""
        named = self._named(call)
        named[self.input] = at
        values: list[Any] = []
        for parameter in self.record.signature.parameters:
            if parameter.name not in named and not parameter.optional:
                raise DerivativeError(
                    f"its derivative needs '{parameter.name}', which the rule does not read",
                    operator=self.rule.label,
                    argument=parameter.name,
                    expected=f"a rule that asks for {parameter.name} too",
                    got=", ".join(self.rule.reads),
                )
            values.append(named.get(parameter.name))
        return values, (0 if self.record.signature.loop else call.batch_rank)

    def gradients(self, call: RuleCall, cotangent: Tensor, needed: Sequence[bool]) -> list[Tensor | None]:
        """The gradient with respect to each tensor that the rule read."""
        values, lead = self._values(call, cotangent)
        by_name: dict[str, list[Tensor]] = {}
        made = grouped(self.record.signature.outputs, self.call(values, lead))
        outputs = {o.name: v for o, v in zip(self.record.signature.outputs, made, strict=True)}
        for output, name in self.cotangents.items():
            by_name[name] = outputs[output] if isinstance(outputs[output], list) else [outputs[output]]
        plan = self.record.plan(values, lead)
        flat: list[Tensor | None] = []
        position = 0
        for name, count in zip(self.operator.tensor_names, call.counts, strict=True):
            wanted = any(needed[position : position + count])
            if not wanted:
                flat.extend([None] * count)
            elif name in by_name:
                flat.extend(by_name[name])
            else:
                flat.extend(self._with_respect_to(name, values, outputs, call, plan))
            position += count
        shapes = [read.shape for read in call.reads]
        return [None if d is None else d.sum_to_size(shape) for d, shape in zip(flat, shapes, strict=True)]

    def _with_respect_to(
        self, name: str, values: list[Any], outputs: Mapping[str, Any], call: RuleCall, plan: Any
    ) -> list[Tensor]:
        rule = self.record.reverse_rule(name)
        if rule is None:
            raise missing_rule(self.record, name, "reverse")
        vjp = self.vjp(rule)
        env = {p.name: v for p, v in zip(self.record.signature.parameters, values, strict=True)}
        named = self._named(call)
        env |= {**outputs} | {grad: named[grad] for grad in self.cotangents.values()}
        made = vjp.call(plan, *(env[read] for read in vjp.reads))
        leaves = leaves_of(plan, vjp.inputs)
        settled = [settle_gradient(vjp.label, leaf, value) for leaf, value in zip(leaves, made, strict=True)]
        return [d for leaf, d in zip(leaves, settled, strict=True) if leaf.owner == name]

    def _pushed(self, call: RuleCall, duals: Sequence[tuple[Tensor, Tensor | None]]) -> Tensor:
        """The tangent: one term for all cotangents, in which the adjoint is jointly linear, and one an input."""
        primals = [primal for primal, _ in duals]
        names = [n for n, count in zip(self.operator.tensor_names, call.counts, strict=True) for _ in range(count)]
        groups: dict[str | None, list[int]] = {}
        for i, name in enumerate(names):
            groups.setdefault(None if name in self.cotangents.values() else name, []).append(i)
        total: Tensor | None = None
        for group, places in groups.items():
            if all(duals[i][1] is None for i in places):
                continue
            if group is not None and group not in self.record.rules["adjoint"]:
                raise DerivativeError(
                    f"forward mode through the adjoint needs an adjoint for '{group}' too",
                    operator=self.rule.label,
                    argument=group,
                    expected=f'@{self.record.name}.adjoint("{group}")',
                    got="another rule, or none",
                )
            reads = list(primals)
            for i in places:
                tangent = duals[i][1]
                reads[i] = torch.zeros_like(primals[i]) if tangent is None else tangent
            term = self.operator(replace(call, reads=tuple(reads)))[0]
            total = term if total is None else total + term
        assert total is not None
        return total
