"""Other sizes, equal elements, and the values of a reference."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator

import torch
from torch import Tensor, nn

from ... import _torch
from ..baseline import Difference, baseline, cotangents_for, distance, nudged, short, slack
from ..case import Case, Linearization, describe
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..generate.inputs import signature_of
from ..numeric.gradient import WRONG_AT_TIES, gradient, is_right
from ..reference import reference_outputs
from ..variations import admitted, nearby, options, paired, resized, resized_axis, sizes, within
from .accuracy import jumps

# -- the gradient at other sizes: none, one, two, beyond the tiles of a kernel, and different from each other --------

# A gradient that is right for a batch of four may divide by n - 1, and one that is right for squares may swap the axes.


SIZES = (0, 1, 2, 7, 67)
"""Odd ones, and more than 64: kernels treat what is left over from a tile in a way of its own."""

MANY = 3_000
"""Elements of the largest cases that are tried."""


def other_sizes(case: Case) -> Iterator[Finding]:
    """Resize all axes of one size together, then single axes of those that are equal, wherever the target takes it."""
    baseline(case)
    taken, wrong = 0, set[str]()
    if not is_right(case):
        raise Skip("the gradient is wrong at the given size already")
    for what, larger in variants(case):
        variant = _varied(larger)
        if variant is None:
            continue
        variant.traits |= {what}
        variant.seed += taken
        taken += 1
        for finding in _look(variant):
            if finding.code not in wrong:
                wrong.add(finding.code)
                cause = "; ".join(part for part in (f"wrong only with {what}", finding.cause) if part)
                yield finding.but(where=f"{finding.where.partition(';')[0]}; {variant.label}", cause=cause)
    if not taken:
        raise Skip("it takes no other sizes")


def variants(case: Case) -> Iterator[tuple[str, Case]]:
    """Cases of other sizes, and what is another about them.

    A module's parameters keep theirs: kernels that trust their module crash where one does not fit the others. So do
    tensors that need no gradient, unless annotations say which sizes go together; and then only axes of 1 become
    longer, since they may be there to broadcast.
    """
    leaves, free = case.leaves, signature_of(case.target) is not None
    fixed = set() if free else {i for i, name in enumerate(case.leaf_names) if name not in case.names}
    if case.target.kind == "module":
        own = {name for name, _ in case.target.origin.named_parameters()}
        fixed |= {i for i, name in enumerate(case.leaf_names) if name in own}
    axes = [(i, a, leaf.shape[a]) for i, leaf in enumerate(leaves) if _dense(leaf) for a in range(leaf.dim())]
    for old in sizes(case):
        if old == 1 and not free:
            yield from _batches_of_one(case, fixed)
            continue
        for new in SIZES if any(size == old and i not in fixed for i, _, size in axes) else ():
            if not new and not free and all(size == old for i, _, size in axes if i not in fixed):
                continue  # nobody means a tensor all of whose axes are empty
            changed = resized(case, old, new).leaves
            yield (
                f"size {new} instead of {old}",
                case.with_leaves([leaves[i] if i in fixed else leaf for i, leaf in enumerate(changed)]),
            )
    for i, axis, size in axes:
        if sum(size == other for *_, other in axes) > 1 < size and i not in fixed:
            yield f"axis {axis} of {case.leaf_names[i]} longer by one", resized_axis(case, i, axis, size + 1)


def _batches_of_one(case: Case, fixed: Container[int]) -> Iterator[tuple[str, Case]]:
    """A first axis of 1 in front of others is a batch; other axes of 1 may be there to broadcast."""
    batches = [
        i for i, leaf in enumerate(case.leaves) if i not in fixed and _dense(leaf) and leaf.dim() > 1 and len(leaf) == 1
    ]
    for new in (2, 7) if batches else ():
        longer = case
        for i in batches:
            longer = resized_axis(longer, i, 0, new)
        yield f"size {new} instead of 1", longer


def _dense(leaf: object) -> bool:
    return isinstance(leaf, Tensor) and leaf.layout == torch.strided


def _varied(case: Case) -> Case | None:
    """With other values where some were repeated, so that no two are equal; None where the target does not take it."""
    if sum(primal.numel() for primal in case.primals) > MANY:
        return None
    for spread in (2.0**-3, 2.0**-10):
        varied = case.replaced(nearby(case, spread=spread))
        try:
            if within(varied) and all(bool(value.isfinite().all()) for value in varied.values()):
                return varied
        except Exception:
            continue
    return None


def _look(case: Case) -> Iterator[Finding]:
    recorded = None
    try:
        recorded = case.linearize()
        recorded.pull(cotangents_for(case, recorded.outputs))
    except Exception as error:
        yield Finding(
            "backward-raises", _severity(case, recorded), "The backward raises at a size that the forward takes",
            "the backward", cause=short(error), hint="treat empty tensors and single elements as the forward does",
        )  # fmt: skip
        return
    if not any(primal.numel() for primal in case.primals):
        return
    with contextlib.suppress(Skip, Inconclusive):
        for finding in gradient(case):
            yield finding.but(code=f"{finding.code}-at-size", title=f"{finding.title}, at another size", case=case)


def _severity(case: Case, recorded: Linearization | None) -> Verdict:
    """Of a backward that raises: an empty batch must have an empty gradient; an empty filter is nobody's intention.

    Where all derivatives are torch's own, so is what they refuse at sizes that the caller did not ask for.
    """
    if case.target.kind == "callable" and recorded is not None and not _torch.functions_in_graph(recorded.outputs):
        return Verdict.PASS
    empty = any(not primal.numel() for primal in case.primals)
    full = any(primal.numel() for primal in case.primals) and any(value.numel() for value in case.values())
    return Verdict.PASS if empty and full else Verdict.FAIL


# -- the gradient for other options ------------------------------------------------------------------------------------


def other_options(case: Case) -> Iterator[Finding]:
    """Turn flags, change numbers and words, lengthen lists, leave out what is optional, one at a time."""
    baseline(case)
    if not is_right(case):
        raise Skip("the gradient is wrong with the given options already")
    tried = 0
    given: list[tuple[str, Case, contextlib.AbstractContextManager[None]]] = []
    given += [(what, other, contextlib.nullcontext()) for what, other in options(case)]
    for what, other, mode in (*given, *_other_mode(case)):
        with mode, contextlib.suppress(Exception):  # it takes no such option, or nothing can be told there
            recorded = other.linearize()
            if not any(o.requires_grad for o in recorded.outputs) or baseline(other).random or not within(other):
                continue
            tried += 1
            found = list(gradient(other))
            where, title = f"{what}; {other.label}", "with an option you did not give"
            yield from (
                f.but(title=f"{f.title}, {title}", where=where, cause=f"with {what}", case=other) for f in found
            )
    if not tried:
        raise Skip("it has no options that could be others")


def _other_mode(case: Case) -> Iterator[tuple[str, Case, contextlib.AbstractContextManager[None]]]:
    """A module in its other mode, training or evaluation."""
    if case.target.kind == "module":
        module = case.target.origin
        yield f"training={not module.training}", case.with_leaves(case.leaves), _turned(module)


@contextlib.contextmanager
def _turned(module: nn.Module) -> Iterator[None]:
    before = [(part, part.training) for part in module.modules()]
    module.train(not module.training)
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


# -- the gradient where elements are equal, for arguments of which none are ------------------------------------------


def ties(case: Case) -> Iterator[Finding]:
    """Only what is right for elements that differ a little is wrong because of the ties."""
    primals = paired(case)
    if not admitted(case, primals):
        raise Skip("it takes no equal elements")
    equal = case.replaced(primals)
    try:
        if any(gradient(case.replaced(nearby(case)))):
            raise Skip("the gradient is wrong where elements differ already")
        found = [finding for finding in gradient(equal) if finding.code == WRONG_AT_TIES]
    except Inconclusive as why:  # such as a distance, which has its kink there
        raise Skip(f"there is no derivative to compare with where elements are equal: {why}") from why
    if found and not any(gradient(equal.replaced(nearby(equal)))):
        yield from found


# -- values against the operator's reference -------------------------------------------------------------------------


def reference(case: Case) -> Iterator[Finding]:
    """Both on the same arguments, the reference in double precision; and the accuracy, where one is declared."""
    operator, accuracy = case.target.operator, case.target.declared.error
    if accuracy:
        yield from jumps(case)
        if operator is None or operator._record.reference is None:
            return
    if operator is None or operator._record.reference is None:
        raise Skip("no reference is declared")
    primals = case.primals
    args, kwargs = case.arguments(primals)
    try:
        expected = reference_outputs(operator, args, kwargs)
    except Exception as error:
        yield from _only_here(case, error)
        return
    found = _tensors(case.call())
    moved = [_tensors(case.call(nudged(case, primals, sample))) for sample in range(2)]
    if len(found) != len(expected):
        title = f"{len(found)} outputs, and {len(expected)} of the reference"
        yield Finding("wrong-value", Verdict.FAIL, title, case.label)
        return
    for i, (value, other) in enumerate(zip(found, expected, strict=True)):
        name = "the output" if len(found) == 1 else f"output {i}"
        if value.shape != other.shape:
            title = f"{name.capitalize()} is {describe(value)}, and {list(other.shape)} in the reference"
            yield Finding("wrong-value", Verdict.FAIL, title, f"{name}; {case.label}")
            continue
        allowed = slack(value, [sample[i] for sample in moved], accuracy, units=256)
        difference = Difference(i, name, value, other, distance(value, other), allowed)
        if not difference.error <= difference.slack:
            to = f" to {accuracy:g}" if accuracy else ""
            yield difference.finding("wrong-value", f"{name.capitalize()} is not that of the reference{to}", case.label)


def _only_here(case: Case, error: Exception) -> Iterator[Finding]:
    """Where the reference raises the operator must raise, or give NaN or infinity, as torch does.

    Raises:
        Inconclusive: it gives none, or there are no elements.
    """
    found = _tensors(case.call())
    if not any(value.numel() for value in found) or not all(bool(value.isfinite().all()) for value in found):
        raise Inconclusive(f"the reference raises: {short(error)}") from error
    yield Finding(
        "raises-only-in-reference", Verdict.FAIL, "The reference raises, and the operator returns a value", case.label,
        cause=f"the reference raises {short(error)}",
        hint="refuse these arguments as the reference does, or declare the domain: @tg.domain",
    )  # fmt: skip


def _tensors(value: object) -> list[Tensor]:
    return [leaf.detach() for leaf in _torch.pytree.tree_leaves(value) if isinstance(leaf, Tensor)]
