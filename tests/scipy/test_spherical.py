"""Spherical Bessel functions: values are SciPy's, derivatives in the argument are mpmath's."""

import math

import mpmath
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special
from torchgraft.scipy.special import spherical

from ..cuda.standin import emulated
from .references import kept

BESSEL = {"jn": mpmath.besselj, "yn": mpmath.bessely, "in": mpmath.besseli, "kn": mpmath.besselk}

# Both sides of the ends of the series and of the recurrences, small arguments, where SciPy's derivatives cancel.
POINTS = [
    (0, 1e-6), (1, 1e-4), (2, 0.01), (7, 5.8), (7, 5.9), (7, 6.99), (7, 7.01), (60, 40.0), (3, 500.0), (0, 2.0),
    (1, -3.0), (4, -0.2),
]  # fmt: skip


@kept
def exact(name, n, z, order):
    """A derivative; of integer n these are functions on the whole real line but 0."""

    def function(x):
        found = mpmath.sqrt(mpmath.pi / (2 * abs(x))) * BESSEL[name](n + mpmath.mpf(0.5), abs(x))
        if x > 0 or name != "kn":
            return found * (1 if x > 0 else (-1) ** (n + (name == "yn")))
        return -found * (-1) ** n - mpmath.sqrt(mpmath.pi**3 / (2 * abs(x))) * mpmath.besseli(n + mpmath.mpf(0.5), -x)

    with mpmath.workdps(90):
        return float(mpmath.diff(function, mpmath.mpf(z), order))


def derivatives(name, n, z):
    """The value, what `derivative` gives, and the second and third derivative."""
    x = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    function = getattr(special, f"spherical_{name}")
    found = [function(n, x), function(n, x, derivative=True)]
    (slope,) = torch.autograd.grad(found[0], x, create_graph=True)
    assert slope.item() == pytest.approx(found[1].item(), rel=1e-12, abs=0)  # ours, and SciPy's or ours
    for _ in range(2):
        found.append(torch.autograd.grad(found[-1], x, create_graph=True)[0])
    return x, [value.item() for value in found], found[-1]


@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize("name", BESSEL)
def test_derivatives(name, point):
    _, found, _ = derivatives(name, *point)
    assert found[0] == pytest.approx(getattr(scipy.special, f"spherical_{name}")(*point), rel=2e-15, abs=0)
    assert found[1:] == pytest.approx([exact(name, *point, order) for order in (1, 2, 3)], rel=1e-12, abs=0)


@pytest.mark.parametrize("point", [(500, 100.0), (800, 300.0), (1344, 1019.0843271107764), (3720, 2446.930457685708)])
@pytest.mark.parametrize("name", ["in", "kn"])
def test_large_orders_whose_exponential_factor_is_out_of_range(name, point):
    """Nothing is lost where the scaled function is 0 or infinite, and the function is not."""
    n, z = point
    x = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(getattr(special, f"spherical_{name}")(n, x), x)
    assert slope.item() == pytest.approx(exact(name, n, z, 1), rel=1e-11, abs=0)
    with emulated() as driver:  # All at the negative argument is ours.
        (value,) = (
            getattr(special, f"spherical_{name}")
            ._record.kernels["cuda"]
            .native.run(
                [torch.tensor(n, dtype=torch.float64), torch.tensor([-z], dtype=torch.float64), False],
                [0, 0],
                0,
                [((1,), torch.float64)],
                {},
            )
        )
        assert driver.launches
    assert value.item() == pytest.approx(exact(name, n, -z, 0), rel=1e-11, abs=0)


def test_subnormal_derivatives_have_their_digits():
    x = torch.tensor(6.497818948915242, dtype=torch.float64)
    assert spherical.spherical_jn_nth(224, x, 2).item() == pytest.approx(exact("jn", 224, x.item(), 2), rel=1e-7, abs=0)


@pytest.mark.parametrize("z", [-63.182078675807524, -17.613688770747213, -0.02141214569656151, 7.5])
@pytest.mark.parametrize("name", ["jn", "yn", "in"])
def test_values_are_those_of_scipy_on_both_sides_of_0(name, z):
    ours, theirs = (getattr(module, f"spherical_{name}") for module in (special, scipy.special))
    n, x = torch.arange(20), torch.tensor(z, dtype=torch.float64)
    assert ours(n, x).tolist() == theirs(n.numpy(), z).tolist()
    few_terms = z * z <= 4 * n + 6
    found, right = ours(n, x, derivative=True), torch.from_numpy(theirs(n.numpy(), z, derivative=True))
    assert torch.equal(found[~few_terms], right[~few_terms])
    assert found.tolist() == pytest.approx([exact(name, k, z, 1) for k in range(20)], rel=1e-12, abs=0)


def test_derivatives_that_scipy_has_wrong():
    """It has a difference of subnormal numbers."""
    x = torch.tensor(1e-106, dtype=torch.float64)
    assert special.spherical_jn(3, x, derivative=True).item() == pytest.approx(3e-212 / 105, rel=1e-14, abs=0)


@pytest.mark.parametrize(("n", "z"), [(1, 1.9999120877189922), (5, 5.0000858455160735), (55, 0.14144328820491553)])
def test_derivatives_by_the_power_series_have_all_digits(n, z):
    """Next to a zero, and those of a high order."""
    x = torch.tensor(z, dtype=torch.float64)
    assert special.spherical_jn(n, x, derivative=True).item() == pytest.approx(exact("jn", n, z, 1), rel=5e-16, abs=0)


@pytest.mark.parametrize(("n", "z"), [(3, 1e17), (2, -1e9), (50, 1e5), (900, 1800.0), (40, 735.0), (0, 709.9)])
def test_values_next_to_overflow_and_beyond(n, z):
    """Where the continued fraction would have no end."""
    x = torch.tensor(z, dtype=torch.float64)
    expected = exact("in", n, z, 0) if abs(z) < 1e4 else math.copysign(math.inf, z**n)
    assert special.spherical_in(n, x).item() == pytest.approx(expected, rel=1e-12, abs=0)
    if z > 1e4:
        assert special.spherical_in(n, x, derivative=True).item() == math.inf


INF = math.inf
AT_0 = {
    ("jn", 0): (1, 0, -1 / 3, 0), ("jn", 1): (0, 1 / 3, 0, -1 / 5), ("jn", 2): (0, 0, 2 / 15, 0), ("jn", 9): (0,) * 4,
    ("in", 0): (1, 0, 1 / 3, 0), ("in", 3): (0, 0, 0, 2 / 35),
    ("yn", 0): (-INF, INF, -INF, INF), ("yn", 5): (-INF, INF, -INF, INF), ("kn", 2): (INF, -INF, INF, -INF),
}  # fmt: skip


@pytest.mark.parametrize(("name", "n"), AT_0)
def test_limits_at_0(name, n):
    assert derivatives(name, n, 0.0)[1] == pytest.approx(AT_0[name, n], rel=1e-15, abs=0)


@pytest.mark.parametrize("name", BESSEL)
def test_what_there_is_not_is_refused(name):
    n, function = torch.tensor(2.0, requires_grad=True), getattr(special, f"spherical_{name}")
    with pytest.raises(tg.DerivativeError, match="the order is an integer"):
        function(n, 1.5).backward()
    x, _, third = derivatives(name, 2, 1.5)
    with pytest.raises(tg.DerivativeError, match="so high an order"):
        torch.autograd.grad(third, x)
    assert function(-1, x).isnan()
