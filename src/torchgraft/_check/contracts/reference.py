"""Values against the operator's reference."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from ... import _torch
from ..baseline import Difference, distance, nudged, short, slack
from ..case import Case, describe
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..reference import reference_outputs


def reference(case: Case) -> Iterator[Finding]:
    """Both on the same arguments, the reference in double precision."""
    operator = case.target.operator
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
        allowed = slack(value, [sample[i] for sample in moved], units=256)
        difference = Difference(i, name, value, other, distance(value, other), allowed)
        if not difference.error <= difference.slack:
            yield difference.finding("wrong-value", f"{name.capitalize()} is not that of the reference", case.label)


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
