"""Batching: where the new axis goes when `vmap` maps an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .._draws.numbers import sample_seeds
from .._spec.axes import Axis
from .._spec.late import PAD
from .._spec.plan import owners_of
from .._spec.seed import samples_of
from .._spec.signature import Parameter, Signature
from ..errors import UnsupportedError


def leaf_dims(signature: Signature, values: Sequence[Any], in_dims: Sequence[Any]) -> list[int | None]:
    """The mapped axis of each leaf; the dispatcher leaves out trailing arguments that equal their defaults."""
    dims: list[int | None] = []
    for i, parameter in signature.tensors:
        given = in_dims[i] if i < len(in_dims) else None
        if parameter.many:
            dims.extend(given if isinstance(given, (list, tuple)) else [None] * len(values[i]))
        elif values[i] is not None:
            dims.append(given)
    return dims


def to_front(leaves: Sequence[Tensor], dims: Sequence[int | None]) -> list[Tensor]:
    """Every leaf with the mapped axis in front, of size 1 where it is not mapped."""
    return [leaf.unsqueeze(0) if dim is None else leaf.movedim(dim, 0) for leaf, dim in zip(leaves, dims, strict=True)]


def into_batch_axes(
    signature: Signature, values: Sequence[Any], leaves: Sequence[Tensor], dims: Sequence[int | None], size: int
) -> list[Tensor] | None:
    """The leaves with the mapped axis among the operator's own batch axes; None where it has no place there."""
    owners = owners_of(signature, values)
    if signature.loop or _all_lead(signature, None):
        return _align(owners, leaves, dims)
    runs = {token.name for _, p in signature.tensors if p.tensor.axes and (token := p.tensor.axes.leading_run)}
    name = runs.pop() if len(runs) == 1 else None
    if name is None or not all(o.type.axes and _leads(o.type.axes.leading_run, name) for o in signature.outputs):
        return None
    having = [_leads(_run(owner), name) for owner in owners]
    if any(dim is not None and not has for dim, has in zip(dims, having, strict=True)):
        return None
    moved = list(leaves)
    places = [i for i, has in enumerate(having) if has]
    aligned = _align([owners[i] for i in places], [leaves[i] for i in places], [dims[i] for i in places])
    for i, leaf in zip(places, aligned, strict=True):
        run = _run(owners[i])
        moved[i] = leaf.expand(size, *leaf.shape) if dims[i] is None and run is not None and not run.broadcast else leaf
    return moved


def with_sample_seeds(
    signature: Signature, values: Sequence[Any], leaves: Sequence[Tensor], dims: Sequence[int | None], size: int
) -> tuple[list[Tensor], list[int | None]]:
    """The leaves and their mapped axes, where each sample of an operator with batch axes has a seed of its own.

    A seed that is not mapped is the same for all that is mapped over, which the mapped axis alone would not tell.
    """
    owners = owners_of(signature, values)
    at = next((i for i, owner in enumerate(owners) if owner.is_seed), None)
    if at is None or (signature.batch_run is None and not signature.loop):
        return list(leaves), list(dims)
    shapes = [
        (owner, tuple(n for axis, n in enumerate(leaf.shape) if axis != dim))
        for owner, leaf, dim in zip(owners, leaves, dims, strict=True)
    ]
    samples = samples_of(signature, [(owner, shape) for owner, shape in shapes if not owner.is_seed])
    seed = leaves[at] if dims[at] is None else leaves[at].movedim(dims[at] or 0, 0)
    if not shapes[at][1] and samples:
        seed = sample_seeds(seed, samples)
    seed = seed.expand(size, *seed.shape) if dims[at] is None else seed
    return [*leaves[:at], seed, *leaves[at + 1 :]], [*dims[:at], 0, *dims[at + 1 :]]


def _run(owner: Parameter) -> Axis | None:
    return owner.tensor.axes.leading_run if owner.tensor.axes is not None else None


def _leads(run: Any, name: str | None) -> bool:
    return run is not None and run.name == name


def _all_lead(signature: Signature, name: str | None) -> bool:
    """Return True if every tensor starts with the run `name` (None for ``...``), so that leading axes broadcast."""
    axes = [p.tensor.axes for _, p in signature.tensors] + [output.type.axes for output in signature.outputs]
    return all(item is not None and _leads(item.leading_run, name) for item in axes)


def _align(owners: Sequence[Parameter], leaves: Sequence[Tensor], dims: Sequence[int | None]) -> list[Tensor]:
    """Mapped leaves with the new axis in front of all leading ones, lined up by axes of size 1."""

    def leading(owner: Parameter, leaf: Tensor, dim: int | None) -> int:
        axes = owner.tensor.axes
        assert axes is not None
        core = len(axes.tokens) - (axes.run is not None)
        return leaf.dim() - (dim is not None) - core

    ranks = [leading(*item) for item in zip(owners, leaves, dims, strict=True)]
    most = max(ranks)
    moved: list[Tensor] = []
    for leaf, dim, rank in zip(leaves, dims, ranks, strict=True):
        if dim is None:
            moved.append(leaf)
        else:
            front = leaf.movedim(dim, 0)
            moved.append(front.reshape(front.shape[0], *(1,) * (most - rank), *front.shape[1:]))
    return moved


def refuse_late(signature: Signature) -> UnsupportedError:
    """The error for samples whose outputs would differ in size."""
    sizes = " and ".join(sorted(signature.late_names))
    return UnsupportedError(
        f"torch.vmap cannot map it: the size {sizes} of its outputs is known only after the call, and each sample has "
        "another",
        operator=signature.name, expected="outputs of one size for all samples", got=f'data_dependent="{sizes}"',
        hint=PADDED.format(name=signature.name, size=min(signature.late_names)),
    )  # fmt: skip


PADDED = f"""{PAD}
@tg.op
def {{name}}_padded(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n"], Int64[Tensor, ""]]:
    made = ...
    {{size}} = made.shape[0]
    return F.pad(made, (0, x.shape[0] - {{size}})), torch.tensor({{size}})"""
"""Template of the advice for a refused `vmap`: an operator whose output is padded to a known size."""
