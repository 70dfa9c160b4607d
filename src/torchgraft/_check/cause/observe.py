"""The two Jacobians of a case."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ..case import Case
from ..finding import Inconclusive
from ..numeric.probe import Backward, Probe
from .blocks import Array, Observation, Side

MOST = 1 << 21
"""Jacobians with more entries are not made."""
_AT_ONCE = 32
_REPEATS = 8  # a coin that is tossed in each may fall the same way now and then


def observe(case: Case) -> Observation:
    """Both Jacobians at a case's primals, snapped to the grid of the differences.

    Raises:
        Inconclusive: there is nothing to differentiate, or too much.
    """
    probe = Probe(case)
    if probe.inputs.size * probe.outputs.size > MOST:
        raise Inconclusive("the Jacobian has too many entries")
    backward = Backward(probe)
    numeric, estimate = _numeric(probe)

    @functools.cache
    def scaled(scale: float) -> Array:
        rows = torch.eye(probe.outputs.size, dtype=torch.float64)
        pulled = [backward.pull(row * scale) / scale for row in rows]
        return _array(torch.stack(pulled)) if pulled else np.zeros((0, probe.inputs.size))

    primals, outputs = probe.inputs.unflatten(probe.point), probe.outputs.unflatten(probe.values)
    names = ["output"] if len(outputs) == 1 else [f"output {i}" for i in range(len(outputs))]
    return Observation(
        scaled(1.0), numeric, estimate, _sides(names, outputs), _sides(case.names, primals), numbers=_numbers(case),
        eps=probe.grid.epsilon, scaled=scaled, absent=_absent(case), repeats=_repeats(backward, probe),
    )  # fmt: skip


def _repeats(backward: Backward, probe: Probe) -> bool:
    """Whether more backward passes give what the first did, but for the order of sums."""
    twos = torch.full((probe.outputs.size,), 2.0, dtype=torch.float64)  # ones would hide what is multiplied by them
    first, slack = backward.pull(twos).clone(), 256 * probe.grid.epsilon
    again = (backward.pull(twos) for _ in range(_REPEATS))
    return all(bool(torch.isclose(first, g, rtol=slack, atol=0, equal_nan=True).all()) for g in again)


def _numeric(probe: Probe) -> tuple[Array, Array]:
    """The Jacobian by differences, column by column, and the error of each entry; infinite where there is none."""
    units = probe.units
    columns = [column for some in torch.arange(len(units)).split(_AT_ONCE) for column in _columns(probe, some, units)]
    if not columns:
        return np.zeros((probe.outputs.size, 0)), np.zeros((probe.outputs.size, 0))
    numeric, estimate = (_array(torch.stack(parts, 1)) for parts in zip(*columns, strict=True))
    return numeric, estimate


def _columns(probe: Probe, some: Tensor, units: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Some columns in one ladder, and one by one if that leaves something open."""
    directions = torch.zeros(len(some), len(units), dtype=torch.float64)
    directions[torch.arange(len(some)), some] = units[some]
    try:
        ladder = probe.climb(directions)
        if bool(ladder.known.all()):
            shape = len(some), -1
            return list(zip(ladder.derivative.view(shape) / units[some, None],
                            ladder.error.view(shape) / units[some, None], strict=True))  # fmt: skip
    except Inconclusive:
        pass
    return [_column(probe, int(i)) for i in some]


def _column(probe: Probe, i: int) -> tuple[Tensor, Tensor]:
    """One column, by steps of the tensor's size, and where these are too wide by steps of the element's."""
    derivative = torch.zeros(probe.outputs.size, dtype=torch.float64)
    error = torch.full_like(derivative, torch.inf)
    for step, ladder in probe.climb_axis(i):
        known = torch.where(ladder.kinked | ladder.jagged, torch.inf, ladder.error.nan_to_num(nan=torch.inf)) / step
        better = known < error
        derivative, error = torch.where(better, ladder.derivative / step, derivative), torch.minimum(known, error)
        if bool(ladder.known.all()):
            break
    return derivative, error


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.numpy()
    return array


def _sides(names: list[str], tensors: list[Tensor]) -> tuple[Side, ...]:
    sides, start = list[Side](), 0
    for name, tensor in zip(names, tensors, strict=True):
        wide = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
        sides.append(Side(name, _array(wide.contiguous()), start, tensor.is_complex()))
        start = sides[-1].place.stop
    return tuple(sides)


def _numbers(case: Case) -> Mapping[str, float]:
    """Arguments that are numbers, and tensors with one element that are no primals."""
    found = dict[str, float]()
    for name, leaf in zip(case.leaf_names, case.leaves, strict=True):
        if isinstance(leaf, int | float) and not isinstance(leaf, bool) and leaf not in (0, 1):
            found[name] = float(leaf)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _absent(case: Case) -> frozenset[tuple[int, int]]:
    """Pairs of output and input for which the backward gives None."""
    recorded = case.linearize()
    absent = set[tuple[int, int]]()
    for i, output in enumerate(recorded.outputs):
        cotangents = [torch.ones_like(o) if o is output else None for o in recorded.outputs]
        try:
            pulled = recorded.pull(cotangents)
        except Exception:
            recorded = case.linearize()
            continue
        absent |= {(i, j) for j, gradient in enumerate(pulled) if gradient is None}
    return frozenset(absent)
