"""The logarithms of the gamma and beta functions and the polygamma functions: values and derivatives are mpmath's."""

import math

import mpmath
import numpy as np
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special

# Tiny and huge arguments, both sides of the zeros, next to the poles, and far out on the negative axis.
ARGUMENTS = [
    1e-300,
    1e-8,
    0.3,
    1.0,
    1.4616321449683622,
    1.5,
    9.999999999,
    10.0,
    1e4,
    1e300,
    -1e-8,
    -0.5,
    -2.6,
    -3 + 1e-9,
    -700.3,
]
PAIRS = [
    (2.0, 3.0),
    (1e-8, 0.7),
    (1e8, 1e-3),
    (1e-3, 1e8),
    (3e4, 2e4),
    (0.5, 0.5),
    (1e150, 2.0),
    (-2.3, 0.9),
    (1.7, -0.4),
    (436453.875, 0.17212902009487152),
    (0.00028149685822490185, 928802.5805952826),
    (21890214.37944546, 24.362542929597087),
    (1e300, 1e100),
    (180.0, 1e-310),
    (0.9999999999761862, 1.0000000000002882),
    (1.00009, 0.99991),
]


def derivatives(function, *point):
    """The value, and its first derivatives."""
    arguments = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    value = function(*arguments)
    return value.item(), [g.item() for g in torch.autograd.grad(value, arguments)]


@pytest.mark.parametrize("x", ARGUMENTS)
def test_first_and_second_derivatives_of_gammaln(x):
    point = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    value = special.gammaln(point)
    assert value.item() == scipy.special.gammaln(x)
    (slope,) = torch.autograd.grad(value, point, create_graph=True)
    (second,) = torch.autograd.grad(slope, point)
    with mpmath.workdps(50):
        exact = mpmath.digamma(mpmath.mpf(x)), mpmath.polygamma(1, mpmath.mpf(x))
        condition = max(1, abs(x * exact[1] / exact[0]))
    assert slope.item() == pytest.approx(float(exact[0]), rel=float(1e-15 * condition), abs=0)
    assert second.item() == pytest.approx(float(exact[1]), rel=1e-14 + 1e-15 * abs(x) * 1e7 * (x < 0), abs=0)


@pytest.mark.parametrize("point", PAIRS, ids=str)
def test_betaln(point):
    value, found = derivatives(special.betaln, *point)
    with mpmath.workdps(700):
        a, b = map(mpmath.mpf, point)
        exact = [float(mpmath.digamma(c) - mpmath.digamma(a + b)) for c in (a, b)]
        log = mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
    if a + b > 171 or abs(a - 1) < 1e-4:
        assert value == pytest.approx(float(log), rel=3e-15, abs=0)
    else:
        assert value == scipy.special.betaln(*point)
    assert found == pytest.approx(exact, rel=1e-14, abs=0)


INFINITE = [
    (5e-324, 1e10), (5e-324, -0.5), (-5e-324, 2.5), (-1e-310, 3e-308), (2.268277226047768, -171.12211786185227),
    (-170.8749748070764, 0.3914446283661268),
]  # fmt: skip


@pytest.mark.parametrize("point", INFINITE, ids=str)
def test_betaln_where_scipys_is_infinite(point):
    with mpmath.workdps(700):
        exact = float(mpmath.log(abs(mpmath.beta(*map(mpmath.mpf, point)))))
    assert derivatives(special.betaln, *point)[0] == pytest.approx(exact, rel=1e-13, abs=0)


def test_betaln_of_large_negative_numbers():
    """The rounding of the sum shows in a sine."""
    for point in [(0.053447431052492375, -252881311.66275817), (-3e8 - 0.375, -0.125), (1e8 + 0.3, -1e8 - 0.7)]:
        with mpmath.workdps(60):
            exact = float(mpmath.log(abs(mpmath.beta(*map(mpmath.mpf, point)))))
        assert derivatives(special.betaln, *point)[0] == pytest.approx(exact, rel=1e-13, abs=0)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 20, 150])
@pytest.mark.parametrize("x", [1e-2, 1.4616321449683622, 3.0, 57.3, 1e4, -0.5, -2.6, -40.125])
def test_polygamma(n, x):
    """As SciPy's where that has digits; those of n = 150 it loses."""
    found, (slope,) = derivatives(lambda x: special.polygamma(n, x), x)
    with mpmath.workdps(60):
        exact = [mpmath.polygamma(order, mpmath.mpf(x)) for order in (n, n + 1)]
    assert slope == pytest.approx(float(exact[1]), rel=3e-13, abs=0)
    assert found == pytest.approx(float(exact[0]), rel=float(1e-15 * max(1, abs(x * exact[1] / exact[0]))), abs=0)
    if n < 150:
        assert found == pytest.approx(float(scipy.special.polygamma(n, x)), rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("n", "x"),
    [(97, 0.18601858367764687), (60, 0.035965341998688546), (44, 0.03749416023492813), (2, -1.541681029101929),
     (200, 7.0), (40, -3.49)],
)  # fmt: skip
def test_polygamma_has_all_digits(n, x):
    """Large factorials, and two poles that cancel."""
    with mpmath.workdps(60):
        exact = float(mpmath.polygamma(n, mpmath.mpf(x)))
    assert special.polygamma(n, torch.tensor(x, dtype=torch.float64)).item() == pytest.approx(exact, rel=4e-16, abs=0)


@pytest.mark.slow
def test_poles_and_infinities():
    x = torch.tensor([0.0, -1.0, math.inf], dtype=torch.float64)
    orders = torch.tensor([[1], [2]])
    np.testing.assert_array_equal(special.polygamma(orders, x), scipy.special.polygamma(orders.numpy(), x.numpy()))
    assert derivatives(special.gammaln, 0.0) == (math.inf, [-math.inf])
    assert derivatives(special.betaln, 0.0, 2.0)[1][0] == -math.inf
    assert derivatives(special.betaln, math.inf, 2.0)[1] == [0, -math.inf]
    assert special.polygamma(1.5, torch.tensor(2.0)).isnan()


def test_the_order_of_a_derivative_has_none():
    n = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(tg.DerivativeError, match="an integer"):
        special.polygamma(n, torch.tensor(2.0)).backward()


@pytest.mark.parametrize("point", [(0.25, 30.0), (2e5, 1e-3), (1.7, 1e-9), (-2.3, 0.9)], ids=str)
def test_second_derivatives_of_betaln(point):
    a, b = (torch.tensor(x, dtype=torch.float64) for x in point)
    found = torch.func.hessian(special.betaln, argnums=(0, 1))(a, b)
    with mpmath.workdps(50):
        x, y = map(mpmath.mpf, point)
        both = mpmath.polygamma(1, x + y)
        exact = [mpmath.polygamma(1, x) - both, -both, -both, mpmath.polygamma(1, y) - both]
    assert [v.item() for row in found for v in row] == pytest.approx([float(v) for v in exact], rel=1e-14, abs=0)
