"""A rule in C."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .operator_rule import OperatorRule
from .rule_call import RuleCall


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
            [int(size) for size in call.sizes],
        )
