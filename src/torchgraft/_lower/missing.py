"""The error for a derivative that no rule gives."""

from __future__ import annotations

from .._record import Record
from ..errors import DerivativeError


def missing_rule(record: Record, name: str, mode: str) -> DerivativeError:
    """The error for a derivative that nobody gave."""
    op, shown = record.name, record.signature.names[name].shown
    if name in record.nondifferentiable:
        reason = record.nondifferentiable[name]
        return DerivativeError(
            f"input '{shown}' is declared nondifferentiable" + (f": {reason}" if reason else ""),
            operator=op,
            argument=shown,
            expected=f"no {mode} derivative with respect to {shown}",
            got=f"{shown} carries a {'tangent' if mode == 'forward' else 'gradient'}",
            hint=f"pass {shown}.detach()",
        )
    kind = "jvp" if mode == "forward" else "vjp"
    argument = f"{name}_tangent" if mode == "forward" else "grad"
    return DerivativeError(
        f"there is no rule for the {mode}-mode derivative with respect to '{shown}'",
        operator=op,
        argument=shown,
        expected=f'a rule @{op}.{kind}("{shown}")',
        got="rules: "
        + (", ".join(sorted({r.label for rules in record.rules.values() for r in rules.values()})) or "none"),
        hint=f'add   @{op}.{kind}("{shown}")\n      def _({argument}, ...): ...\n'
        f'or say {op}.nondifferentiable("{shown}", reason="..."), or pass {shown}.detach()',
    )
