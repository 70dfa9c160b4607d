"""Extrapolation of differences to the step 0, with an error estimate for each element.

Neville's scheme [1] on differences at steps h, h/2, h/4, ... Each entry of the scheme has an error estimate: what it
differs from its neighbours, which shows the truncation error, and a bound on what the noise of the function's values
does to it. The entry with the least estimate is taken, for each element of the result on its own.

[1] Ridders, "Accurate computation of F'(x) and F'(x) F''(x)", Adv. Eng. Software 4 (1982), 75-76.
"""

from __future__ import annotations

import torch
from torch import Tensor


def neville(samples: Tensor, steps: list[float], noise: Tensor) -> tuple[Tensor, Tensor]:
    """The best extrapolation to h = 0 that ends at each step, and its estimated error.

    Args:
        samples: ``(2, n, m)``: an odd part over h, whose error is a series in h^2, h^4, ..., and an even part over h,
            whose error is one in h, h^3, ...
        steps: ``n`` of them, each half of the one before.
        noise: of the values that the samples were made of, ``(m,)``.
    """
    powers = torch.tensor([2, 1]).view(2, 1, 1)
    amplified = torch.tensor([1.0, 2.0], dtype=torch.float64).view(2, 1, 1) / torch.tensor(steps).view(-1, 1)
    column, table = samples, samples.clone()
    bars = torch.full_like(samples, torch.inf)
    for order in range(len(steps)):
        if order:
            finer, coarser, factor = column[:, 1:], column[:, :-1], 2**powers - 1
            column = finer + (finer - coarser) / factor
            amplified = amplified[:, 1:] + (amplified[:, 1:] + amplified[:, :-1]) / factor
            change = torch.maximum((column - finer).abs(), (column - coarser).abs())
            powers = powers + 2
        else:
            change = torch.zeros_like(column)
            change[:, 0] = torch.inf  # the largest step alone tells nothing of its error
        change[:, 1:] = torch.maximum(change[:, 1:], (column[:, 1:] - column[:, :-1]).abs())
        found = (change + amplified * noise).nan_to_num(nan=torch.inf, posinf=torch.inf)
        better = found < bars[:, order:]
        table[:, order:] = torch.where(better, column, table[:, order:])
        bars[:, order:] = torch.where(better, found, bars[:, order:])
    return table, bars


def best(table: Tensor, bars: Tensor, steps: list[float]) -> tuple[Tensor, Tensor]:
    """Of each element the entry with the least error, and that error.

    From the smallest step to the largest: no entry is taken that smaller steps speak against, such as one of steps
    that all reach beyond the same kink. What the smallest step is off by is noise, if more of it than was measured;
    of larger steps it makes an error that is smaller in proportion.
    """
    value, error, step = table[:, -1], bars[:, -1], torch.full_like(table[:, -1], steps[-1])
    for row in range(len(steps) - 2, -1, -1):
        other, bar = table[:, row], bars[:, row]
        better = (bar < error) & ((other - value).abs() <= 4 * error)
        value, error = torch.where(better, other, value), torch.where(better, bar, error)
        step = torch.where(better, steps[row], step)
    return value, torch.maximum(
        error, ((table[:, -1] - value).abs() * steps[-1] / step).nan_to_num(nan=torch.inf, posinf=torch.inf)
    )
