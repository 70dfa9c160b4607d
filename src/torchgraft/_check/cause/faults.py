"""Faults of C functions, such as memory that is not theirs: the debug mode finds them, and they cause all else."""

from __future__ import annotations

from dataclasses import replace

import torch

from ..._build.debug import debug
from ...errors import KernelError, RuleError
from ..case import Case
from ..clock import OutOfTime
from ..finding import Finding
from ..report.result import Result


def with_faults(case: Case, result: Result) -> Result:
    """Return a result, whose findings have the fault that is found in a call of the case."""
    return replace(result, findings=tuple(with_fault(case, finding) for finding in result.findings))


def with_fault(case: Case, finding: Finding) -> Finding:
    """Return a finding with the fault as its cause that is found in a call and its backward; as it is if there is none.

    C functions are those of a torchgraft operator. They run in a process of their own, which may crash.
    """
    operator = case.target.operator
    if operator is None or not operator._record.natives():
        return finding
    try:
        with debug():
            made = case.linearize()
            made.vjp([torch.ones_like(output) for output in made.outputs])
    except (KernelError, RuleError) as fault:
        steps = [fault.hint, f"mend it in C: under tg.debug(), {operator.__name__} says more"]
        return finding.but(cause=f"{fault.operator}: {fault.problem}", hint="; ".join(filter(None, steps)))
    except (Exception, OutOfTime):  # Another refusal is a finding of its own.
        return finding
    return finding
