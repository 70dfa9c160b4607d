"""The linear assignment problem."""

from __future__ import annotations

import numpy as np
import scipy.optimize
import torch
from jaxtyping import Int64, Real
from torch import Tensor

import torchgraft as tg


@tg.op
def assignment(
    cost_matrix: Real[np.ndarray, "m n"], maximize: bool
) -> tuple[Int64[np.ndarray, "min(m,n)"], Int64[np.ndarray, "min(m,n)"]]:
    """The optimal pairs of rows and columns."""
    rows, columns = scipy.optimize.linear_sum_assignment(cost_matrix, maximize)
    return rows, columns


def linear_sum_assignment(cost_matrix: Tensor, maximize: bool = False) -> tuple[Tensor, Tensor]:
    """Pair rows and columns so that the sum of their costs is least (Crouse, IEEE TAES 52, 2016).

    The indices have no derivative. The optimal cost has one: it is the sum of the entries that they pick, and its
    gradient is 1 at each of these (Danskin's theorem; where several assignments are optimal, a subgradient).

    Args:
        cost_matrix: a row for each worker, a column for each job; ``inf`` forbids a pair.
        maximize: whether the sum is to be greatest.

    Returns:
        Rows, in order, and the column of each.

    Raises:
        ArgumentError: the costs are no tensor.
        DeviceError: they are not on the CPU.
        DtypeError: they are complex.
        ShapeError: they are no matrix.
        ValueError: no assignment has a finite cost, or an entry is NaN or ``-inf``.

    Example:
        >>> cost = torch.tensor([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]], requires_grad=True)
        >>> rows, columns = linear_sum_assignment(cost)
        >>> columns
        tensor([1, 0, 2])
        >>> torch.autograd.grad(cost[rows, columns].sum(), cost)[0]
        tensor([[0., 1., 0.],
                [1., 0., 0.],
                [0., 0., 1.]])
    """
    if not isinstance(cost_matrix, Tensor):
        raise tg.ArgumentError(
            "is no tensor", operator="linear_sum_assignment", argument="cost_matrix", expected="a tensor",
            got=type(cost_matrix).__name__, hint="pass torch.as_tensor(cost_matrix)",
        )  # fmt: skip
    costs = cost_matrix.detach()
    rows, columns = assignment(costs.to(torch.uint8) if costs.dtype is torch.bool else costs, maximize)
    return rows, columns
