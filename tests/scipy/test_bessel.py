"""Bessel functions of real order: values are SciPy's, derivatives are mpmath's."""

import mpmath
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special

EXACT = {
    "jv": mpmath.besselj, "yv": mpmath.bessely, "iv": mpmath.besseli, "kv": mpmath.besselk,
    "kve": lambda v, z: mpmath.exp(z) * mpmath.besselk(v, z),
}  # fmt: skip

# Integers and next to them, half-integers, 0, large orders, the transition region, tiny and large arguments.
POINTS = [
    (0.3, 8.0), (2.0001, 1.0), (0.0, 2.0), (1.0, 1e-6), (3.0 + 1e-8, 5.0), (0.5, 30.0), (25.5, 25.0), (60.0, 3.0),
    (-2.5, 1.5), (7.25, 400.0),
]  # fmt: skip


@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_derivatives(name, point):
    v, z = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point)
    value = getattr(special, name)(v, z)
    assert value.item() == getattr(scipy.special, name)(*point)
    found = [g.item() for g in torch.autograd.grad(value, (v, z))]
    with mpmath.workdps(60):
        order, argument = map(mpmath.mpf, point)
        by_order = mpmath.diff(lambda v: EXACT[name](v, argument), order)
        by_argument = mpmath.diff(lambda z: EXACT[name](order, z), argument)
        size = abs(EXACT[name](order, argument))
    least = 1e-12 * float(size)  # where the derivative is near its zero
    assert found[0] == pytest.approx(float(by_order), rel=1e-11, abs=least)
    assert found[1] == pytest.approx(float(by_argument), rel=1e-11, abs=least)


@pytest.mark.parametrize("name", EXACT)
def test_the_operators_are_proved(name):
    report = tg.check(getattr(special, name))
    assert report.ok, str(report)


@pytest.mark.parametrize("name", EXACT)
def test_second_derivatives_in_the_order_are_refused(name):
    v = torch.tensor(0.75, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(getattr(special, name)(v, 2.0), v, create_graph=True)
    with pytest.raises(tg.DerivativeError, match="second derivative of"):
        torch.autograd.grad(first, v)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("order", [0.0, 1.5])
def test_the_slope_has_a_derivative_in_the_order(name, order):
    """At order 0 too, where the term v/z f is 0, and its derivative is not."""
    v, z = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (order, 2.0))
    (slope,) = torch.autograd.grad(getattr(special, name)(v, z), z, create_graph=True)
    (found,) = torch.autograd.grad(slope, v)
    with mpmath.workdps(60):
        exact = mpmath.diff(EXACT[name], (mpmath.mpf(order), mpmath.mpf(2)), (1, 1))
    assert found.item() == pytest.approx(float(exact), rel=1e-11, abs=1e-14)
