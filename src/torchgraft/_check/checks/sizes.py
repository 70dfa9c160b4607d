"""The gradient at other sizes, and where elements are equal."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from ... import _torch
from ..baseline import baseline, cotangents_for
from ..case import Case, Linearization
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..generate.inputs import signature_of
from ..numeric.gradient import WRONG_AT_TIES, gradient, is_right
from ..numeric.line import shown_right
from ..target import OWN
from ..variations import (
    admitted,
    fit_parameters,
    nearby,
    paired,
    resized,
    resized_axis,
    shape_of,
    sizes,
    uniform,
    within,
)
from .combinations import continuous, not_made_for, part_of
from .ways import Words

# -- the gradient at other sizes: none, one, two, beyond the tiles of a kernel, and different from each other --------

# A gradient that is right for a batch of four may divide by n - 1. Another, right for squares, may swap the axes.


SIZES = (1, 2, 3, 4, 7, 64, 67, 0)
"""Small ones may have formulas of their own, as vectors in space have; kernels treat in a way of their own what is left
over from a tile of 64, and where nothing is."""

MANY = 3_000
"""Elements of the largest cases that are tried."""


def other_sizes(case: Case) -> Iterator[Finding]:
    """Resize all axes of one size together, then single axes of those that are equal, wherever the target takes it."""
    baseline(case)
    taken, wrong, claimed = 0, set[tuple[str, Verdict]](), signature_of(case.target) is not None
    if not is_right(case):
        raise Skip("the gradient is wrong at the given size already")
    for other in variants(case):
        variant = _varied(other.case) if fit_parameters(case, other.case) else None
        if variant is None:
            continue
        variant.traits |= {other.what}
        variant.seed += taken
        taken += 1
        empty_of_torch = not case.is_own and any(not primal.numel() for primal in variant.primals)
        for finding in look_at(variant, "a size"):
            raised = finding.code == "backward-raises"
            refused = raised and "invalid gradient" not in (finding.cause or "")
            if raised and not other.meant and (refused or _has_outputs_of(case, variant)):
                continue  # The forward should refuse what does not fit; it is no wrong number.
            if refused and not claimed and not _has_small_batch(variant, case):
                hint = "refuse such sizes in the forward, if it is not made for them"
                finding = finding.but(severity=Verdict.PASS, hint=hint)
            if empty_of_torch:  # A mean of nothing is torch's matter.
                finding = finding.but(severity=Verdict.PASS)
            if (finding.code, finding.severity) not in wrong:
                wrong.add((finding.code, finding.severity))
                part = part_of(case, variant) if finding.code == "wrong-gradient" and other.meant else None
                if part is not None:  # That there are more elements is not the cause.
                    title, hint = f"{part[1].title}, at values you did not give", not_made_for(case)
                    yield part[1].but(title=title, hint=hint, given=claimed, case=part[0])
                    continue
                if finding.code != "backward-raises":
                    title = f"{finding.title}, at sizes you did not give"
                    hint = "; ".join(filter(None, [finding.hint, not_made_for(case)]))
                    finding = finding.but(code=f"{finding.code}-at-size", title=title, hint=hint, case=variant)
                words = f"right at the sizes you gave, and wrong with {other.what}"
                cause = "; ".join(filter(None, [words, finding.cause]))
                where = f"{finding.where.partition(';')[0]}; {variant.label}"
                yield finding.but(where=where, cause=cause, given=claimed)
    if not taken:
        raise Skip("it takes no other sizes")


def _has_outputs_of(case: Case, variant: Case) -> bool:
    """Return True if outputs have the shapes that a case has: what is longer is ignored, and what is 1 broadcasts."""
    return [value.shape for value in variant.values()] == [value.shape for value in baseline(case).outputs]


def _has_small_batch(variant: Case, case: Case) -> bool:
    """Return True if the first axis of the first tensor has become empty or 1, as the last batch of an epoch may be."""
    rows = zip(case.leaf_names, case.leaves, variant.leaves, strict=True)
    own = {case.names[i] for i in case.parameters}
    first = next((rest for name, *rest in rows if name not in own and shape_of(rest[0])), None)
    before, after = (shape_of(leaf)[:1] for leaf in first) if first else ((), ())
    return after in ((0,), (1,)) and after != before


@dataclass(frozen=True)
class Variant:
    """A case of other sizes.

    Attributes:
        what: is another about it, in words.
        case: the case.
        meant: all tensors that had a size have the other one, so that arguments fit each other as before.
    """

    what: str
    case: Case
    meant: bool = True


def variants(case: Case) -> Iterator[Variant]:
    """Cases of other sizes: of all axes of one size, and of a single axis.

    A module's parameters keep theirs: kernels that trust their module crash where one does not fit the others. So do
    tensors that need no gradient, unless annotations say which sizes go together; and then only axes of 1 become
    longer, since they may be there to broadcast. Where the target takes no other size without them, all axes of that
    size change, of labels and masks too.
    """
    leaves, free = case.leaves, signature_of(case.target) is not None
    fixed = set() if free else {i for i, name in enumerate(case.leaf_names) if name not in case.names}
    own = {case.names[i] for i in case.parameters}
    trusted = {i for i, name in enumerate(case.leaf_names) if name in own}
    fixed |= trusted
    axes = [(i, axis, size) for i, leaf in enumerate(leaves) for axis, size in enumerate(shape_of(leaf))]
    for old in sizes(case):
        if old == 1 and not free:  # A first axis of 1 in front of others is a batch; other axes of 1 may broadcast.
            batches = [i for i, axis, size in axes if size == 1 and not axis and i not in fixed and leaves[i].dim() > 1]
            for new in (2, 7) if batches else ():
                longer = case
                for i in batches:
                    longer = resized_axis(longer, i, 0, new)
                yield Variant(f"size {new} instead of 1", longer)
            continue
        for new in (
            dict.fromkeys((*SIZES, old + 1)) if any(size == old and i not in fixed for i, _, size in axes) else ()
        ):
            if not new and not free and all(size == old for i, _, size in axes if i not in fixed):
                continue  # Nobody means a tensor all of whose axes are empty.
            yield from _of_size(case, old, new, fixed, trusted)
    yield from _groups(case, fixed)
    for i, axis, size in axes:
        if sum(size == other for *_, other in axes) > 1 < size and i not in fixed:
            for what, new in (("longer by one", size + 1), ("shorter by one", size - 1), ("of size 1", 1)):
                changed = resized_axis(case, i, axis, new)
                yield Variant(f"axis {axis} of {case.leaf_names[i]} {what}", changed, _in_a_list(case, i))


def _groups(case: Case, fixed: set[int]) -> Iterator[Variant]:
    """Yield the case with twice as many slices along an axis of which some tensors have one: heads, groups."""
    shapes = {i: shape_of(leaf) for i, leaf in enumerate(case.leaves) if i not in fixed}
    most = max(map(len, shapes.values()), default=0)
    alike = {i: shape for i, shape in shapes.items() if len(shape) == most}
    for axis in range(most):
        lengths = {shape[axis] for shape in alike.values()}
        if 1 in lengths and max(lengths) > 1:
            longer = case
            for i, shape in alike.items():
                longer = resized_axis(longer, i, axis, 2 * shape[axis])
            yield Variant(f"axis {axis} twice as long in each tensor", longer, meant=False)


def _of_size(case: Case, old: int, new: int, fixed: set[int], trusted: set[int]) -> Iterator[Variant]:
    """Yield the case with another size in the place of one, of tensors that need no gradient only if it has to be."""
    whole = resized(case, old, new).leaves
    for kept in (fixed, trusted) if fixed != trusted else (fixed,):
        rows = zip(case.leaves, whole, strict=True)
        changed = case.with_leaves([leaf if i in kept else other for i, (leaf, other) in enumerate(rows)])
        if kept is trusted or _varied(changed) is not None:
            others = any(old in shape_of(case.leaves[i]) for i in kept)
            yield Variant(f"size {new} instead of {old}", changed, meant=not others)
            return


def _in_a_list(case: Case, leaf: int) -> bool:
    """Return True for a tensor of a list, of which each has sizes of its own."""
    return "[" in case.leaf_names[leaf]


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


def look_at(case: Case, where: str) -> list[Finding]:
    """Look at the gradient of a case that the forward takes.

    Args:
        case: with arguments that the caller did not give.
        where: what is another about them, such as ``"size"``.
    """
    recorded = None
    try:
        recorded = case.linearize()
        recorded.vjp(cotangents_for(case, recorded.outputs))
    except Exception as error:
        title = f"The backward raises, with {where} that the forward takes"
        few = where == "a size" and any(leaf.numel() < 2 for leaf in case.leaves if isinstance(leaf, Tensor))
        hint = "treat empty tensors and single elements as the forward does" if few else None
        return [Words("backward-raises", title, "", hint, _severity(case, recorded)).at("the backward", error)]
    if any(primal.numel() for primal in case.primals) and not shown_right(case):
        with contextlib.suppress(Skip, Inconclusive):
            return list(gradient(case))
    return []


def _severity(case: Case, recorded: Linearization | None) -> Verdict:
    """Of a backward that raises: an empty batch must have an empty gradient; an empty filter is nobody's intention.

    Where all derivatives are torch's own, so is what they refuse at sizes that the caller did not ask for.
    """
    if case.target.kind not in OWN and recorded is not None and not _torch.functions_in_graph(recorded.outputs):
        return Verdict.PASS
    empty = any(not primal.numel() for primal in case.primals)
    emptied = {primal.shape for primal in case.primals if not primal.numel()}
    absurd = any(shape_of(leaf).count(0) > 1 for leaf in case.leaves) or (len(emptied) > 1 and len(case.primals) > 1)
    full = any(primal.numel() for primal in case.primals) and any(value.numel() for value in case.values())
    return Verdict.PASS if absurd or (empty and full) else Verdict.FAIL


# -- the gradient where elements are equal, for arguments of which none are ------------------------------------------


def ties(case: Case) -> Iterator[Finding]:
    """Pairs of equal elements, then all of each tensor, of which a gather may take some that are no pair."""
    baseline(case)
    ways = [primals for primals in (paired(case), uniform(case)) if admitted(case, primals)]
    if not ways:
        raise Skip("it takes no equal elements")
    reasons = list[Inconclusive]()
    for primals in ways:
        try:
            found = _wrong_at_ties(case, primals)
        except Inconclusive as why:  # A distance has its kink there, for instance.
            reasons.append(why)
            continue
        claimed = signature_of(case.target) is not None
        yield from (finding.but(given=claimed, severity=_at_ties(case, finding)) for finding in found)
        if found:
            return
    if len(reasons) == len(ways):
        raise Skip(f"there is no derivative to compare with where elements are equal: {reasons[0]}") from reasons[0]


def _at_ties(case: Case, finding: Finding) -> Verdict:
    """A NaN is torch's own where it differentiates, as where a matrix has equal eigenvalues."""
    lost = isinstance(finding.analytic, float) and math.isnan(finding.analytic)
    return Verdict.PASS if lost and not case.is_own else finding.severity


def _wrong_at_ties(case: Case, primals: list[Tensor]) -> list[Finding]:
    """Find what is wrong because of ties: it is right for elements that differ a little."""
    equal = case.replaced(primals)
    if shown_right(equal):
        return []
    found = [finding for finding in gradient(equal) if finding.code == WRONG_AT_TIES]
    if found and not continuous(equal):
        raise Inconclusive("the values jump there")
    if found and any(gradient(case.replaced(nearby(case)))):
        raise Skip("the gradient is wrong where elements differ already")
    return found if found and not any(gradient(equal.replaced(nearby(equal)))) else []
