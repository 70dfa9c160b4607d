"""The seed of a call with DTensors: all ranks have the same, and samples are numbered before a mesh cuts them.

So the draws of a sample are the same on every rank that computes it, and do not depend on how many ranks there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _torch
from .._draws.numbers import sample_seeds
from .._record import Record


def with_global_seeds(record: Record, values: Sequence[Any], lead: int) -> Sequence[Any]:
    """The arguments of a call, with a seed that is a DTensor, and has one number for each sample."""
    at = record.signature.seed
    if at is None:
        return values
    found = map(_torch.dtensor_below, record.leaves(values))
    mesh = next(tensor.device_mesh for tensor in found if tensor is not None)
    samples = record.plan(values, lead).samples
    seed = _torch.dtensor_below(values[at])
    seed = _agreed(values[at], mesh) if seed is None else seed
    if samples and seed.dim() <= lead:
        seed = _of_samples(seed, samples)
    return [*values[:at], seed, *values[at + 1 :]]


def _agreed(seed: Any, mesh: Any) -> Any:
    """A DTensor of the seed of the mesh's first rank: each rank draws by a generator of its own."""
    from torch.distributed.tensor import Replicate, distribute_tensor

    return distribute_tensor(seed, mesh, [Replicate()] * mesh.ndim)


def _of_samples(seed: Any, samples: Sequence[int]) -> Any:
    from torch.distributed.tensor import DTensor, Replicate

    whole = [Replicate()] * seed.device_mesh.ndim
    local = seed.redistribute(placements=whole).to_local()
    return DTensor.from_local(sample_seeds(local, samples), seed.device_mesh, whole, run_check=False)
