"""The Struve function: values are SciPy's where they are right, derivatives in the argument are mpmath's."""

import math

import mpmath
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special

# Next to orders where recurrences cancel, on both sides of the series' end, next to poles of Gamma, large arguments.
POINTS = [
    (0.0, 1e-6), (1e-13, 1e-3), (-1.0, 1e-4), (0.0, 4.2), (0.0, 4.3), (1.99, 6.0), (2.0, 0.01), (-1.24, 0.01),
    (-1.26, 0.01), (-15.5 + 1e-13, 0.1), (-2.5, 0.7), (-7.0, 30.0), (50.0, 3.0), (1.0, 8000.0), (3.0, -2.0),
    (-2.0, -0.5), (-56.65, 56.91), (98.0, 97.0), (60.0, 50.0), (300.0, 270.5), (-80.0, 41.0),
]  # fmt: skip


def tensor(x):
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_derivatives(point):
    x = tensor(point[1])
    value = special.struve(point[0], x)
    (slope,) = torch.autograd.grad(value, x, create_graph=True)
    (second,) = torch.autograd.grad(slope, x)
    with mpmath.workdps(120):
        v, z = mpmath.mpf(point[0]), mpmath.mpf(point[1])
        f, below, further = (mpmath.re(mpmath.struveh(v - k, z)) for k in range(3))
        assert value.item() == pytest.approx(float(f), rel=5e-13, abs=0)
        assert slope.item() == pytest.approx(float(below - v / z * f), rel=1e-12, abs=0)
        exact = further - (2 * v - 1) / z * below + v * (v + 1) / z**2 * f
        assert second.item() == pytest.approx(float(exact), rel=1e-12, abs=0)


@pytest.mark.parametrize("point", [(0.0, 2.0), (2.5, 40.0), (-3.5, 7.0), (60.0, 200.0)], ids=str)
def test_values_are_scipys(point):
    assert special.struve(point[0], tensor(point[1])).item() == scipy.special.struve(*point)


@pytest.mark.parametrize(
    ("v", "slopes"),
    [(0.0, (2 / math.pi, 0)), (1.0, (0, 4 / (3 * math.pi))), (0.5, (0, math.inf)), (-0.5, (math.inf, -math.inf)),
     (-1.0, (0, -4 / (3 * math.pi))), (-2.0, (math.inf, -math.inf)), (-2.5, (0, 0)), (3.0, (0, 0))],
)  # fmt: skip
def test_limits_at_0(v, slopes):
    x = tensor(0.0)
    (slope,) = torch.autograd.grad(special.struve(v, x), x, create_graph=True)
    (second,) = torch.autograd.grad(slope, x)
    assert (slope.item(), second.item()) == pytest.approx(slopes, rel=1e-15, abs=0)


@pytest.mark.parametrize(
    ("v", "x", "slope"),
    [(2.0, 5e-324, 0.0), (20.0, 2e-308, 0.0), (-2.0, 1e-200, math.inf), (-1.5, 1e-310, 0.0), (-10.3, 1e-100, math.inf),
     (-1.75, 1e-200, math.inf), (-2.0, 1e-150, 2e300 / math.pi)],
)  # fmt: skip
def test_slopes_next_to_0(v, x, slope):
    """Limits, and the first term of the power series."""
    z = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(special.struve(v, z), z)
    assert found.item() == pytest.approx(slope, rel=1e-12, abs=1e-150)


def test_what_there_is_not_is_refused():
    v, x = tensor(0.5), tensor(2.0)
    with pytest.raises(tg.DerivativeError, match="derivative in the order"):
        special.struve(v, x).backward()
    (slope,) = torch.autograd.grad(special.struve(0.5, x), x, create_graph=True)
    (second,) = torch.autograd.grad(slope, x, create_graph=True)
    with pytest.raises(tg.DerivativeError, match="so high an order"):
        second.backward()
