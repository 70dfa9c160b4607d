"""The Airy functions: values are SciPy's, derivatives are mpmath's."""

import math

import mpmath
import pytest
import scipy.special
import torch

from torchgraft.scipy import special

from ..cuda.standin import emulated

# Both sides of the switches between methods, at 100 and -10, and where SciPy's phase has lost digits or all of them.
POINTS = [0.0, 1e-8, -0.3, 2.07, 9.9, 66.0, 99.99, 100.01, 103.5, -9.99, -10.01, -2.3381, -3e4, -5e8]


ON_CUDA = [0.49, -0.51, 3.0, -1e-300, 104.3456, -5.0, -1e5, -1.2e11, -9.9e11, -1e12, -1e13]


def exact(z, order):
    """Derivatives of both and their slopes by f'' = z f, and their amplitudes, those of both where they oscillate."""
    with mpmath.workdps(60):
        z = mpmath.mpf(z)
        found = []
        for function in (mpmath.airyai, mpmath.airybi):
            f, slope = function(z), function(z, derivative=1)
            found += [f, slope, z * f, f + z * slope][order : order + 2]
        sizes = [math.hypot(found[k % 2], found[k % 2 + 2]) if z < 0 else abs(found[k]) for k in range(4)]
        return list(map(float, found)), list(map(float, sizes))


def tensor(z):
    return torch.tensor(z, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("z", POINTS)
def test_derivatives(z):
    x = tensor(z)
    for k, value in enumerate(special.airy(x)):
        (slope,) = torch.autograd.grad(value, x, create_graph=True)
        (second,) = torch.autograd.grad(slope, x)
        for found, order in ((slope, 1), (second, 2)):
            expected, sizes = exact(z, order)
            assert found.item() == pytest.approx(expected[k], rel=1e-13, abs=1e-14 * sizes[k])


@pytest.mark.parametrize("z", [0.5, 12.0, -7.0, -9.9])
def test_values_are_scipys(z):
    assert [value.item() for value in special.airy(tensor(z))] == list(scipy.special.airy(z))


def assert_right(z, values):
    expected, sizes = exact(z, 0)
    for k, value in enumerate(values):
        assert value.item() == pytest.approx(expected[k], rel=1e-14, abs=5e-15 * sizes[k] + 1e-323)


@pytest.mark.parametrize("z", [104.0, 104.3456, 106.0, -40.0, -1e5, -1e7, -1e16])
def test_values_that_scipy_does_not_have(z):
    """It gives 0 and NaN, and at -1e5 five digits."""
    assert_right(z, special.airy(tensor(z)))


def test_where_the_phase_is_not_known_there_is_no_value():
    """The phase of -1e18 has 27 digits before the point."""
    x = tensor(-1.1e18)
    for value in special.airy(x):
        assert value.isnan()
        assert torch.autograd.grad(value, x, retain_graph=True)[0].isnan()


@pytest.mark.parametrize("z", [*POINTS[:-1], *ON_CUDA])
def test_values_on_cuda(z):
    with emulated() as driver:
        values = [value[0] for value in special.airy(tensor([z]))]
        assert driver.launches
    if z < -1e12:
        assert all(value.isnan() for value in values)
    else:
        assert_right(z, values)


def test_limits():
    x = tensor(math.inf)
    values = special.airy(x)
    slopes = [torch.autograd.grad(value, x, retain_graph=True)[0].item() for value in values]
    assert [value.item() for value in values] == slopes == [0, 0, math.inf, math.inf]
