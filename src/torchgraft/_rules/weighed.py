"""The gradient by a partial derivative in C, in one pass over the elements."""

from __future__ import annotations

from dataclasses import replace

from .._build.native_function import NativeFunction
from .._spec.signature import Signature
from ..errors import RuleError
from .kinds import cotangent_names
from .native import rule_prototype
from .rule import Rule


def weighed(signature: Signature, rule: Rule) -> NativeFunction | None:
    """The gradient by a partial derivative in C: ``grad * partial`` in one pass, zero where `grad` is zero.

    None where there is more to it: several outputs, or complex ones, whose partial derivative is conjugated.
    """
    cotangents = tuple(cotangent_names(signature).values())
    kinds = {p.tensor.dtypes.kind for _, p in signature.tensors if not p.is_seed} | {
        o.type.dtypes.kind for o in signature.outputs
    }
    if rule.native is None or len(cotangents) != 1 or len(signature.outputs) != 1 or kinds != {"Float"}:
        return None
    partial = rule.native.prototype
    symbol = f"tg_weighed_{partial.symbol}"
    reads = (*cotangents, *rule.reads)
    prototype = rule_prototype(signature, "vjp", rule.inputs, reads, (), symbol, rule.label, called=partial)
    call = f"{partial.symbol}({', '.join(partial.names())})"
    body = f"#undef {partial.symbol}\n{prototype.declaration()} {{ return grad == 0 ? 0 : grad * {call}; }}"
    function = NativeFunction(replace(rule.native.source, appended=body), prototype, rule.label, RuleError)
    function.seen = rule.native.seen
    return function
