"""A reverse rule made callable on tensors: VJP, partial and adjoint, in torch or NumPy, batched or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .._kernels.batching import vectorise
from .._record import Record
from .._rules.kinds import cotangent_names, differentiable_outputs
from .._rules.results import as_results, settle_partial
from .._rules.rule import Rule
from .._spec.plan import Plan, leaves_of, seeded_reads
from ..errors import RuleError
from .native_rule import NativeVJP
from .operator_rule import OperatorRule
from .rule_call import RuleCall

Weigh = Callable[[Tensor, Tensor], Tensor]
"""The product of a cotangent or tangent with a partial derivative: zero where the first is zero."""


@dataclass(frozen=True, eq=False)
class VJP:
    """A VJP: it computes the gradients of some inputs.

    Attributes:
        label: ``linear.vjp[weight]``.
        inputs: names of the inputs.
        reads: names of what it needs: inputs, outputs, cotangents, non-tensor arguments.
        call: takes the plan and the values read, returns one gradient for each leaf of the inputs, not yet settled.
        direct: the user's function itself, which takes the values read and returns the gradient of its input or a
            tuple of them; None where `call` must do more.
        native: of a rule in C: takes the plan and the values read, returns settled gradients, or None where these are
            not plain tensors.
        opaque: what it returns cannot be differentiated.
        residual: it reads a floating `Saved` output.
    """

    label: str
    inputs: tuple[str, ...]
    reads: tuple[str, ...]
    call: Callable[..., Sequence[Any]]
    direct: Callable[..., Any] | None
    opaque: bool
    residual: bool
    native: Callable[..., Any] | None = None


def make_vjp(record: Record, rule: Rule, operator: OperatorRule | None, weigh: Weigh) -> VJP:
    """Make a vjp, partial or adjoint rule callable.

    Args:
        record: of the operator.
        rule: one of its rules.
        operator: of the rule's own; None for a rule made of torch functions.
        weigh: multiplies with partial derivatives.

    Raises:
        RuleError: it does not read the gradient of an output that its inputs may move.
    """
    if rule.ignored(record.signature):
        raise _ignores(record, rule)
    made = _make_vjp(record, rule, operator, weigh)
    return _seeded(record, made) if record.signature.seed is not None else made


def _seeded(record: Record, vjp: VJP) -> VJP:
    """A VJP whose rule sees the seeds of samples, as the kernel does; in C, the library makes them."""
    if not any(record.signature.names[name].is_seed for name in vjp.reads if name in record.signature.names):
        return vjp

    def call(plan: Plan, *values: Any) -> Sequence[Any]:
        return vjp.call(plan, *seeded_reads(record.signature, vjp.reads, values, plan))

    return replace(vjp, call=call, direct=None)


def _make_vjp(record: Record, rule: Rule, operator: OperatorRule | None, weigh: Weigh) -> VJP:
    if rule.kind == "partial":
        return _partial(record, rule, operator, weigh)
    if operator is not None:

        def call_rule(plan: Plan, *values: Any) -> Sequence[Any]:
            leaves = leaves_of(plan, rule.inputs)
            results = tuple((plan.batch + leaf.full[len(plan.batch) :], leaf.dtype) for leaf in leaves)
            return call_operator(operator, plan, values, results)

        native = None
        if rule.native is not None and operator.reads == rule.reads:
            native = NativeVJP(rule.inputs, rule.reads, rule.native).function
        return VJP(rule.label, rule.inputs, operator.reads, call_rule, None, rule.opaque, rule.residual, native)

    def call(plan: Plan, *values: Any) -> Sequence[Any]:
        return apply(record, rule, plan, values, lambda result: _flat(record, rule, plan, result))

    lists = any(record.signature.names[name].many for name in rule.inputs)
    return VJP(rule.label, rule.inputs, rule.reads, call, None if lists else rule.call, rule.opaque, rule.residual)


def _ignores(record: Record, rule: Rule) -> RuleError:
    cotangent = rule.ignored(record.signature)[0]
    output = next(o for o, name in cotangent_names(record.signature).items() if name == cotangent)
    inputs, op = ", ".join(f'"{name}"' for name in rule.inputs), record.name
    hint = f"read {cotangent}, and add what comes back through it"
    if rule.kind == "vjp":
        hint += f"\nor, if {' and '.join(rule.inputs)} truly does not move {output}:\n"
        hint += f'@{op}.vjp({inputs}, independent="{output}")'
    hint += f'\nor, if {output} has no derivative, before the rules:\n{op}.nondifferentiable("{output}", reason="...")'
    return RuleError(
        f"does not read {cotangent}, so that what comes back through output '{output}' would be lost",
        operator=rule.label,
        argument=cotangent,
        expected=f"a rule that reads {', '.join(cotangent_names(record.signature).values())}",
        got=f"one that reads {', '.join(rule.reads) or 'nothing'}",
        hint=hint,
    )


def _flat(record: Record, rule: Rule, plan: Plan, result: Any) -> list[Any]:
    """A vjp's results, one for each leaf; what it returned for an absent optional input is dropped."""
    groups = as_results(rule.label, result, rule.inputs, many=False)
    flat: list[Any] = []
    for name, group in zip(rule.inputs, groups, strict=True):
        leaves = leaves_of(plan, [name])
        if record.signature.names[name].many:
            flat.extend(as_results(rule.label, group, [leaf.name for leaf in leaves], many=True))
        elif leaves:
            flat.append(group)
    return flat


def apply(
    record: Record, rule: Rule, plan: Plan, values: Sequence[Any], flat: Callable[[Any], Sequence[Any]]
) -> Sequence[Any]:
    """A torch rule on what it reads; over the batch axes, if there are any."""
    if not plan.batch:
        return flat(rule.call(*values))
    leaves, leads, rebuild = _open(record, plan, rule.reads, values)
    return vectorise(lambda cores: flat(rule.call(*rebuild(cores))), leaves, leads, plan.batch)


def _open(
    record: Record, plan: Plan, names: Sequence[str], values: Sequence[Any]
) -> tuple[list[Tensor], list[int], Callable[[Sequence[Any]], list[Any]]]:
    """The tensors among `values`, their leading axes, and the function that puts others in their places."""
    known: dict[str, list[int]] = {}
    for leaf in plan.leaves:
        known.setdefault(leaf.owner, []).append(leaf.lead)
    leaves: list[Tensor] = []
    leads: list[int] = []
    for name, value in zip(names, values, strict=True):
        items = _items(value)
        leaves += items
        leads += known.get(name) or known.get(name.removesuffix("_tangent")) or [len(plan.batch)] * len(items)

    def rebuild(cores: Sequence[Any]) -> list[Any]:
        rest = iter(cores)
        return [
            [next(rest) for _ in value]
            if _is_tensor_list(value)
            else (next(rest) if isinstance(value, Tensor) else value)
            for value in values
        ]

    return leaves, leads, rebuild


def _is_tensor_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Tensor)


def _items(value: Any) -> list[Tensor]:
    if _is_tensor_list(value):
        return list(value)
    return [value] if isinstance(value, Tensor) else []


def call_operator(
    operator: OperatorRule, plan: Plan, values: Sequence[Any], results: tuple[tuple[Any, torch.dtype], ...]
) -> Sequence[Tensor]:
    """A rule that is an operator, on what it reads."""
    by_name = dict(zip(operator.reads, values, strict=True))
    tensors = [(name, by_name[name]) for name in operator.tensor_names]
    leaves, leads, _ = _open(operator.record, plan, [n for n, _ in tensors], [v for _, v in tensors])
    counts = tuple(len(_items(value)) for _, value in tensors)
    scalars = tuple(by_name[name] for name in operator.scalar_names)
    sizes = tuple(plan.sizes.get(name, -1) for name in operator.size_names)
    if not leaves:  # The partial derivative is one number.
        results = tuple(((), dtype) for _, dtype in results)
    return operator(RuleCall(tuple(leaves), counts, tuple(leads), sizes, results, scalars))


def _partial(record: Record, rule: Rule, operator: OperatorRule | None, weigh: Weigh) -> VJP:
    name = rule.inputs[0]
    cotangents = cotangent_names(record.signature)
    reads = (*cotangents.values(), *rule.reads)
    partials = make_partials(record, rule, operator)

    def call(plan: Plan, *values: Any) -> Sequence[Any]:
        by_name = dict(zip(reads, values, strict=True))
        leaf = leaves_of(plan, [name])[0]
        total: Tensor | None = None
        for partial, cotangent in zip(
            partials(plan, *(by_name[read] for read in rule.reads)), cotangents.values(), strict=True
        ):
            term = weigh(by_name[cotangent], partial.conj())
            total = term if total is None else total + term
        assert total is not None
        if total.is_complex() and not leaf.dtype.is_complex:
            total = total.real
        return [total]

    native = None
    if rule.native is not None:
        from .._rules.weighed import weighed  # Programs without C need nothing of it.

        function = weighed(record.signature, rule)
        native = None if function is None else NativeVJP(rule.inputs, reads, function).function
    return VJP(rule.label, rule.inputs, reads, call, None, rule.opaque, rule.residual, native)


def make_partials(record: Record, rule: Rule, operator: OperatorRule | None) -> Callable[..., Sequence[Tensor]]:
    """The partial derivatives of each differentiable output, from the plan and what the rule reads."""
    outputs = differentiable_outputs(record.signature)
    positions = [record.signature.outputs.index(output) for output in outputs]

    def flat(result: Any) -> Sequence[Any]:
        return as_results(rule.label, result, [output.name for output in outputs], many=False)

    def call(plan: Plan, *values: Any) -> Sequence[Tensor]:
        # Elementwise, so that every output's shape is known.
        likes = [(shape or (), dtype) for shape, dtype in (plan.outputs[position] for position in positions)]
        if operator is not None:
            return call_operator(operator, plan, values, tuple(likes))
        made = apply(record, rule, plan, values, flat)
        return [
            settle_partial(rule.label, output.name, value, like)
            for output, value, like in zip(outputs, made, likes, strict=True)
        ]

    return call
