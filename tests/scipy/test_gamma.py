"""The incomplete gamma functions and their inverses: values are SciPy's, derivatives are mpmath's."""

import mpmath
import numpy as np
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special

# Where others fail: a ~ x, large and tiny parameters, far tails, both sides of the switch between methods.
POINTS = [
    (2.5, 1.3), (500.0, 480.0), (1e4, 1e4), (1e-8, 0.7), (30.0, 100.0), (0.5, 1e-8), (7.0, 7.0 + 1e-8), (3.0, 1.5),
    (3.0, 1.5 + 1e-12), (1.0, 1.0), (100.0, 30.0), (0.25, 40.0),
]  # fmt: skip
LEVELS = [(2.5, 0.5), (500.0, 0.01), (1e4, 0.5), (0.3, 1e-12), (30.0, 1 - 1e-9), (7.0, 1e-100), (1.0, 0.25)]

# Far in tails, where SciPy's have lost digits, and of a tiny parameter.
LOST = {
    "gammainc": [
        (824644.7108451149, 819803.5338040671),
        (2683.239501953125, 1482.7645263671875),
        (101.0, 0.2),
        (1e-290, 0.3),
        (1e-200, 0.3),
    ],
    "gammaincc": [(4835.0339679071, 7087.248513127877), (1.8570028878400966, 737.9516450154564), (1e-12, 300.0)],
}

NAMES = ["gammainc", "gammaincc", "gammaincinv", "gammainccinv"]


def exact(a, x):
    """dP/da and dP/dx, to 40 digits also where P is 1 to a hundred."""
    with mpmath.workdps(160):
        a, x = mpmath.mpf(a), mpmath.mpf(x)
        by_a = mpmath.diff(lambda a: mpmath.gammainc(a, 0, x, regularized=True), a)
        return by_a, mpmath.exp((a - 1) * mpmath.log(x) - x - mpmath.loggamma(a))


def both(name, point):
    """The value, and its derivatives."""
    arguments = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in point]
    value = getattr(special, name)(*arguments)
    return value.item(), [g.item() for g in torch.autograd.grad(value, arguments)]


@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_derivatives(name, point):
    value, found = both(name, point)
    assert value == getattr(scipy.special, name)(*point)
    sign = -1 if name == "gammaincc" else 1
    assert found == pytest.approx([float(sign * d) for d in exact(*point)], rel=1e-12, abs=0)


@pytest.mark.parametrize("point", LEVELS, ids=str)
@pytest.mark.parametrize("name", ["gammaincinv", "gammainccinv"])
def test_derivatives_of_inverses(name, point):
    """At the value that SciPy gives, whose own error is not ours."""
    value, found = both(name, point)
    assert value == getattr(scipy.special, name)(*point)
    by_a, density = exact(point[0], value)
    sign = -1 if name == "gammainccinv" else 1
    assert found == pytest.approx([float(-by_a / density), float(sign / density)], rel=1e-11, abs=0)


@pytest.mark.parametrize(("name", "point"), [(name, point) for name in LOST for point in LOST[name]])
def test_values_where_scipys_have_lost_digits(name, point):
    """Also those of the distributions that rest on them."""
    with mpmath.workdps(60 if point[0] > 1e-100 else 400):
        a, x = map(mpmath.mpf, point)
        lower = mpmath.exp(a * mpmath.log(x) - x - mpmath.loggamma(a + 1)) * mpmath.hyp1f1(1, a + 1, x)
        exact = float(lower if name == "gammainc" else mpmath.gammainc(a, x, regularized=True))
    assert getattr(scipy.special, name)(*point) != pytest.approx(exact, rel=8e-15, abs=0)
    given = torch.tensor(point, dtype=torch.float64)
    assert getattr(special, name)(*given).item() == pytest.approx(exact, rel=5e-15, abs=0)
    twin = {"gammainc": special.chdtr, "gammaincc": special.chdtrc}[name]
    assert twin(*(2 * given)).item() == pytest.approx(exact, rel=5e-15, abs=0)


@pytest.mark.parametrize(("a", "sigmas"), [(4e4, -8.0), (1e9, -4.8), (1e12, -5.1), (1e9, 5.5), (3e7, 0.3)])
def test_large_parameters(a, sigmas):
    """SciPy's breaks off its series. The reference is the density's integral, from where it is nothing."""
    x = a + sigmas * a**0.5
    tail = min(abs(sigmas) + 14, a**0.5)
    with mpmath.workdps(40):
        at, root = mpmath.mpf(a), mpmath.sqrt(a)
        log_peak = (at - 1) * mpmath.log(at) - at - mpmath.loggamma(at)

        def density(t):
            y = at + t * root
            return mpmath.exp((at - 1) * mpmath.log1p(t / root) - t * root + log_peak) * root * (y > 0)

        start = (mpmath.mpf(x) - at) / root
        lower = float(mpmath.quad(density, mpmath.linspace(-tail, start, 12)))
        upper = float(mpmath.quad(density, mpmath.linspace(start, tail, 12)))
    given = torch.tensor([a, x], dtype=torch.float64)
    assert special.gammainc(*given).item() == pytest.approx(lower, rel=1e-13, abs=0)
    assert special.gammaincc(*given).item() == pytest.approx(upper, rel=1e-13, abs=0)
    assert special.chdtr(*(2 * given)).item() == pytest.approx(lower, rel=1e-13, abs=0)
    inverse, level = ("gammaincinv", lower) if sigmas < 0 else ("gammainccinv", upper)
    found = getattr(special, inverse)(given[0], torch.tensor(level, dtype=torch.float64))
    assert found.item() == pytest.approx(x, rel=1e-15 + 1e-13 / a**0.5, abs=0)


def test_pdtr_where_scipys_has_lost_digits():
    with mpmath.workdps(60):
        exact = float(mpmath.gammainc(4836, mpmath.mpf("7087.5"), regularized=True))
    assert scipy.special.pdtr(4835.0, 7087.5) != pytest.approx(exact, rel=1e-14, abs=0)
    assert special.pdtr(4835.0, torch.tensor(7087.5, dtype=torch.float64)) == pytest.approx(exact, rel=5e-15, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_dtypes_and_shapes_are_scipys(name):
    a, y = np.float32([0.5, 2.0, 3.0]), np.float32([[0.25], [0.75]])
    expected = getattr(scipy.special, name)(a, y)
    found = getattr(special, name)(torch.from_numpy(a), torch.from_numpy(y))
    torch.testing.assert_close(found, torch.from_numpy(expected), rtol=2e-7, atol=0)
    whole = getattr(special, name)(torch.tensor([1, 2]), 0.5)
    torch.testing.assert_close(whole, torch.from_numpy(getattr(scipy.special, name)(np.array([1, 2]), 0.5)))


@pytest.mark.parametrize("name", NAMES)
def test_outside_of_the_domain_nothing_is_poisoned(name):
    a = torch.tensor([2.0, -1.0], dtype=torch.float64, requires_grad=True)
    values = getattr(special, name)(a, 0.5)
    assert values.isnan().tolist() == [False, True]
    (gradient,) = torch.autograd.grad(torch.where(a > 0, values, 0).sum(), a)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_a_second_derivative_in_the_parameter_is_refused(name):
    a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(getattr(special, name)(a, 0.5), a, create_graph=True)
    with pytest.raises(tg.DerivativeError, match="second derivative of") as caught:
        torch.autograd.grad(first, a)
    assert caught.value.argument == "a"


def test_complex_numbers_are_refused():
    with pytest.raises(tg.DtypeError):
        special.gammainc(torch.tensor(1j), 1.0)
