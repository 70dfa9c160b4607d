"""Whole Jacobians of small cases by both sides, made by what compares them."""

import torch

from torchgraft._check.numeric.probe import Backward, Probe


def numeric_jacobian(case):
    """The Jacobian by differences, and the estimated error of each entry, infinite where there is no derivative.

    Rows are the elements of all outputs in order, columns those of all primals; a complex element is two of them, its
    real and its imaginary part.
    """
    probe = Probe(case)
    ladder = probe.climb(probe.units.diag())
    shape = (len(probe.units), probe.outputs.size)
    error = torch.where(ladder.known, ladder.error, torch.inf)
    return tuple((part.view(shape) / probe.units[:, None]).mT for part in (ladder.derivative, error))


def analytic_jacobian(case):
    """The Jacobian by the backward pass, one call for each row, at the same point."""
    probe = Probe(case)
    backward = Backward(probe)
    return torch.stack([backward.vjp(unit) for unit in torch.eye(probe.outputs.size, dtype=torch.float64)])
