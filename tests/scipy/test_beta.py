"""The incomplete beta functions and their inverses: values are SciPy's, derivatives are mpmath's."""

import mpmath
import numpy as np
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special

from .references import kept

# Where others fail: large and equal parameters, tiny ones, both ends, both sides of the switches between methods.
POINTS = [
    (2.0, 3.0, 0.4), (500.0, 300.0, 0.62), (1e3, 1e3, 0.5), (1e-6, 2.0, 0.3), (3.0, 1e-6, 0.9), (0.5, 0.5, 1e-8),
    (0.5, 0.5, 1 - 1e-8), (1.0, 1.0, 0.5), (1.0, 2.0, 0.5 + 1e-12), (40.0, 0.25, 0.99), (7685.0, 0.0052, 0.9998),
]  # fmt: skip
LEVELS = [
    (2.0, 3.0, 0.5), (500.0, 300.0, 0.01), (0.3, 0.7, 1e-9), (30.0, 2.0, 1 - 1e-9), (174.63, 0.0236, 0.503),
    (1.0, 1.0, 0.25),
]  # fmt: skip

# Where SciPy's inverse is NaN, far off, has stayed where it began, or is the least normal number.
LOST = [
    (2.0, 7.0, 6.557741634258181e-227), (713.3295847181134, 27.0, 1e-308),
    (3.137193073106052, 0.01933351330661737, 3.2581697787061796e-55),
    (27.0, 1.7863656121439642e-112, 1.851433466964426e-125), (0.01, 3.0, 7e-8), (0.0008, 3.0, 0.55), (0.3, 0.7, 1e-95),
]  # fmt: skip

NAMES = ["betainc", "betaincc", "betaincinv", "betainccinv"]


def exact(a, b, x):
    """dI/da, dI/db and dI/dx to 30 digits; `x` is a string where a double has too few."""
    with mpmath.workdps(80):
        a, b, x = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(x)
        by_a = mpmath.diff(lambda a: mpmath.betainc(a, b, 0, x, regularized=True), a)
        by_b = mpmath.diff(lambda b: mpmath.betainc(a, b, 0, x, regularized=True), b)
        return by_a, by_b, x ** (a - 1) * (1 - x) ** (b - 1) / mpmath.beta(a, b)


@kept
def slopes(a, b, x):
    """Those of `betainc`."""
    return list(map(float, exact(a, b, x)))


@kept
def slopes_of_inverse(name, a, b, level):
    """Those at the x that SciPy gives, by its complement next to 1: that has its digits."""
    other, sign = ("betainccinv", 1) if name == "betaincinv" else ("betaincinv", -1)
    x, complement = getattr(scipy.special, name)(a, b, level), getattr(scipy.special, other)(b, a, level)
    with mpmath.workdps(80):
        by_a, by_b, density = exact(a, b, mpmath.mpf(x) if x <= 0.5 else 1 - mpmath.mpf(complement))
        return [float(-by_a / density), float(-by_b / density), float(sign / density)]


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
    assert found == pytest.approx([sign * slope for slope in slopes(*point)], rel=1e-12, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("point", LEVELS, ids=str)
@pytest.mark.parametrize("name", ["betaincinv", "betainccinv"])
def test_derivatives_of_inverses(name, point):
    value, found = all_of(name, point)
    assert value == getattr(scipy.special, name)(*point)
    assert found == pytest.approx(slopes_of_inverse(name, *point), rel=1e-9, abs=0)


@kept
def inverses(a, b, level):
    """The x for which I is this, and 1 - x."""
    with mpmath.workdps(700 if min(a, b) < 1e-100 else 120):
        odds = odds_of(a, b, level)
        return [float(odds / (1 + odds)), float(1 / (1 + odds))]


def odds_of(a, b, level):
    """The x/(1 - x) for which I is this."""
    a, b, level = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(level)
    scale = mpmath.loggamma(a + b) - mpmath.loggamma(a) - mpmath.loggamma(b)

    def error(u):
        x, y = 1 / (1 + mpmath.exp(-u)), 1 / (1 + mpmath.exp(u))
        front = mpmath.exp(a * mpmath.log(x) + b * mpmath.log(y) + scale)
        if x <= a / (a + b):
            return mpmath.log(front / a * mpmath.hyp2f1(a + b, 1, a + 1, x) / level)
        return mpmath.log((1 - front / b * mpmath.hyp2f1(a + b, 1, b + 1, y)) / level)

    low, high = mpmath.mpf(-900), mpmath.mpf(900)
    for _ in range(130):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) < 0 else (low, middle)
    return mpmath.exp(low)


@pytest.mark.parametrize("point", LOST, ids=str)
def test_inverses_where_scipys_are_wrong(point):
    a, b, level = point
    x, y = inverses(*point)
    scipys = scipy.special.betaincinv(*point), scipy.special.betainccinv(b, a, level)
    assert scipys != pytest.approx((x, y), rel=1e-9, abs=0)
    assert special.betaincinv(*torch.tensor(point, dtype=torch.float64)) == pytest.approx(x, rel=1e-12, abs=5e-324)
    other = special.betainccinv(*torch.tensor((b, a, level), dtype=torch.float64))
    assert other == pytest.approx(y, rel=1e-12, abs=5e-324)


def test_inverses_that_underflow_do_not_move():
    for point in [(1e-300, 16.0, 0.9), (2.7e-31, 20.0, 1 - 1e-16), (3.9e-170, 1.7e-287, 1.4e-175), (0.001, 3.0, 0.4)]:
        value, (by_a, by_b, by_level) = all_of("betaincinv", point)
        assert (value, by_a, by_b, by_level) == (0, 0, 0, 0), point


@pytest.mark.slow
def test_two_tiny_parameters():
    """I is b/(a + b), which SciPy loses where the product of the two underflows."""
    point = torch.tensor((7.036012307793903e-158, 3.567083162892559e-159, 0.8684546340082092), dtype=torch.float64)
    assert special.betainc(*point).item() == pytest.approx(0.04825129129419721, rel=1e-15, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_dtypes_and_shapes_are_scipys(name):
    a, b, y = np.float32([0.5, 2.0, 3.0]), np.float32([1.5]), np.float32([[0.25], [0.75]])
    expected = getattr(scipy.special, name)(a, b, y)
    found = getattr(special, name)(*map(torch.from_numpy, (a, b, y)))
    torch.testing.assert_close(
        found, torch.from_numpy(expected), rtol=1e-5, atol=0
    )  # its float32 functions have six digits


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives_in_parameters_are_refused(name):
    a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(getattr(special, name)(a, 3.0, 0.5), a, create_graph=True)
    with pytest.raises(tg.DerivativeError, match="second derivative of"):
        torch.autograd.grad(first, a)


@pytest.mark.slow
@pytest.mark.parametrize("end", [0.0, 1.0])
def test_no_second_derivative_is_made_up_at_the_ends(end):
    """There the density of (2, 2) is 0, and its slope is 6 or -6: that or NaN, not 0."""
    x = torch.tensor(end, dtype=torch.float64, requires_grad=True)
    (density,) = torch.autograd.grad(special.betainc(2.0, 2.0, x), x, create_graph=True)
    (slope,) = torch.autograd.grad(density, x)
    assert slope.isnan() or slope.item() == pytest.approx(6 - 12 * end)
