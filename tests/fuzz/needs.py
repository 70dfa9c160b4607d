"""Whether the rules of an operator suffice for a stack of transforms, as the guide has it: what may be refused."""

from __future__ import annotations

from .declaration import Declaration, Rule
from .program import Case
from .tensors import Input


def lacking(case: Case) -> str | None:
    """What the declaration lacks for the stack, in words; None if nothing."""
    d, modes = case.declaration, case.stack.modes
    if d.flaw is not None:
        return f"refused on purpose: {d.flaw}"
    if not modes:
        return None
    used: list[Rule] = []
    for name in sorted(case.inputs):
        if name in d.constant:
            return "nondifferentiable input"
        reverse, forward = d.reverse_rule(name), d.forward_rule(name)
        if "R" in modes:
            if reverse is None:
                return "no rule for reverse mode"
            used.append(reverse)
        if "F" in modes:
            if forward is None:
                return "no rule for forward mode"
            if forward.kind == "vjp" and forward.medium != "torch":
                return "no rule for forward mode: the vjp is no torch code"
            used.append(forward)
    if len(modes) > 1:
        for rule in used:
            why = _once(d, rule)
            if why:
                return why
    if "dual level" in case.stack.names and case.stack.recorded and any(rule.given for rule in used):
        return "both modes at one level, where a rule reads an output"
    return None


def _once(d: Declaration, rule: Rule) -> str | None:
    """Why a rule cannot be differentiated again."""
    if set(rule.given) & set(d.formula.saved):
        return "second order: a rule reads a floating Saved output"
    if rule.medium == "torch":
        return None
    if rule.kind != "adjoint":
        return "second order: a rule is no torch code"
    for name in rule.reads:
        value = d.formula.values.get(name)
        other = d.reverse_rule(name)
        if isinstance(value, Input) and (other is None or other.kind != "adjoint"):
            return "second order: an adjoint reads an input without an adjoint"
    return None
