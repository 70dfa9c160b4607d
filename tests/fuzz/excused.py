"""Differences that are not torchgraft's to mend: the one list of them, each with its reason.

An entry is counted in every report. What torchgraft itself gets wrong has no place here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from .judge import Result, judge
from .program import Case

_WIDENED = re.compile(r"(\([\d, ]*\)) torch\.(?:float|complex)\d+ in the place of \1 torch\.(?:float|complex)\d+")

_ENDED = re.compile("escaped from inside a function being vmapped|an invalid python storage")


@dataclass(frozen=True)
class Excuse:
    """One kind of difference.

    Attributes:
        name: for the report.
        reason: why it is not a defect of torchgraft, with the place in torch where it is one of torch.
        matches: whether a case shows it.
    """

    name: str
    reason: str
    matches: Callable[[Case, Result], bool]


def _right_in_double(case: Case) -> bool:
    return case.dtype == "float32" and judge(replace(case, dtype="float64")).kind == "right"


EXCUSES: tuple[Excuse, ...] = (
    Excuse(
        "digits of float32",
        "the numbers differ in float32 alone, where derivatives of exponentials overflow; in float64 the case is right",
        lambda case, result: "tensor(" in result.text and _right_in_double(case),
    ),
    Excuse(
        "torch widens a tangent",
        "the tangent of 2.0 * x is float64 where x is a float32 tensor without axes: torch multiplies it by a tensor "
        "that it makes of the number, which counts as a number no more (derivatives.yaml, mul.Tensor); the expression "
        "and a rule do so in other places",
        lambda case, result: "F" in case.stack.modes and bool(_WIDENED.search(result.text)) and _right_in_double(case),
    ),
    Excuse(
        "a checkpoint after its dual level",
        "backward runs the checkpointed function again when the dual level is closed, and torch then saves fewer "
        "tensors than before: exp and x * x, written out, fail alike, but not an expression that saves nothing",
        lambda case, result: "CheckpointError" in result.text and {"checkpoint", "dual level"} <= {*case.stack.names},
    ),
    Excuse(
        "a checkpoint below a transform",
        "the checkpointed function is run again where the transform has ended: torch.sin fails alike, but not an "
        "expression that saves nothing",
        lambda case, result: (
            bool(_ENDED.search(result.text))
            and "checkpoint" in case.stack.names
            and not {"vmap", "functionalize"}.isdisjoint(case.stack.names)
        ),
    ),
    Excuse(
        "the exported gradient of vmap",
        "the tracer of torch.export does not know what vmap unwraps and a backward pass reads: x * x under in_dims=1 "
        "fails alike",
        lambda case, result: "fake tensor in the exported" in result.text and {"vmap", "export"} <= {*case.stack.names},
    ),
    Excuse(
        "double backward of a compiled graph",
        "torch has none; the expression fails alike unless nothing of it is left to be differentiated, as over no "
        "samples",
        lambda case, result: "does not currently support double backward" in result.text and case.stack.compiled,
    ),
    Excuse(
        "the older vmap over a compiled graph",
        "is_grads_batched runs the compiled backward under torch's older vmap, which has no rule for the aten.detach "
        "that tracing leaves where a kernel's result is cut off",
        lambda case, result: (
            "aten::detach" in result.text and case.stack.compiled and "is_grads_batched" in case.stack.names
        ),
    ),
    Excuse(
        "make_fx around an export",
        "what a factory function makes inside torch.export is a fake tensor among the constants of make_fx: "
        "x * torch.scalar_tensor(0.75), exported inside make_fx, gives one too, and a number is made a tensor so",
        lambda case, result: "DataDependentOutput" in result.text and {"export", "make_fx"} <= {*case.stack.names},
    ),
    Excuse(
        "torch refuses the draw itself",
        "under vmap torch says that random draws need another mode: the draw of a flawed rule is refused, by torch",
        lambda case, result: case.declaration.flaw is not None and "random" in result.text and result.kind == "unnamed",
    ),
)


def excuse(case: Case, result: Result) -> str | None:
    """The name of the entry that a failure falls under."""
    return next((entry.name for entry in EXCUSES if entry.matches(case, result)), None)
