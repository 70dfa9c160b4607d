"""Values against the operator's reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ... import _torch
from ..baseline import Difference, distance, generator, nudged, short
from ..case import Case, describe
from ..contract import contract
from ..finding import Finding, Inconclusive, Skip, Verdict
from ..reference import reference_outputs


@contract("reference", "The operator's values are those of its reference.")
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
        raise Inconclusive(f"the reference raises: {short(error)}") from error
    found = _tensors(case.call())
    source = generator(case, 53)
    moved = [_tensors(case.call([nudged(primal, source) for primal in primals])) for _ in range(2)]
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
        slack = _slack(value, other, [sample[i] for sample in moved])
        difference = Difference(i, name, value, other, distance(value, other), slack)
        if not difference.error <= difference.slack:
            yield difference.finding("wrong-value", f"{name.capitalize()} is not that of the reference", case.label)


def _tensors(value: object) -> list[Tensor]:
    return [leaf.detach() for leaf in _torch.pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _slack(value: Tensor, expected: Tensor, moved: Sequence[Tensor]) -> float:
    """Rounding of the inputs, and 256 units in the last place of the largest value; nothing for integers."""
    if not (value.is_floating_point() or value.is_complex()) or not value.numel():
        return 0.0
    finite = expected.abs()[expected.isfinite()]
    largest = float(finite.max()) if finite.numel() else 0.0
    observed = [d for d in (distance(other, value) for other in moved) if d != float("inf")]
    return 16 * max(observed, default=0.0) + 256 * torch.finfo(value.dtype).eps * largest
