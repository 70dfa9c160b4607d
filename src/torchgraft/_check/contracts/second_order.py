"""Double backward: the numeric core on the backward as a function of the inputs and the upstream gradients."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Baseline, Value, baseline, generator, nearby, signed
from ..case import Case, Linearization
from ..cause.explain import explain
from ..claims import Refused, attempt, refusal, unclaimed
from ..contract import contract
from ..finding import Finding, Skip, Verdict
from ..gradient import gradient
from ..target import Target

HINT = (
    "save inputs and outputs, not intermediate results, and compute the gradient from them by torch functions; "
    "or decorate backward with @once_differentiable"
)


@contract("second order", "The backward can be differentiated, or refuses to be.")
def second_order(case: Case) -> Iterator[Finding]:
    """Differentiate the backward once more; where it refuses, that is right as well."""
    base = baseline(case)
    if any(isinstance(leaf, Tensor) and leaf.layout != torch.strided for leaf in case.leaves):
        raise Skip("torch differentiates few functions of sparse tensors twice")
    if not any(g is not None for g in base.gradients):
        raise Skip("no gradient flows to any input")
    derived = backward_case(base)
    try:
        recorded = attempt(lambda: _probed(derived))
    except Refused as why:
        yield from refusal(case, "second order", why)
        return
    yield from unclaimed(case, "second order")
    if any(output.requires_grad for output in recorded.outputs):
        for finding in gradient(derived):
            yield _renamed(explain(derived, finding) if finding.code == "wrong-gradient" else finding, case)
    elif _moves(base):
        title = "The gradient is detached: differentiating it again gives None, not an error"
        cause = "the backward leaves torch, or runs without grad mode"
        yield Finding(
            "lost-second-derivative", Verdict.FAIL, title, f"the gradient; {case.label}", cause=cause, hint=HINT
        )


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


def backward_case(base: Baseline) -> Case:
    """The backward as a case of its own: a function of primals and upstream gradients that returns the gradients."""
    case = base.case
    used = [i for i, c in enumerate(base.cotangents) if c is not None]
    returned = [i for i, g in enumerate(base.gradients) if g is not None]
    count = len(base.gradients)

    def backward(*arguments: Tensor) -> tuple[Tensor, ...]:
        given, outer = list(arguments[:count]), torch.is_grad_enabled()
        primals = [p if p.requires_grad else p.detach().requires_grad_() for p in given]
        cotangents: list[Value] = [None] * len(base.cotangents)
        for i, cotangent in zip(used, arguments[count:], strict=True):
            cotangents[i] = cotangent
        found = case.record(primals).pull(cotangents, create_graph=outer)
        return tuple(_present(found[i], given[i]) for i in returned)

    names = (*case.names, *(f"the upstream gradient of {base.output_name(i)}" for i in used))
    target = Target(f"the backward of {case.target.name}", "callable", backward, backward, names)
    arguments = [*case.primals, *(base.cotangents[i] for i in used)]
    return Case(target, arguments, seed=case.seed, traits=case.traits)


def _present(gradient: Value, primal: Tensor) -> Tensor:
    return torch.zeros_like(primal) if gradient is None else gradient


def _renamed(finding: Finding, case: Case) -> Finding:
    codes = {
        "wrong-gradient": "wrong-second-derivative",
        "nondifferentiable-output-moves": "lost-second-derivative",
        "loses-digits": "second-derivative-loses-digits",
        "wrong-at-ties": "wrong-second-derivative",
        "backward-raises": "second-derivative-raises",
    }
    name = finding.where.partition(";")[0]
    titles = {
        "wrong-gradient": "The second derivative is wrong",
        "nondifferentiable-output-moves": "A gradient depends on its inputs and is detached: its derivative is lost without an error",
        "loses-digits": "The second derivative loses digits",
    }
    return finding.but(
        code=codes.get(finding.code, f"second-order-{finding.code}"), title=titles.get(finding.code, f"Of the backward: {finding.title}"),
        where=f"second order: {name}; {case.label}", hint=HINT,
    )  # fmt: skip
