"""Forward mode and second order agree with the backward pass."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from ... import _torch
from ...errors import DerivativeError
from ..baseline import Baseline, Value, baseline, distance, generator, signed
from ..case import Case, Linearization
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..numeric.gradient import gradient, is_shown_wrong
from ..numeric.probe import Probe
from ..numeric.vectors import flatten
from ..target import Declared, Target, differentiable
from ..variations import nearby
from .ways import Refused, Words, attempt, claimed, may_refuse, placed, require_dense, used, with_saved

# -- forward mode: the tangent against the backward, and against differences where the two disagree ------------------


@may_refuse("forward", transposes=True)
def tangents(case: Case) -> Iterator[Finding]:
    """All inputs along a direction, along another, and each input alone, whose neighbours then have no tangent."""
    base = baseline(case)
    require_dense(case, "sparse tensors carry no tangents")
    for place, direction in _trials(base):
        wrong = list(_compare(place, direction, attempt(partial(push, place.case, direction))))
        if any(finding.code == "lost-tangent" for finding in wrong) and is_shown_wrong(case):
            raise Skip("the gradient itself is wrong already")
        yield from wrong
        if wrong:
            return
    with contextlib.suppress(Refused):
        for finding in _compare(base, direction, attempt(partial(push, case, direction, recorded=True))):
            yield finding.but(cause="it is another while autograd records the call, and hooks pack what is saved")


def _trials(base: Baseline) -> Iterator[tuple[Baseline, list[Value]]]:
    """Each input alone, then all; at another point, where what was kept of the first call is wrong; and otherwise."""
    case, source = base.case, generator(base.case, 61)
    first, second = ([signed(primal, source) for primal in case.primals] for _ in range(2))
    if len(first) > 1:
        for j in range(min(len(first), 4)):
            yield base, [u if i == j else None for i, u in enumerate(first)]
    yield base, list(first)
    with contextlib.suppress(Inconclusive):
        yield baseline(case.replaced(nearby(case, spread=2.0**-3))), list(second)
    yield base, list(second)


def _packing(case: Case, recorded: bool) -> contextlib.AbstractContextManager[object]:
    """Hooks, if the call is recorded, or a rule of an operator may be: `torch.func` inside of others refuses them."""
    if not recorded and case.target.operator is None:
        return contextlib.nullcontext()
    return torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda tensor: tensor)


def push(case: Case, direction: Sequence[Value], *, recorded: bool = False) -> list[Value]:
    """J u by forward mode: a tangent for each output, None where it has none.

    If `recorded`, autograd records the call meanwhile, and hooks pack what it saves, as checkpoints do.
    """
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level(), torch.enable_grad(), _packing(case, recorded):
        primals = [primal.clone().requires_grad_(recorded).clone() for primal in case.primals]
        duals = [
            primal if tangent is None else forward_ad.make_dual(primal, tangent.clone())
            for primal, tangent in zip(primals, direction, strict=True)
        ]
        outputs = case.outputs(duals)
        tangents = [forward_ad.unpack_dual(output).tangent for output in outputs]
        return [None if tangent is None else tangent.detach().clone() for tangent in tangents]


def _compare(base: Baseline, direction: Sequence[Value], found: Sequence[Value]) -> Iterator[Finding]:
    which = [name for name, u in zip(base.case.names, direction, strict=True) if u is not None]
    where = f"tangents of {', '.join(which) if len(which) < len(direction) else 'all inputs'}; {base.case.label}"
    for i in used(base):
        alone = [c if j == i else None for j, c in enumerate(base.cotangents)]
        gradients = base.case.linearize().vjp(alone) if len(alone) > 1 else base.gradients
        backward = sum(_inner(g, u) for g, u in zip(gradients, direction, strict=True))
        forward = _inner(found[i], base.cotangents[i])
        slack = _slack(base, direction, gradients, found[i], base.cotangents[i])
        error = abs(forward - backward)
        if error > slack:  # NaN is not found here.
            finding = _disagreement(base, i, direction, found[i], f"{base.output_name(i)}; {where}")
            if found[i] is None:
                finding = finding.but(analytic=forward, numeric=backward)
            elif finding.code == "wrong-gradient":  # The tangent is right, so that it shows nothing.
                finding = finding.but(analytic=backward, numeric=forward)
            yield finding.but(error=error, estimate=slack)


def _disagreement(base: Baseline, index: int, direction: Sequence[Value], tangent: Value, where: str) -> Finding:
    """The disagreement of a tangent with the backward; differences say which side is wrong."""
    name = base.output_name(index)
    if tangent is None:
        title = f"Forward mode gives {name} no tangent, and says nothing"
        nodes = _torch.nodes_in_graph(base.case.linearize().outputs)
        if any("GeneratedBackwardFor" in type(node).__name__ for node in nodes):
            cause = "operators with torch.library.register_autograd have no forward mode: PyTorch takes it for zero"
            hint = "use reverse mode, or a torchgraft operator"
            return Words("no-tangent", title, cause, hint, Verdict.PASS).at(where)
        cause = "jvp returns None, or numbers leave torch on the way: the tangent counts as zero"
        return Words("lost-tangent", title, cause, "return the tangent from jvp, or raise").at(where)
    numeric = None
    with contextlib.suppress(Exception):  # Differences cannot always tell it.
        probe = Probe(base.case)
        dense = [torch.zeros_like(p) if u is None else u for p, u in zip(base.case.primals, direction, strict=True)]
        numeric = probe.outputs.unflatten(probe.climb(flatten(dense)).derivative)[index]
    close = 1e-4 + base.case.target.declared.error
    if numeric is not None and distance(tangent, numeric) <= close * float(numeric.abs().max()):
        title = f"The backward of {name} disagrees with forward mode and with differences"
        words = Words("wrong-gradient", title, "the tangent is right: look at the backward")
    else:
        nones = "jvp gets a tangent for each input (None where it has none)"
        title, written = f"The tangent of {name} is wrong", _torch.functions_in_graph(base.case.linearize().outputs)
        told = nones if written and base.case.target.kind != "operator" else None
        words = Words("wrong-tangent", title, _cause(tangent, numeric), told)
    return words.at(where).but(analytic=tangent, numeric=numeric)


def _cause(tangent: Tensor, numeric: Value) -> str:
    """Say how the tangent differs from the derivative along the direction."""
    size = 0.0 if numeric is None else float(numeric.abs().max())
    if numeric is None or not size:
        return "jvp and backward are not of the same function"
    factor = _inner(numeric, tangent) / _inner(numeric, numeric)
    if distance(tangent, factor * numeric) > 1e-6 * size:
        return "jvp and backward are not of the same function, or not of the same call: state is kept between calls"
    if abs(factor) < 1e-6:
        return "the tangent is zero: the part of an input is missing"
    if abs(factor + 1) < 1e-6:
        return "the tangent has the wrong sign"
    return f"the tangent is {factor:.6g} times what it should be: a wrong factor"


def _inner(left: Value, right: Value) -> float:
    """The real inner product, in double precision; None stands for zeros."""
    return 0.0 if left is None or right is None else float(flatten([left]) @ flatten([right]))


def _slack(
    base: Baseline, direction: Sequence[Value], gradients: Sequence[Value], tangent: Value, cotangent: Value
) -> float:
    """The slack of each gradient along the direction, and 64 units in the last place of both sums' terms."""
    total, accuracy = 0.0, base.case.target.declared.error
    pairs = [*zip(gradients, direction, strict=True), (tangent, cotangent)]
    for slack, (found, u) in zip((*base.gradient_slack, 0.0), pairs, strict=True):
        if found is not None and u is not None:
            units = 64 * torch.finfo(u.dtype).eps + accuracy
            total += slack * float(u.abs().sum()) + units * float((found.detach().abs() * u.abs()).sum())
    return 4 * total


# -- double backward: the numeric core on the backward as a function of the inputs and the upstream gradients --------


SECOND_HINT = (
    "save inputs and outputs, not intermediate results, and compute the gradient from them by torch functions; "
    "or decorate backward with @once_differentiable"
)
OF_RULES = "write the rule with torch functions of inputs and outputs, whose own derivatives are right there"


def _second_hint(case: Case) -> str:
    return OF_RULES if case.target.kind == "operator" else SECOND_HINT


FEW = 16
"""Elements of the largest cases of which both Jacobians are looked at for a cause."""


@may_refuse("second order")
def second_order(case: Case) -> Iterator[Finding]:
    """Differentiate the backward once more; where it refuses, that is right as well."""
    base = baseline(case)
    require_dense(case, "torch differentiates few functions of sparse tensors twice")
    if not _returned(base):
        raise Skip("no gradient flows to any input")
    try:
        recorded = attempt(lambda: _probed(backward_case(base)))
    except Refused as why:
        error = why.__cause__
        if not isinstance(error, DerivativeError) or claimed(case, "second order") is False:
            raise
        parts = _able(base)
        by = (error.operator or case.target.name).partition(".")[0]
        if not parts and by != case.target.name:  # Nothing is known before of what a rule in torch calls.
            raise Skip(f"{by}, which a rule calls, refuses it") from why
        if not parts:
            raise
        for part in parts:
            yield from _wrong_second(base, part, _probed(part))
        return
    if any(output.requires_grad for output in recorded.outputs):
        yield from _wrong_second(base, backward_case(base), recorded)
    elif _moves(base):
        title = "The gradient is detached: differentiating it again gives None, not an error"
        yield Words("lost-second-derivative", title, DETACHED, _second_hint(case)).at(f"the gradient; {case.label}")


def _able(base: Baseline) -> list[Case]:
    """The backward in parts: gradients as functions of the inputs in which they have derivatives, the others held.

    The gradient of an operator in its parameter need not have a derivative in that parameter, but one in the argument.
    """
    parts = defaultdict[tuple[int, ...], list[int]](list)
    for returned in _returned(base):
        inputs: tuple[int, ...] = ()
        for other in range(len(base.case.primals)):
            with contextlib.suppress(Exception):
                _probed(backward_case(base, [returned], (*inputs, other)))
                inputs = (*inputs, other)
        if inputs:
            parts[inputs].append(returned)
    return [backward_case(base, together, inputs) for inputs, together in parts.items()]


def _wrong_second(base: Baseline, derived: Case, recorded: Linearization) -> Iterator[Finding]:
    """Tell what is wrong with the second derivative, unless it only follows from a first one that is wrong.

    Where an argument with a surrogate enters the gradient of another one, either its own value or the surrogate counts.
    """
    found, reason = list(gradient(derived)), None
    if found and derived.target.declared.surrogates:
        plain = derived.calling(derived.target.function)
        plain.target = replace(derived.target, declared=replace(derived.target.declared, surrogates={}))
        found = found if any(gradient(plain)) else []
    if found:
        reason = _lost_second(base, recorded)
    if found and reason is None and any(gradient(base.case)):
        raise Skip("the gradient itself is wrong already")
    if found and is_shown_wrong(base.case):  # By upstream gradients it has the numbers of the first derivative.
        found = [finding.but(analytic=None, numeric=None, error=None, estimate=None) for finding in found]
    cut = _cut(derived, recorded) if found and reason is None else []
    small = sum(tensor.numel() for tensor in [*derived.primals, *recorded.outputs]) <= FEW
    for finding in found:
        why = reason or next((CUT for name in cut if f"by `{name}`" in finding.where), None)
        told = finding.code == "wrong-gradient" and why is None and small
        code, title = f"second-order-{finding.code}", f"Of the backward: {finding.title}"
        code, title = SECOND_CODES.get(finding.code, (code, title))
        where = f"second order: {finding.where.partition(';')[0]}; {base.case.label}"
        lost = _infinite(recorded) if finding.error is not None and math.isnan(finding.error) else None
        cause = "; ".join(filter(None, [why, finding.cause, lost])) or None
        finding = finding.but(code=code, title=title, where=where, cause=cause, hint=_second_hint(base.case))
        yield finding.but(case=derived if told else None)


def _probed(derived: Case) -> Linearization:
    """The backward recorded, and differentiated once.

    Raises:
        RuntimeError: it refuses to be differentiated, as what is decorated with ``once_differentiable`` does.
    """
    recorded = derived.linearize()
    if _torch.refuses_backward(recorded.outputs):
        raise RuntimeError("the backward is marked with once_differentiable")
    source = generator(derived, 71)
    recorded.vjp([signed(o.detach(), source) if o.requires_grad else None for o in recorded.outputs])
    return recorded


def _moves(base: Baseline) -> bool:
    """Tell whether the gradient depends on anything: that of a step function is zero, and need not be recorded."""
    recorded = base.case.linearize(nearby(base.case))
    return bool(base.differing_gradients(recorded.vjp([None if c is None else 2 * c for c in base.cotangents])))


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
    returned = _returned(base) if gradients is None else gradients
    varied = range(len(case.primals)) if inputs is None else inputs

    def backward(*arguments: Tensor, of: Case = case) -> tuple[Tensor, ...]:
        given, outer = list(case.primals), torch.is_grad_enabled()
        for i, primal in zip(varied, arguments, strict=False):
            given[i] = primal
        primals = [p if p.requires_grad else p.detach().requires_grad_() for p in given]
        found = of.record(primals).vjp(placed(base, arguments[len(varied) :]), create_graph=outer)
        return tuple(torch.zeros_like(given[i]) if (g := found[i]) is None else g for i in returned)

    upstream = used(base)
    names = (*(case.names[i] for i in varied), *(f"the upstream gradient of {base.output_name(i)}" for i in upstream))
    meant = {
        case.names[i]: partial(backward, of=of)
        for i, of in case.surrogates().items()
        # Without a recorded output there is no backward.
        if i in varied and any(output.requires_grad for output in of.linearize().outputs)
    }
    declared = Declared(case.target.declared.accuracy, meant)
    target = Target(
        f"the backward of {case.target.name}",
        "callable",
        backward,
        backward,
        names,
        returns=tuple(base.gradient_name(i) for i in returned),
        declared=declared,
        late=case.target.late,
    )
    arguments = [*(case.primals[i] for i in varied), *(base.cotangents[i] for i in upstream)]
    scales = [base.gradient_scale[i] for i in returned]
    return Case(target, arguments, seed=case.seed, traits=case.traits, scales=scales)


def _returned(base: Baseline) -> list[int]:
    """The inputs to which a gradient flows."""
    return [i for i, g in enumerate(base.gradients) if g is not None]


HIDDEN = "0 times infinity: torch.where hides what is infinite from the first derivative, and not from the second"
INFINITE = "0 times infinity, or infinity minus infinity, where the backward is differentiated"

SECOND_CODES = {
    "wrong-gradient": ("wrong-second-derivative", "The second derivative is wrong"),
    "wrong-at-ties": ("wrong-second-derivative", "The second derivative is wrong where elements are equal"),
    "loses-digits": ("second-derivative-loses-digits", "The second derivative loses digits"),
    "backward-raises": ("second-derivative-raises", "The second backward raises"),
    "nondifferentiable-output-moves": (
        "lost-second-derivative", "A gradient that depends on inputs is detached: its derivative is lost without a word"
    ),
}  # fmt: skip


DETACHED = (
    "a gradient is detached: the backward leaves torch (NumPy, .data, .item()), calls torch.autograd.grad without "
    "create_graph, or switches grad mode off"
)
CUT = (
    "nothing flows back from the gradient: it is computed from a detached tensor, or by a function of which torch has "
    "no derivative"
)


def _cut(derived: Case, recorded: Linearization) -> list[str]:
    """Name the inputs of the backward to which nothing flows back from the gradients."""
    flown = recorded.vjp([torch.ones_like(o) if o.requires_grad else None for o in recorded.outputs])
    return [name for name, gradient in zip(derived.names, flown, strict=True) if gradient is None]


def _infinite(derived: Linearization) -> str:
    """Say why a second derivative is NaN."""
    hides = any(node.name().startswith("Where") for node in _torch.nodes_in_graph(derived.outputs))
    return HIDDEN if hides else INFINITE


def _lost_second(base: Baseline, derived: Linearization) -> str | None:
    """Say how the graph of the gradient was cut, as far as that is seen."""
    if not all(output.requires_grad for output in derived.outputs):
        return DETACHED
    recorded, saved = with_saved(base.case.linearize)
    known = {tensor.data_ptr() for tensor in [*recorded.primals, *recorded.outputs]}
    every = _torch.nodes_in_graph(recorded.outputs)
    nodes = [node for node in every if isinstance(node, torch.autograd.function.FunctionCtx)]
    attributes = _torch.pytree.tree_leaves([list(vars(node).values()) for node in nodes])
    kept = [tensor for tensor in [*saved, *attributes] if differentiable(tensor)]
    if nodes and any(tensor.data_ptr() not in known for tensor in kept):
        return "an intermediate result is saved, whose own derivative is missing from the graph"
    return None
