"""Whole Jacobians of small cases, by differences and by the backward pass: what causes and pictures are made of.

Rows are the elements of all outputs in order, columns those of all primals; a complex element is two of them, its
real and its imaginary part (see `flat`). The backward pass of a real case gives J, and of a complex one too: its rows
are the gradients of the outputs' parts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..case import Case
from .backward import Backward
from .probe import Probe

LIMIT = 4096
"""The number of entries up to which whole Jacobians are a matter of tenths of a second."""


def numeric_jacobian(case: Case) -> tuple[Tensor, Tensor]:
    """The Jacobian by differences, and the estimated error of each entry, infinite where there is no derivative.

    Some 9 forward calls for each column.

    Raises:
        Inconclusive: there is nothing to differentiate, or no finite value near the arguments.

    Example:
        >>> numeric_jacobian(Case(make_target(torch.square), [torch.tensor([1.0, 3.0], dtype=torch.float64)]))[0]
        tensor([[2., 0.],
                [0., 6.]], dtype=torch.float64)
    """
    probe = Probe(case)
    units = torch.cat([probe.grid.unit(probe.point[place]) for place in probe.inputs.slices])
    ladder = probe.climb_all(units.diag()) if len(units) else None
    if ladder is None:
        empty = torch.empty(probe.outputs.size, 0, dtype=torch.float64)
        return empty, empty
    shape = (len(units), probe.outputs.size)
    error = torch.where(ladder.known, ladder.error, torch.inf)
    return (ladder.derivative.view(shape) / units[:, None]).mT, (error.view(shape) / units[:, None]).mT


def analytic_jacobian(case: Case) -> Tensor:
    """The Jacobian by the backward pass, one call for each row; zero for outputs that do not require grad.

    Taken at the same point as `numeric_jacobian`, which is where the case's primals are snapped to.

    Raises:
        Inconclusive: no output requires grad.
        BackwardRaises: the backward pass raises.
    """
    probe = Probe(case)
    backward = Backward(probe)
    rows = [backward.pull(unit) for unit in torch.eye(probe.outputs.size, dtype=torch.float64)]
    return torch.stack(rows) if rows else torch.empty(0, probe.inputs.size, dtype=torch.float64)
