"""What a call must leave as it was: inputs, saved tensors, upstream gradients."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Value, baseline, distance
from ..case import Case, Linearization
from ..finding import Finding, Verdict


def mutation(case: Case) -> Iterator[Finding]:
    """Compare bits before and after; version counters do not see what is written through `.data` or NumPy."""
    base = baseline(case)
    saved = _Saved()
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
        primals = [primal.detach().clone().requires_grad_() for primal in case.primals]
        before = [primal.detach().clone() for primal in primals]
        recorded = case.record(primals)
    saved.keep()
    declared = _declared(case, recorded)
    changed = [i for i, (a, b) in enumerate(zip(primals, before, strict=True)) if distance(a, b) and i not in declared]
    for i in changed:
        yield _finding(
            "input-changed", f"The forward writes into {case.names[i]}", case.names[i], case, primals[i], before[i],
            "the forward changes its input in place", "ctx.mark_dirty(x), if it is meant; else work on x.clone()",
        )  # fmt: skip
    if changed:
        return
    cotangents = [None if c is None else c.clone() for c in base.cotangents]
    outputs = [output.detach().clone() for output in recorded.outputs]
    recorded.pull(cotangents)
    for i, (value, other) in enumerate(zip(primals, before, strict=True)):
        if distance(value, other) and i not in declared:
            yield _finding(
                "input-changed", f"The backward writes into {case.names[i]}", case.names[i], case, value, other,
                "the backward overwrites a saved input, which is the caller's own memory", "work on a copy",
            )  # fmt: skip
    for i, (given, kept) in enumerate(zip(cotangents, base.cotangents, strict=True)):
        if distance(given, kept):
            yield _finding(
                "gradient-changed", "The backward writes into the upstream gradient", base.output_name(i), case, given,
                kept, "the upstream gradient is changed in place, and others use the same tensor",
                "grad = grad.clone(), or operations that are not in place",
            )  # fmt: skip
    for i, (now, then) in enumerate(zip(recorded.outputs, outputs, strict=True)):
        if distance(now, then):
            yield _finding(
                "output-changed", "The backward writes into an output", base.output_name(i), case, now, then,
                "the backward overwrites an output, which the caller holds", "work on a copy",
            )  # fmt: skip
    for now, then in saved.changed():
        yield _finding(
            "saved-changed", "The backward writes into a saved tensor", "a saved tensor", case, now, then,
            "a saved tensor is overwritten, and a second backward would see it", "work on a copy",
        )  # fmt: skip


def _declared(case: Case, recorded: Linearization) -> set[int]:
    """The primals that are changed on purpose: they are an output too, or the schema says so."""
    outputs = {id(output) for output in recorded.outputs}
    written: set[str] = set()
    if case.target.kind == "library":
        schema = _torch.overload_of(case.target.origin)._schema
        written = {a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    pairs = enumerate(zip(recorded.primals, case.names, strict=True))
    return {i for i, (primal, name) in pairs if id(primal) in outputs or name in written}


def _finding(code: str, title: str, what: str, case: Case, now: Value, then: Value, cause: str, hint: str) -> Finding:
    where = f"{what}; {case.label}"
    return Finding(code, Verdict.FAIL, title, where, now, then, distance(now, then), 0.0, cause, hint)


class _Saved:
    """Hooks that collect the saved tensors, and what they held at the end of the forward pass."""

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []
        self._kept: list[Tensor] = []

    def pack(self, tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided:
            self._tensors.append(tensor.detach())
        return tensor

    def unpack(self, tensor: Tensor) -> Tensor:
        return tensor

    def keep(self) -> None:
        self._kept = [tensor.clone() for tensor in self._tensors]

    def changed(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The first saved tensor whose numbers are others now."""
        for now, then in zip(self._tensors, self._kept, strict=True):
            if distance(now, then):
                yield now, then
                return
