"""Memory: results lie in their own, and nobody writes into what belongs to another."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Baseline, Value, baseline, distance, pulled
from ..case import Case, Linearization
from ..finding import Finding, Verdict
from ..kept import on_one_module
from ..variations import nearby

# -- results lie in memory of their own, and what is changed in place later is noticed -------------------------------


SAVE = "keep tensors with ctx.save_for_backward, which notices that they were changed"


def aliasing(case: Case) -> Iterator[Finding]:
    """Look at memory, call again, and write into outputs and inputs."""
    base = baseline(case)
    yield from _kept_results(base)
    yield from _shared_gradients(base)
    yield from _undeclared_alias(base)
    yield from _unknown_alias(base)
    yield from _written_outputs(base)
    yield from _written_inputs(base)


def _kept_results(base: Baseline) -> Iterator[Finding]:
    """What one call returned must survive the next."""
    first = base.case.linearize()
    gradients = pulled(first, base)
    results = {base.output_name(i): output.detach() for i, output in enumerate(first.outputs)}
    results |= {base.gradient_name(i): g for i, g in enumerate(gradients) if g is not None}
    before = {name: value.clone() for name, value in results.items()}
    pulled(base.case.linearize(nearby(base.case)), base)
    for name, value in results.items():
        if distance(value, before[name]):
            yield Finding(
                "result-overwritten", Verdict.FAIL, f"The next call overwrites {name} of the one before",
                f"{name}; {base.case.label}", value, before[name], distance(value, before[name]), 0.0,
                cause="all calls write into one buffer", hint="return memory of its own in each call",
            )  # fmt: skip


def _shared_gradients(base: Baseline) -> Iterator[Finding]:
    """A leaf keeps the gradient that it is given as its `.grad`, and optimisers write into that."""
    recorded = base.case.linearize()
    for i, gradient in enumerate(pulled(recorded, base)):
        for name, owner in _owners(base, recorded):
            if gradient is not None and _shares(gradient, owner):
                yield Finding(
                    "gradient-aliases", Verdict.FAIL, f"{base.gradient_name(i).capitalize()} is memory of {name}",
                    f"{base.gradient_name(i)}; {base.case.label}",
                    cause="the backward returns a saved tensor, or a view of one", hint="return a copy",
                )  # fmt: skip
                break


def _owners(base: Baseline, recorded: Linearization) -> Iterator[tuple[str, Tensor]]:
    yield from zip(base.case.names, recorded.primals, strict=True)
    for i, output in enumerate(recorded.outputs):
        yield base.output_name(i), output


def _undeclared_alias(base: Baseline) -> Iterator[Finding]:
    """An operator of torch.library says in its schema which outputs are views; compilers rely on it."""
    if base.case.target.kind != "library":
        return
    overload = _torch.overload_of(base.case.target.origin)
    if any(result.alias_info is not None for result in overload._schema.returns):
        return
    primals = [primal.clone() for primal in base.case.primals]
    for i, output in enumerate(base.case.outputs(primals)):
        for name, primal in zip(base.case.names, primals, strict=True):
            if _shares(output, primal):
                yield Finding(
                    "undeclared-alias", Verdict.FAIL, f"{base.output_name(i).capitalize()} is memory of {name}",
                    f"{base.output_name(i)}; {base.case.label}",
                    cause="the schema says that it is not a view", hint="return a copy: x.clone()",
                )  # fmt: skip


def _unknown_alias(base: Baseline) -> Iterator[Finding]:
    """A view shares its version with what it is a view of: where it does not, autograd knows nothing of the memory."""
    recorded = base.case.linearize()
    for i, output in enumerate(recorded.outputs):
        for name, primal in zip(base.case.names, recorded.primals, strict=True):
            if output is primal or not _shares(output, primal):
                continue
            version = primal._version
            torch.autograd.graph.increment_version(output.detach())
            if primal._version == version:
                yield Finding(
                    "unknown-alias", Verdict.FAIL, f"{base.output_name(i).capitalize()} shares the memory of {name}",
                    f"{base.output_name(i)}; {base.case.label}",
                    cause="one is overwritten with the other, and autograd does not know: a NumPy view, or .data",
                    hint="return memory of its own: .clone(), or .copy() of an array",
                )  # fmt: skip


def _written_outputs(base: Baseline) -> Iterator[Finding]:
    """Twice the output has twice the gradient; to refuse is right as well."""
    for i, cotangent in enumerate(base.cotangents):
        if cotangent is None or not cotangent.numel():
            continue
        alone: list[Value] = [None] * len(base.cotangents)
        alone[i] = cotangent / 2
        expected = base.case.linearize().pull([None if c is None else 2 * c for c in alone])
        recorded = base.case.linearize()
        try:
            recorded.outputs[i].mul_(2)
            found = recorded.pull(alone)
        except RuntimeError:  # its own version counter, or a view that may not be written to
            continue
        for difference in base.differing_gradients(found, expected):
            yield difference.finding(
                "output-overwritten", "The gradient is wrong after the output was changed in place",
                f"{base.output_name(i)}.mul_(2); {base.case.label}",
                cause="an output was kept outside of save_for_backward", hint=SAVE,
            )  # fmt: skip


def _written_inputs(base: Baseline) -> Iterator[Finding]:
    """A gradient belongs to the values that the input had in the call; to refuse is right as well."""
    if any(isinstance(leaf, Tensor) and leaf.layout != torch.strided for leaf in base.case.leaves):
        return  # the version counters of sparse tensors do not see what is written into their values
    case = on_one_module(base.case)  # what runs again in the backward reads parameters again, by design
    expected = pulled(case.linearize(), base)
    for i, name in enumerate(base.case.names):
        leaves = [primal.detach().clone().requires_grad_() for primal in base.case.primals]
        given = [leaf.clone() for leaf in leaves]
        recorded = case.record(given)
        if given[i]._version or any(_shares(output, given[i]) for output in recorded.outputs):
            continue  # it is changed on purpose, or the output is a view of it and changes as well
        try:
            given[i].mul_(2)
            found = Linearization(leaves, recorded.outputs).pull(base.cotangents)
        except RuntimeError:
            continue
        for difference in base.differing_gradients(found, expected):
            yield difference.finding(
                "input-overwritten", "The gradient is wrong after an input was changed in place",
                f"{name}.mul_(2) between forward and backward; {base.case.label}",
                cause="an input was kept outside of save_for_backward", hint=SAVE,
            )  # fmt: skip


def _shares(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors lie in the same memory."""
    try:
        return bool(one.numel() and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # without memory of the usual kind
        return False


# -- what a call must leave as it was: inputs, saved tensors, upstream gradients -------------------------------------


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
