"""Quantiles and the logarithm of the normal distribution function: values are SciPy's, derivatives are mpmath's."""

import math

import mpmath
import pytest
import scipy.special
import torch

from torchgraft.scipy import special

# Far out on both sides, both sides of the switch at -3, and next to 0.
ARGUMENTS = [-1e300, -1e4, -100.0, -3.0, -3 + 1e-12, -1e-9, 0.0, 0.5, 8.0, 37.5]
LEVELS = [1e-300, 1e-20, 0.0013, 0.3, 0.5, 0.5 + 1e-9, 0.99, 1 - 2**-53]


def twice(function, x):
    """The value, and its first and second derivative."""
    point = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    value = function(point)
    (slope,) = torch.autograd.grad(value, point, create_graph=True)
    (second,) = torch.autograd.grad(slope, point)
    return value.item(), [slope.item(), second.item()]


@pytest.mark.parametrize("x", ARGUMENTS)
def test_log_ndtr(x):
    value, found = twice(special.log_ndtr, x)
    assert value == scipy.special.log_ndtr(x)
    if x == -1e300:
        assert found == [1e300, -1]
        return
    with mpmath.workdps(60):
        x = mpmath.mpf(x)
        slope = mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-x * x / 2) / mpmath.erfc(-x / mpmath.sqrt(2))
        expected = [float(slope), float(-slope * (x + slope))]
    assert found == pytest.approx(expected, rel=1e-13, abs=0)


@pytest.mark.parametrize("y", LEVELS)
def test_ndtri(y):
    """At the true quantile."""
    value, found = twice(special.ndtri, y)
    assert value == scipy.special.ndtri(y)
    with mpmath.workdps(60):
        x = mpmath.mpf(value)
        for _ in range(4):
            x -= (mpmath.ncdf(x) - y) / mpmath.npdf(x)
        slope = 1 / mpmath.npdf(x)
    assert found[0] == pytest.approx(float(slope), rel=1e-14, abs=0)
    assert found[1] == pytest.approx(float(x * slope**2), rel=1e-6 if 0 < y - 0.5 < 1e-8 else 1e-13, abs=1e-14)


def test_ends():
    assert twice(special.ndtri, 0.0)[1][0] == math.inf
    assert twice(special.ndtri, 1.0)[1][0] == math.inf
    assert twice(special.log_ndtr, math.inf) == (0, [0, 0])
    y = torch.tensor([0.25, 1.5], dtype=torch.float64, requires_grad=True)
    torch.where(y < 1, special.ndtri(y), 0).sum().backward()
    assert y.grad is not None
    assert y.grad[0] > 0
    assert y.grad[1] == 0


def test_single_precision_has_its_digits():
    """Where the value's own rounding, times its square, would be worse."""
    y = torch.tensor(1e-30, requires_grad=True)
    special.ndtri(y).backward()
    assert y.grad.item() == pytest.approx(twice(special.ndtri, y.item())[1][0], rel=2e-7, abs=0)
