"""Operators whose outputs have sizes that hang on values: a derivative is that at one size, and probes must keep to it.

Where two neighbours are equal, `unique_consecutive` has one value, and two as soon as one of them moves: no difference
can be taken there. Equal elements therefore move alike; and where a size changes all the same, nothing can be told.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .finding import Inconclusive
from .target import Target


def alike(target: Target, change: Tensor, at: Tensor) -> Tensor:
    """A change of a tensor, on its device; equal elements stay equal, where sizes may hang on that."""
    change = change.to(at.device)
    if not target.late or not at.numel():
        return change
    group = _groups(at.reshape(-1))
    first = torch.full_like(group, len(group)).scatter_reduce(0, group, torch.arange(len(group)).to(group), "amin")
    return change.reshape(-1)[first[group]].reshape(change.shape)


def _groups(values: Tensor) -> Tensor:
    """Number the elements of a vector; equal ones have the same number."""
    if values.is_complex():
        values = _groups(values.real) * len(values) + _groups(values.imag)
    _, numbers = values.unique(return_inverse=True)
    return numbers  # type: ignore[no-any-return]


def require_sizes(target: Target, found: Sequence[Tensor], given: Sequence[torch.Size]) -> None:
    """Refuse outputs of other sizes than those at the point where a derivative is taken.

    Raises:
        Inconclusive: there are such.
    """
    if [output.shape for output in found] != list(given):
        raise Inconclusive(
            f"the size {target.late} of its outputs changes as the arguments move: there is no derivative here; "
            "@f.samples may give arguments where it does not"
        )
