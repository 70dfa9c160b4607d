"""Double backward: the numeric core on the backward as a function of the inputs and the upstream gradients."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from ... import _torch
from ..._errors import DerivativeError
from ..baseline import Baseline, Value, baseline, generator, signed
from ..case import Case, Linearization, differentiable
from ..cause.explain import explain
from ..claims import Refused, attempt, claimed, refusal, unclaimed
from ..finding import Finding, Skip, Verdict
from ..numeric.gradient import gradient
from ..points import nearby
from ..target import Target

HINT = (
    "save inputs and outputs, not intermediate results, and compute the gradient from them by torch functions; "
    "or decorate backward with @once_differentiable"
)

FEW = 16
"""Elements of the largest cases of which both Jacobians are looked at for a cause."""


def second_order(case: Case) -> Iterator[Finding]:
    """Differentiate the backward once more; where it refuses, that is right as well."""
    base = baseline(case)
    if any(isinstance(leaf, Tensor) and leaf.layout != torch.strided for leaf in case.leaves):
        raise Skip("torch differentiates few functions of sparse tensors twice")
    if not any(g is not None for g in base.gradients):
        raise Skip("no gradient flows to any input")
    try:
        recorded = attempt(lambda: _probed(backward_case(base)))
    except Refused as why:
        expected = isinstance(why.__cause__, DerivativeError) and claimed(case, "second order") is not False
        parts = _able(base) if expected else []
        if not parts:
            yield from refusal(case, "second order", why)
        for part in parts:
            yield from _wrong(base, part, _probed(part))
        return
    yield from unclaimed(case, "second order")
    if any(output.requires_grad for output in recorded.outputs):
        yield from _wrong(base, backward_case(base), recorded)
    elif _moves(base):
        title = "The gradient is detached: differentiating it again gives None, not an error"
        cause = "the gradient is detached: the backward leaves torch (NumPy, .data, .item()), or switches grad mode off"
        yield Finding(
            "lost-second-derivative", Verdict.FAIL, title, f"the gradient; {case.label}", cause=cause, hint=HINT
        )


def _able(base: Baseline) -> list[Case]:
    """The backward in parts: gradients as functions of the inputs in which they have derivatives, the others held.

    The gradient of an operator in its parameter need not have a derivative in that parameter, but one in the argument.
    """

    def able(returned: int, inputs: Collection[int]) -> bool:
        with contextlib.suppress(Exception):
            _probed(backward_case(base, [returned], inputs))
            return True
        return False

    parts = defaultdict[tuple[int, ...], list[int]](list)
    for returned in _returned(base):
        inputs: tuple[int, ...] = ()
        for other in range(len(base.case.primals)):
            inputs = (*inputs, other) if able(returned, (*inputs, other)) else inputs
        if inputs:
            parts[inputs].append(returned)
    return [backward_case(base, together, inputs) for inputs, together in parts.items()]


def _wrong(base: Baseline, derived: Case, recorded: Linearization) -> Iterator[Finding]:
    """What is wrong with the second derivative, unless it only follows from a first one that is wrong."""
    found, reason = list(gradient(derived)), None
    if found:
        reason = _lost(base, recorded)
    if found and reason is None and any(gradient(base.case)):
        raise Skip("the gradient itself is wrong already")
    small = sum(tensor.numel() for tensor in [*derived.primals, *recorded.outputs]) <= FEW
    for finding in found:
        told = finding.code == "wrong-gradient" and reason is None and small
        yield _renamed(explain(derived, finding) if told else finding, base, reason)


def _probed(derived: Case) -> Linearization:
    """The backward recorded, and pulled through once.

    Raises:
        RuntimeError: it refuses to be differentiated, as what is decorated with ``once_differentiable`` does.
    """
    recorded = derived.linearize()
    if _torch.refuses_backward(recorded.outputs):
        raise RuntimeError("the backward is marked with once_differentiable")
    source = generator(derived, 71)
    recorded.pull([signed(o.detach(), source) if o.requires_grad else None for o in recorded.outputs])
    return recorded


def _moves(base: Baseline) -> bool:
    """Whether the gradient depends on anything: that of a step function is zero, and need not be recorded."""
    recorded = base.case.linearize(nearby(base.case))
    return bool(base.differing_gradients(recorded.pull([None if c is None else 2 * c for c in base.cotangents])))


def backward_case(
    base: Baseline, gradients: Collection[int] | None = None, inputs: Collection[int] | None = None
) -> Case:
    """The backward as a case of its own: a function of primals and upstream gradients that returns the gradients.

    Args:
        base: of the function.
        gradients: those that are returned, by their inputs; all if None.
        inputs: of which it is a function, beside the upstream gradients; all if None, and the others are constants.
    """
    case = base.case
    used = [i for i, c in enumerate(base.cotangents) if c is not None]
    returned = _returned(base) if gradients is None else gradients
    varied = range(len(case.primals)) if inputs is None else inputs

    def backward(*arguments: Tensor) -> tuple[Tensor, ...]:
        given, outer = list(case.primals), torch.is_grad_enabled()
        for i, primal in zip(varied, arguments, strict=False):
            given[i] = primal
        primals = [p if p.requires_grad else p.detach().requires_grad_() for p in given]
        cotangents: list[Value] = [None] * len(base.cotangents)
        for i, cotangent in zip(used, arguments[len(varied) :], strict=True):
            cotangents[i] = cotangent
        found = case.record(primals).pull(cotangents, create_graph=outer)
        return tuple(_present(found[i], given[i]) for i in returned)

    names = (*(case.names[i] for i in varied), *(f"the upstream gradient of {base.output_name(i)}" for i in used))
    target = Target(f"the backward of {case.target.name}", "callable", backward, backward, names)
    arguments = [*(case.primals[i] for i in varied), *(base.cotangents[i] for i in used)]
    return Case(target, arguments, seed=case.seed, traits=case.traits)


def _returned(base: Baseline) -> list[int]:
    """The inputs to which a gradient flows."""
    return [i for i, g in enumerate(base.gradients) if g is not None]


def _present(gradient: Value, primal: Tensor) -> Tensor:
    return torch.zeros_like(primal) if gradient is None else gradient


CODES = {
    "wrong-gradient": ("wrong-second-derivative", "The second derivative is wrong"),
    "wrong-at-ties": ("wrong-second-derivative", "The second derivative is wrong where elements are equal"),
    "loses-digits": ("second-derivative-loses-digits", "The second derivative loses digits"),
    "backward-raises": ("second-derivative-raises", "The second backward raises"),
    "nondifferentiable-output-moves": (
        "lost-second-derivative", "A gradient that depends on inputs is detached: its derivative is lost without a word"
    ),
}  # fmt: skip


def _renamed(finding: Finding, base: Baseline, reason: str | None) -> Finding:
    """A finding of the core on the backward, said of the function."""
    code, title = CODES.get(finding.code, (f"second-order-{finding.code}", f"Of the backward: {finding.title}"))
    where = f"second order: {finding.where.partition(';')[0]}; {base.case.label}"
    cause = "; ".join(part for part in (reason, finding.cause) if part) or None
    return finding.but(code=code, title=title, where=where, cause=cause, hint=HINT)


def _lost(base: Baseline, derived: Linearization) -> str | None:
    """How the graph of the gradient was cut, as far as that is seen."""
    if not all(output.requires_grad for output in derived.outputs):
        return "a gradient is detached: the backward leaves torch (NumPy, .data, .item()), or switches grad mode off"
    saved: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        recorded = base.case.linearize()
    known = {tensor.data_ptr() for tensor in [*recorded.primals, *recorded.outputs]}
    nodes = [
        node
        for node in _torch.nodes_in_graph(recorded.outputs)
        if isinstance(node, torch.autograd.function.FunctionCtx)
    ]
    attributes = _torch.pytree.tree_leaves([list(vars(node).values()) for node in nodes])
    kept = [tensor for tensor in [*saved, *attributes] if differentiable(tensor)]
    if nodes and any(tensor.data_ptr() not in known for tensor in kept):
        return "an intermediate result is saved, whose own derivative is missing from the graph"
    return None
