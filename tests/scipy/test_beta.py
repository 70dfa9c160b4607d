"""The incomplete beta functions and their inverses: values are SciPy's, derivatives are mpmath's."""

import mpmath
import numpy as np
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special

# Where others fail: large and equal parameters, tiny ones, both ends, both sides of the switches between methods.
POINTS = [
    (2.0, 3.0, 0.4), (500.0, 300.0, 0.62), (1e3, 1e3, 0.5), (1e-6, 2.0, 0.3), (3.0, 1e-6, 0.9), (0.5, 0.5, 1e-8),
    (0.5, 0.5, 1 - 1e-8), (1.0, 1.0, 0.5), (1.0, 2.0, 0.5 + 1e-12), (40.0, 0.25, 0.99), (7685.0, 0.0052, 0.9998),
]  # fmt: skip
LEVELS = [
    (2.0, 3.0, 0.5), (500.0, 300.0, 0.01), (0.3, 0.7, 1e-9), (30.0, 2.0, 1 - 1e-9), (174.63, 0.0236, 0.503),
    (1.0, 1.0, 0.25),
]  # fmt: skip

NAMES = ["betainc", "betaincc", "betaincinv", "betainccinv"]


def exact(a, b, x):
    """dI/da, dI/db and dI/dx to 30 digits; `x` is a string where a double has too few."""
    with mpmath.workdps(80):
        a, b, x = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(x)
        by_a = mpmath.diff(lambda a: mpmath.betainc(a, b, 0, x, regularized=True), a)
        by_b = mpmath.diff(lambda b: mpmath.betainc(a, b, 0, x, regularized=True), b)
        return by_a, by_b, x ** (a - 1) * (1 - x) ** (b - 1) / mpmath.beta(a, b)


def all_of(name, point):
    """The value, and its derivatives."""
    arguments = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in point]
    value = getattr(special, name)(*arguments)
    return value.item(), [g.item() for g in torch.autograd.grad(value, arguments)]


@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize("name", ["betainc", "betaincc"])
def test_derivatives(name, point):
    value, found = all_of(name, point)
    assert value == getattr(scipy.special, name)(*point)
    sign = -1 if name == "betaincc" else 1
    assert found == pytest.approx([float(sign * d) for d in exact(*point)], rel=1e-12)


@pytest.mark.parametrize("point", LEVELS, ids=str)
@pytest.mark.parametrize("name", ["betaincinv", "betainccinv"])
def test_derivatives_of_inverses(name, point):
    """At the x that SciPy gives, by its complement next to 1: that has its digits."""
    a, b, level = point
    value, found = all_of(name, point)
    assert value == getattr(scipy.special, name)(*point)
    other = {"betaincinv": scipy.special.betainccinv, "betainccinv": scipy.special.betaincinv}[name](b, a, level)
    with mpmath.workdps(80):
        x = mpmath.mpf(value) if value <= 0.5 else 1 - mpmath.mpf(other)
        by_a, by_b, density = exact(a, b, x)
        sign = -1 if name == "betainccinv" else 1
        expected = [float(-by_a / density), float(-by_b / density), float(sign / density)]
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_and_shapes_are_scipys(name):
    a, b, y = np.float32([0.5, 2.0, 3.0]), np.float32([1.5]), np.float32([[0.25], [0.75]])
    expected = getattr(scipy.special, name)(a, b, y)
    found = getattr(special, name)(*map(torch.from_numpy, (a, b, y)))
    torch.testing.assert_close(
        found, torch.from_numpy(expected), rtol=1e-5, atol=0
    )  # its float32 functions have six digits


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives_in_parameters_are_refused(name):
    a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(getattr(special, name)(a, 3.0, 0.5), a, create_graph=True)
    with pytest.raises(tg.DerivativeError, match="second derivative of"):
        torch.autograd.grad(first, a)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_no_second_derivative_is_made_up_at_the_ends(end):
    """There the density of (2, 2) is 0, and its slope is 6 or -6: that or NaN, not 0."""
    x = torch.tensor(end, dtype=torch.float64, requires_grad=True)
    (density,) = torch.autograd.grad(special.betainc(2.0, 2.0, x), x, create_graph=True)
    (slope,) = torch.autograd.grad(density, x)
    assert slope.isnan() or slope.item() == pytest.approx(6 - 12 * end)
