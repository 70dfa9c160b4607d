"""A call that is made in another way, beside the plain one; and refusals, which are right where nothing is claimed."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from ... import _torch
from ...errors import DerivativeError
from ..baseline import Baseline, Difference, Value, baseline, copies, short, vjp_of
from ..case import Case, Linearization
from ..finding import Finding, Skip, Verdict
from ..target import borrowed, can_be_copied, copied

T = TypeVar("T")
Look = Callable[..., Iterator[Finding]]
Made = tuple[Sequence[Value], Sequence[Value]]
"""Outputs and gradients of a call."""


@dataclass(frozen=True)
class Words:
    """Words of a report for one thing that is wrong: a code and a title, the probable cause, and the next step.

    In a title ``{}`` stands for the name of the result.
    """

    code: str
    title: str
    cause: str = ""
    hint: str | None = None
    severity: Verdict = Verdict.FAIL

    def at(self, where: str, error: Exception | None = None) -> Finding:
        """The finding at a place, with the exception that shows it."""
        cause = ": ".join(filter(None, [self.cause, "" if error is None else short(error)]))
        title = self.title.replace("{}", "the result")
        return Finding(self.code, self.severity, title, where, cause=cause or None, hint=self.hint)

    def of(self, differences: Iterable[Difference], where: str) -> Iterator[Finding]:
        """A finding for each difference."""
        for difference in differences:
            title = self.title.replace("{}", difference.name)
            title = title[:1].upper() + title[1:]
            yield difference.finding(self.code, title, where, cause=self.cause or None, hint=self.hint)


Said = Words | Callable[[Difference], Words]


def compared(
    base: Baseline,
    how: str,
    run: Callable[[], Made],
    *,
    raises: Words | None = None,
    output: Said | None = None,
    gradient: Said | None = None,
    expected: Made | None = None,
) -> Iterator[Finding]:
    """Call in another way, and say what it raises, and which outputs and gradients are others than those expected.

    Expected is what the plain call gives, if nothing else is. What nothing is to be said of is not compared, and an
    exception of which nothing is to be said is the caller's.
    """
    where = f"{how}; {base.case.label}"
    right = kept(expected) if expected else (base.outputs, base.gradients)
    try:
        found = run()
    except Exception as error:
        if raises is None:
            raise
        yield raises.at(where, error)
        return
    outputs, gradients = ([None if v is None else v.detach() for v in values] for values in found)
    differences = [(output, d) for d in base.differing_outputs(outputs, right[0])] if output else []
    differences += [(gradient, d) for d in base.differing_gradients(gradients, right[1])] if gradient else []
    for said, difference in differences:
        words = said if isinstance(said, Words) else said(difference)
        yield from words.of([difference], where)


def made(case: Case, base: Baseline, primals: Sequence[Tensor] | None = None) -> Made:
    """Outputs and gradients of a plain call, for the upstream gradients of the baseline."""
    recorded = case.linearize(primals)
    return [output.detach().clone() for output in recorded.outputs], vjp_of(recorded, base)


def kept(results: Made) -> Made:
    """Return copies of results, some of which may lie in a buffer that the next call overwrites."""
    outputs, gradients = results
    return copies(outputs), copies(gradients)


def placed(base: Baseline, given: Iterable[Value]) -> list[Value]:
    """Values, one for each output that has an upstream gradient, in the places of these outputs; None elsewhere."""
    rest = iter(given)
    return [None if cotangent is None else next(rest) for cotangent in base.cotangents]


def used(base: Baseline) -> list[int]:
    """The outputs that have an upstream gradient."""
    return [i for i, cotangent in enumerate(base.cotangents) if cotangent is not None]


def results_of(base: Baseline, recorded: Linearization) -> dict[str, Tensor]:
    """Outputs and gradients, by their names."""
    found = {base.output_name(i): output for i, output in enumerate(recorded.outputs)}
    return found | {base.gradient_name(i): g for i, g in enumerate(vjp_of(recorded, base)) if g is not None}


def require_dense(case: Case, why: str) -> None:
    """Skip a case with sparse tensors."""
    if any(isinstance(leaf, Tensor) and leaf.layout != torch.strided for leaf in case.leaves):
        raise Skip(why)


def require_fixed(base: Baseline, why: str = "") -> None:
    """Skip a target that draws random numbers."""
    if base.random:
        raise Skip(f"it draws random numbers{why}")


def tensors(returned: object) -> list[Tensor]:
    """All tensors of what was returned, without graph."""
    return [leaf.detach() for leaf in _torch.pytree.tree_leaves(returned) if isinstance(leaf, Tensor)]


def with_saved(record: Callable[[], Linearization]) -> tuple[Linearization, list[Tensor]]:
    """A recorded call, and the tensors that it saves for the backward: none where it refuses that they are seen.

    Transforms of `torch.func` do, if a call uses them.
    """
    found: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided:
            found.append(tensor.detach())
        return tensor

    try:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            return record(), found
    except RuntimeError as error:
        if "saved tensor hooks" not in str(error):
            raise
    return record(), []


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Within, Python collects no garbage, which would run callbacks and finalizers at moments of its own."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def on_one_module(case: Case, *, lasting: bool = True) -> Case:
    """Return the case with one module for all calls, which keeps what they leave in it; each call has a copy else.

    No call sees the module's own parameters changed. Unless they are `lasting`, the parameters of a call are gone when
    its backward runs. Of what is no module the case itself is returned, and of one that keeps its parameters elsewhere
    as well, as in a dictionary: it would go on to use those that it was made with.
    """
    module = case.target.origin
    if case.target.kind != "module" or not can_be_copied(module):
        return case

    def made() -> Case:
        (parameters, *_), _ = case.arguments([primal.clone().requires_grad_() for primal in case.primals])
        return case.calling(borrowed(copied(module, parameters), lasting=lasting))

    base = baseline(case)
    flows = [gradient is None for gradient in vjp_of(made().linearize(), base)]
    return made() if flows == [gradient is None for gradient in base.gradients] else case


# -- an operator may refuse what it does not claim, and nothing else -------------------------------------------------


class Refused(Exception):
    """The target raises under a transform."""


def attempt(function: Callable[[], T]) -> T:
    """Return what a function returns.

    Raises:
        Refused: it raises.
    """
    try:
        return function()
    except Exception as error:
        raise Refused(short(error)) from error


def claimed(case: Case, transform: str) -> bool | None:
    """Return what `Op.capabilities` says of a transform; None where it does not know, or the target is no operator."""
    answer = _answer(case, transform)
    return None if answer == "unknown" else answer != "no"


def _answer(case: Case, transform: str) -> str:
    operator = case.target.operator
    return "unknown" if operator is None else operator.capabilities(case.device_type)[transform].answer


def may_refuse(transform: str, *, wholly: bool = True, transposes: bool = False) -> Callable[[Look], Look]:
    """Make a check skip a case where it raises `Refused`, unless the operator claims the transform.

    Args:
        transform: as `Op.capabilities` calls it.
        wholly: the check does all that the transform does: an operator must not give a result that it says it cannot.
        transposes: it may be derived as the transpose of a rule, and only a call shows whether torch can do that.
    """

    def decorate(look: Look) -> Look:
        @functools.wraps(look)
        def judged(case: Case, **options: Any) -> Iterator[Finding]:
            title = hint = cause = ""
            severity, found = Verdict.FAIL, list[Finding]()
            try:
                found = list(look(case, **options))
                if wholly and claimed(case, transform) is False:
                    title = f"capabilities() says that {transform} is refused, and it returns a result"
                    hint = "an operator must refuse what it cannot do: please report this"
            except Refused as why:
                if not claimed(case, transform):
                    raise Skip(f"refused: {why}") from why
                title, cause = f"capabilities() says that {transform} works, and it raises", str(why)
                hint = f"if the refusal is right, {case.target.name} must not claim it: please report this"
                error = why.__cause__
                if transposes and isinstance(error, DerivativeError) and _answer(case, transform) == "derived":
                    severity, hint = Verdict.PASS, error.hint or hint
            if title:
                yield Words("false-claim", title, cause, hint, severity).at(f"{transform}; {case.label}")
            yield from found

        return judged

    return decorate
