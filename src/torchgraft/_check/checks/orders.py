"""Forward mode and second order agree with the backward pass."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from ... import _torch
from ..._errors import DerivativeError
from ..baseline import Baseline, Value, baseline, distance, generator, signed
from ..case import Case, Linearization
from ..claims import Refused, attempt, claimed, refusal, unclaimed
from ..declared import Declared
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..numeric.gradient import gradient
from ..numeric.probe import Probe
from ..numeric.vectors import flatten
from ..surrogate import surrogates
from ..target import Target, differentiable
from ..variations import nearby

# -- forward mode: the tangent against the backward, and against differences where the two disagree ------------------


def tangents(case: Case) -> Iterator[Finding]:
    """All inputs along a direction, along another, and each input alone, whose neighbours then have no tangent."""
    base = baseline(case)
    if any(isinstance(leaf, Tensor) and leaf.layout != torch.strided for leaf in case.leaves):
        raise Skip("sparse tensors carry no tangents")
    try:
        for place, direction in _trials(base):
            found = attempt(partial(push, place.case, direction))
            wrong = list(_compare(place, direction, found))
            yield from wrong
            if wrong:
                return
    except Refused as why:
        yield from refusal(case, "forward", why)
        return
    yield from unclaimed(case, "forward")


def _trials(base: Baseline) -> Iterator[tuple[Baseline, list[Value]]]:
    """Each input alone, then all; and all at another point, where what was kept of the first call is wrong."""
    case, source = base.case, generator(base.case, 61)
    first, second = ([signed(primal, source) for primal in case.primals] for _ in range(2))
    if len(first) > 1:
        for j in range(min(len(first), 4)):
            yield base, [u if i == j else None for i, u in enumerate(first)]
    yield base, list(first)
    yield base, list(second)
    with contextlib.suppress(Inconclusive):
        yield baseline(case.replaced(nearby(case, spread=2.0**-3))), list(first)


def push(case: Case, direction: Sequence[Value]) -> list[Value]:
    """J u by forward mode: a tangent for each output, None where it has none."""
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        duals = [
            primal.clone() if tangent is None else forward_ad.make_dual(primal.clone(), tangent.clone())
            for primal, tangent in zip(case.primals, direction, strict=True)
        ]
        with torch.no_grad():
            outputs = case.outputs(duals)
        return [None if (t := forward_ad.unpack_dual(o).tangent) is None else t.clone() for o in outputs]


def _compare(base: Baseline, direction: Sequence[Value], found: Sequence[Value]) -> Iterator[Finding]:
    which = [name for name, u in zip(base.case.names, direction, strict=True) if u is not None]
    where = f"tangents of {', '.join(which) if len(which) < len(direction) else 'all inputs'}; {base.case.label}"
    for i, (cotangent, tangent) in enumerate(zip(base.cotangents, found, strict=True)):
        if cotangent is None:
            continue
        alone = [c if j == i else None for j, c in enumerate(base.cotangents)]
        gradients = base.case.linearize().pull(alone) if len(alone) > 1 else base.gradients
        backward = sum(_inner(g, u) for g, u in zip(gradients, direction, strict=True))
        forward = _inner(tangent, cotangent)
        slack = _slack(base, direction, gradients, tangent, cotangent)
        if abs(forward - backward) <= slack or forward != forward or backward != backward:
            continue
        error = abs(forward - backward)
        if tangent is None:
            yield _lost_tangent(base, i, where).but(analytic=forward, numeric=backward, error=error, estimate=slack)
        else:
            yield _wrong_tangent(base, i, where, direction, tangent).but(error=error, estimate=slack)


def _lost_tangent(base: Baseline, index: int, where: str) -> Finding:
    name = base.output_name(index)
    if any(
        "GeneratedBackwardFor" in type(node).__name__ for node in _torch.nodes_in_graph(base.case.linearize().outputs)
    ):
        return Finding(
            "no-tangent", Verdict.PASS, f"Forward mode gives {name} no tangent, and says nothing", f"{name}; {where}",
            cause="operators with torch.library.register_autograd have no forward mode: PyTorch takes it for zero",
            hint="use reverse mode, or a torchgraft operator",
        )  # fmt: skip
    return Finding(
        "lost-tangent", Verdict.FAIL, f"Forward mode gives {name} no tangent, and says nothing", f"{name}; {where}",
        cause="jvp returns None, or numbers leave torch on the way: the tangent counts as zero",
        hint="return the tangent from jvp, or raise",
    )  # fmt: skip


def _wrong_tangent(base: Baseline, index: int, where: str, direction: Sequence[Value], tangent: Tensor) -> Finding:
    """The disagreement; differences say which side is wrong."""
    name = base.output_name(index)
    numeric = _numeric(base, index, direction)
    if numeric is not None and distance(tangent, numeric) <= (1e-4 + base.case.target.declared.error) * float(
        numeric.abs().max()
    ):
        return Finding(
            "wrong-gradient", Verdict.FAIL, f"The backward of {name} disagrees with forward mode and with differences",
            f"{name}; {where}", tangent, numeric, cause="the tangent is right: look at the backward",
        )  # fmt: skip
    return Finding(
        "wrong-tangent", Verdict.FAIL, f"The tangent of {name} is wrong", f"{name}; {where}", tangent, numeric,
        cause=_cause(tangent, numeric), hint="jvp gets a tangent for each input (None where it has none)",
    )  # fmt: skip


def _cause(tangent: Tensor, numeric: Tensor | None) -> str:
    """What makes the tangent of the derivative along the direction."""
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


def _numeric(base: Baseline, index: int, direction: Sequence[Value]) -> Tensor | None:
    """The derivative of an output along the direction by differences, or None where that cannot be told."""
    primals = base.case.primals
    dense = [torch.zeros_like(p) if u is None else u for p, u in zip(primals, direction, strict=True)]
    try:
        flat = Probe(base.case).climb(flatten(dense)).derivative
    except Exception:
        return None
    place = 0
    for i, output in enumerate(base.outputs):
        size = output.numel() * (2 if output.is_complex() else 1)
        if i == index:
            piece = flat[place : place + size].clone()
            shaped = torch.view_as_complex(piece.view(-1, 2)) if output.is_complex() else piece
            return shaped.reshape(output.shape)
        place += size
    return None


def _inner(left: Value, right: Value) -> float:
    """The real inner product, in double precision."""
    if left is None or right is None:
        return 0.0
    wide = torch.complex128 if left.is_complex() or right.is_complex() else torch.float64
    a, b = left.detach().to(wide), right.detach().to(wide)
    return float((a.conj() * b).real.sum())


def _slack(
    base: Baseline, direction: Sequence[Value], gradients: Sequence[Value], tangent: Value, cotangent: Tensor
) -> float:
    """The slack of each gradient along the direction, and 64 units in the last place of both sums' terms."""
    total, accuracy = 0.0, base.case.target.declared.error
    for slack, found, u in zip(base.gradient_slack, gradients, direction, strict=True):
        if found is not None and u is not None:
            total += slack * float(u.abs().sum()) + (64 * torch.finfo(u.dtype).eps + accuracy) * float(
                (found.abs() * u.abs()).sum()
            )
    if tangent is not None:
        terms = float((tangent.detach().abs() * cotangent.abs()).sum())
        total += (64 * torch.finfo(cotangent.dtype).eps + accuracy) * terms
    return 4 * total


# -- double backward: the numeric core on the backward as a function of the inputs and the upstream gradients --------


SECOND_HINT = (
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
            yield from _wrong_second(base, part, _probed(part))
        return
    yield from unclaimed(case, "second order")
    if any(output.requires_grad for output in recorded.outputs):
        yield from _wrong_second(base, backward_case(base), recorded)
    elif _moves(base):
        title = "The gradient is detached: differentiating it again gives None, not an error"
        cause = "the gradient is detached: the backward leaves torch (NumPy, .data, .item()), or switches grad mode off"
        yield Finding(
            "lost-second-derivative", Verdict.FAIL, title, f"the gradient; {case.label}", cause=cause, hint=SECOND_HINT
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


def _wrong_second(base: Baseline, derived: Case, recorded: Linearization) -> Iterator[Finding]:
    """What is wrong with the second derivative, unless it only follows from a first one that is wrong."""
    found, reason = _against_surrogates(derived), None
    if found:
        reason = _lost_second(base, recorded)
    if found and reason is None and any(gradient(base.case)):
        raise Skip("the gradient itself is wrong already")
    small = sum(tensor.numel() for tensor in [*derived.primals, *recorded.outputs]) <= FEW
    for finding in found:
        told = finding.code == "wrong-gradient" and reason is None and small
        yield _renamed(finding, base, reason).but(case=derived if told else None)


def _against_surrogates(derived: Case) -> list[Finding]:
    """What is wrong with the derivative of the backward.

    Where an argument with a surrogate enters the gradient of another one, either its own value or the surrogate counts.
    """
    found = list(gradient(derived))
    if found and derived.target.declared.surrogates:
        plain = derived.calling(derived.target.function)
        plain.target = replace(derived.target, declared=replace(derived.target.declared, surrogates={}))
        found = found if any(gradient(plain)) else []
    return found


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

    def backward(*arguments: Tensor, of: Case = case) -> tuple[Tensor, ...]:
        given, outer = list(case.primals), torch.is_grad_enabled()
        for i, primal in zip(varied, arguments, strict=False):
            given[i] = primal
        primals = [p if p.requires_grad else p.detach().requires_grad_() for p in given]
        cotangents: list[Value] = [None] * len(base.cotangents)
        for i, cotangent in zip(used, arguments[len(varied) :], strict=True):
            cotangents[i] = cotangent
        found = of.record(primals).pull(cotangents, create_graph=outer)
        return tuple(_present(found[i], given[i]) for i in returned)

    names = (*(case.names[i] for i in varied), *(f"the upstream gradient of {base.output_name(i)}" for i in used))
    meant = {
        case.names[i]: partial(backward, of=of) for i, of in surrogates(case).items() if i in varied and _flows(of)
    }
    declared = Declared(case.target.declared.accuracy, meant)
    target = Target(f"the backward of {case.target.name}", "callable", backward, backward, names, declared=declared)
    arguments = [*(case.primals[i] for i in varied), *(base.cotangents[i] for i in used)]
    scales = [base.gradient_scale[i] for i in returned]
    return Case(target, arguments, seed=case.seed, traits=case.traits, scales=scales)


def _flows(case: Case) -> bool:
    """Whether torch differentiates it, so that its backward is a function too."""
    return any(output.requires_grad for output in case.linearize().outputs)


def _returned(base: Baseline) -> list[int]:
    """The inputs to which a gradient flows."""
    return [i for i, g in enumerate(base.gradients) if g is not None]


def _present(gradient: Value, primal: Tensor) -> Tensor:
    return torch.zeros_like(primal) if gradient is None else gradient


SECOND_CODES = {
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
    code, title = SECOND_CODES.get(finding.code, (f"second-order-{finding.code}", f"Of the backward: {finding.title}"))
    where = f"second order: {finding.where.partition(';')[0]}; {base.case.label}"
    cause = "; ".join(part for part in (reason, finding.cause) if part) or None
    return finding.but(code=code, title=title, where=where, cause=cause, hint=SECOND_HINT)


def _lost_second(base: Baseline, derived: Linearization) -> str | None:
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
