"""Bessel functions of real order: values are SciPy's where they are right, derivatives are mpmath's."""

import math

import mpmath
import numpy as np
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special

from .references import kept

EXACT = {
    "jv": mpmath.besselj, "yv": mpmath.bessely, "iv": mpmath.besseli, "kv": mpmath.besselk,
    "jve": mpmath.besselj, "yve": mpmath.bessely, "ive": lambda v, z: mpmath.exp(-abs(z)) * mpmath.besseli(v, z),
    "kve": lambda v, z: mpmath.exp(z) * mpmath.besselk(v, z),
}  # fmt: skip

# Integers and next to them, half-integers, 0, large orders, the transition region, tiny and large arguments.
POINTS = [
    (0.3, 8.0), (2.0001, 1.0), (0.0, 2.0), (1.0, 1e-6), (3.0 + 1e-8, 5.0), (0.5, 30.0), (25.5, 25.0), (60.0, 3.0),
    (-2.5, 1.5), (7.25, 400.0), (-3.0 + 1e-9, 0.02), (-281.0, 300.0), (1e-9, 1e-5),
]  # fmt: skip


def tensors(*point):
    return [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]


def slope_of(name, v, z, by="z"):
    """The first derivative, and the arguments."""
    arguments = tensors(v, z)
    (slope,) = torch.autograd.grad(getattr(special, name)(*arguments), arguments["vz".index(by)], create_graph=True)
    return slope, arguments


@kept
def exact(name, v, z, orders):
    """A derivative by mpmath; the argument stays real."""
    with mpmath.workdps(90):
        return float(mpmath.re(mpmath.diff(EXACT[name], (mpmath.mpf(v), mpmath.mpf(z)), orders)))


@kept
def by_recurrence(name, v, z):
    """The slope where mpmath's steps would be larger than z."""
    with mpmath.workdps(300):
        below, f, above = (EXACT[name](mpmath.mpf(v) + k, mpmath.mpf(z)) for k in (-1, 0, 1))
        scaled = {"ive": -f, "kve": f}.get(name, 0)
        signs = {"j": (1, -1), "y": (1, -1), "i": (1, 1), "k": (-1, -1)}[name[0]]
        return float((signs[0] * below + signs[1] * above) / 2 + scaled)


@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_derivatives(name, point):
    v, z = tensors(*point)
    value = getattr(special, name)(v, z)
    if not (name == "ive" and point[0] < 0):
        assert value.item() == getattr(scipy.special, name)(*point)
    found = [g.item() for g in torch.autograd.grad(value, (v, z))]
    least = 1e-13 * abs(exact(name, *point, (0, 0)))  # where the derivative is near its zero
    assert found[0] == pytest.approx(exact(name, *point, (1, 0)), rel=1e-12, abs=least)
    assert found[1] == pytest.approx(exact(name, *point, (0, 1)), rel=1e-12, abs=least)


@pytest.mark.parametrize("point", [(-5.5, 4991.73), (-10.0, 121.5052719116211), (-0.02, 3327.97), (-10.0, -121.5)])
def test_scaled_values_of_negative_order_are_those_of_scipy_where_k_is_small(point):
    assert special.ive(*tensors(*point)).item() == scipy.special.ive(*point)


@pytest.mark.parametrize(
    "point",
    [
        ("ive", -9.999999999999998, 4e-5), ("ive", -7.99999999999, 0.89), ("ive", -629.88, 381.8),
        ("ive", -0.5, 1e-9), ("kv", 0.3, 700.0), ("jv", 48.0, 3.25e-5), ("yv", -35.5, 5e-8), ("ive", 44.0, 4e-6),
        ("iv", 0.5, 1e-310), ("kve", 1e4, 1e15), ("ive", -170.6, 1e15), ("jv", 1.0, 1e20), ("jve", -0.5, 1e-308),
        ("jv", 0.5, 1e308), ("yv", -2.5, 1.7e308), ("kve", 0.5, 1e308), ("ive", 0.5, 1.7e308),
        ("yv", -0.5, 2.3e-308), ("yv", -0.5, 1e-305), ("kve", 2.5, 1.7e308),
        ("yv", 1.0, 1e-307), ("yv", 0.999, 2.3e-308),
    ],
    ids=str,
)  # fmt: skip
def test_values_that_scipy_has_wrong(point):
    """Digits lost next to integer orders, 0 and infinity too early, NaN at the ends."""
    name, v, z = point
    assert getattr(special, name)(*tensors(v, z)).item() == pytest.approx(exact(name, v, z, (0, 0)), rel=1e-13, abs=0)


@pytest.mark.parametrize(
    ("v", "x", "j"), [(1e8 + 0.5, 1e8 - 100, 7.7497979112385987e-4), (1e14 + 0.5, 1e14, 9.6368486887013636e-6)]
)
def test_orders_a_little_above_a_large_argument(v, x, j):
    """The phase is a small difference of numbers like v^(2/3); the values are those of DLMF 10.20.4."""
    assert special.jv(*tensors(v, x)).item() == pytest.approx(j, rel=1e-14, abs=0)


def test_scaled_values_of_negative_order_have_all_digits():
    """I and K cancel to a tenth."""
    v, z = -1.448482408291559, 1.4142129707952766
    assert special.ive(*tensors(v, z)).item() == pytest.approx(exact("ive", v, z, (0, 0)), rel=3e-16, abs=0)


@pytest.mark.parametrize("point", [(4.423436847668823, 19.820637886379703), (3.54268545510735, 12.796533040844276)])
def test_slopes_next_to_the_largest_scaled_value(point):
    """Where they are a hundred-thousandth of it."""
    assert slope_of("ive", *point)[0].item() == pytest.approx(exact("ive", *point, (0, 1)), rel=1e-13, abs=0)


INF = math.inf
AT_0 = {  # the value, and the first and second derivative in the argument: limits
    "jv": {0.0: (1, 0, -0.5), 1.0: (0, 0.5, 0), 2.0: (0, 0, 0.25), -1.0: (0, -0.5, 0), 3.5: (0, 0, 0),
           0.5: (0, INF, -INF), 1.5: (0, 0, INF), -0.5: (INF, -INF, INF)},
    "yv": {0.0: (-INF, INF, -INF), 2.0: (-INF, INF, -INF), -1.0: (INF, -INF, INF), -1.5: (0, 0, -INF)},
    "iv": {0.0: (1, 0, 0.5), 1.0: (0, 0.5, 0), -1.0: (0, 0.5, 0), 0.5: (0, INF, -INF), 4.0: (0, 0, 0)},
    "kv": {0.0: (INF, -INF, INF), 1.5: (INF, -INF, INF)},
    "ive": {0.0: (1, 0, 1.5), 1.0: (0, 0.5, -1), 2.0: (0, 0, 0.25), 0.5: (0, INF, -INF)},
    "kve": {0.0: (INF, -INF, INF), 1.5: (INF, -INF, INF)},
}  # fmt: skip


@pytest.mark.parametrize(("name", "v"), [(name, v) for name, table in AT_0.items() for v in table])
def test_limits_at_0(name, v):
    slope, (order, z) = slope_of(name, v, 0.0)
    (second,) = torch.autograd.grad(slope, z)
    assert (getattr(special, name)(order, z).item(), slope.item(), second.item()) == AT_0[name][v]


@pytest.mark.parametrize(("v", "z"), [(0.3, 1e-150), (1.0, 1e-145), (-0.7, 1e-141), (1e-13, 1e-250)], ids=str)
@pytest.mark.parametrize("name", ["jv", "yv", "iv", "kv", "ive", "kve"])
def test_slopes_next_to_0(name, v, z):
    """Where 1/z^2 overflows."""
    assert slope_of(name, v, z)[0].item() == pytest.approx(by_recurrence(name, v, z), rel=1e-13, abs=0)


@pytest.mark.parametrize("v", [0.0, 3.0, -2.0])
@pytest.mark.parametrize("name", ["jv", "iv", "ive"])
def test_negative_arguments_at_integer_orders(name, v):
    slope, (order, z) = slope_of(name, v, -2.5)
    value = getattr(special, name)(order, z)
    assert value.item() == pytest.approx(getattr(scipy.special, name)(v, -2.5), rel=1e-15, abs=0)
    second, by_order = torch.autograd.grad(slope, z)[0], torch.autograd.grad(value, order)[0]
    assert slope.item() == pytest.approx(exact(name, v, -2.5, (0, 1)), rel=1e-13, abs=0)
    assert second.item() == pytest.approx(exact(name, v, -2.5, (0, 2)), rel=1e-13, abs=0)
    assert by_order.isnan()  # complex between integers


@pytest.mark.parametrize(
    "point", [(1.0, 1e-8), (0.0, 1e-8), (-2.0, 1e-5), (-1 + 1e-13, 0.01), (2.5, 9000.0), (30.0, 31.0)], ids=str
)
@pytest.mark.parametrize("name", ["jv", "yv", "iv", "kv", "ive", "kve"])
def test_second_derivatives_in_the_argument(name, point):
    """Where Bessel's equation and recurrences cancel."""
    slope, (_, z) = slope_of(name, *point)
    (found,) = torch.autograd.grad(slope, z)
    assert found.item() == pytest.approx(exact(name, *point, (0, 2)), rel=1e-12, abs=0)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("point", [(0.0, 2.0), (1.5, 2.0), (0.0, 30.0), (1e-12, 0.1), (-0.3, 40.0)], ids=str)
def test_the_slope_has_a_derivative_in_the_order(name, point):
    """At order 0 too, where the term v/z f is 0, and its derivative is not."""
    slope, (v, _) = slope_of(name, *point)
    (found,) = torch.autograd.grad(slope, v)
    assert found.item() == pytest.approx(exact(name, *point, (1, 1)), rel=1e-12, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_dtypes_and_shapes_are_scipys(name):
    v, z = np.float32([0.5, 2.0, 3.0]), np.float32([[0.25], [40.0]])
    expected = getattr(scipy.special, name)(v, z)
    torch.testing.assert_close(
        getattr(special, name)(torch.from_numpy(v), torch.from_numpy(z)), torch.from_numpy(expected), rtol=2e-6, atol=0
    )
    whole = getattr(special, name)(torch.tensor([1, 2]), torch.tensor(3))
    torch.testing.assert_close(whole, torch.from_numpy(getattr(scipy.special, name)(np.array([1, 2]), 3)))


@pytest.mark.parametrize("name", EXACT)
def test_second_derivatives_in_the_order_are_refused(name):
    slope, (v, _) = slope_of(name, 0.75, 2.0, "v")
    with pytest.raises(tg.DerivativeError, match="the second derivative of"):
        torch.autograd.grad(slope, v)


@pytest.mark.parametrize("by", ["v", "z"])
@pytest.mark.parametrize("name", EXACT)
def test_third_derivatives_are_refused(name, by):
    slope, (v, z) = slope_of(name, 0.75, 2.0)
    (second,) = torch.autograd.grad(slope, z, create_graph=True)
    with pytest.raises(tg.DerivativeError, match="so high an order"):
        torch.autograd.grad(second, v if by == "v" else z)
