"""The rules of one operator as something callable, each made when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable

from torch import Tensor

from .._record import Record
from .._rules.rule import Rule
from .adjoint import differentiate_adjoint
from .array_rule import ArrayRule
from .native_rule import NativeRule
from .operator_rule import OperatorRule
from .vjp import VJP, Weigh, make_vjp


class Derivatives:
    """The rules of an operator as nodes and forward mode call them.

    Args:
        record: of the operator.
        call: the operator itself through the dispatcher, from its arguments and the number of leading batch axes.
        weigh: multiplies a cotangent or a tangent with a partial derivative.
    """

    def __init__(self, record: Record, call: Callable[..., list[Tensor]], weigh: Weigh) -> None:
        self.record = record
        self.call = call
        self.weigh = weigh
        self._vjps: dict[Rule, VJP] = {}
        self._operators: dict[Rule, OperatorRule] = {}
        self._lock = threading.RLock()  # A name must be defined once, whichever thread needs it first.

    def vjp(self, rule: Rule) -> VJP:
        """Make a vjp, partial or adjoint rule callable."""
        if rule not in self._vjps:
            self._vjps[rule] = make_vjp(self.record, rule, self.operator(rule), self.weigh)
        return self._vjps[rule]

    def operator(self, rule: Rule) -> OperatorRule | None:
        """Return the rule's own operator; None for a rule made of torch functions, which tracers see into."""
        if not rule.is_operator:
            return None
        with self._lock:
            if rule not in self._operators:
                made = (ArrayRule if rule.array else NativeRule)(self.record, rule)
                if rule.kind == "adjoint":
                    differentiate_adjoint(self.record, made, self.call, self.vjp)
                self._operators[rule] = made
            return self._operators[rule]
