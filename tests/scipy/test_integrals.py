"""Integrals of elementary functions: values are SciPy's, derivatives are mpmath's."""

import math

import mpmath
import numpy as np
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special


def dawson(x):
    return mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-(x**2)) * mpmath.erfi(x)


# The first derivatives, in closed forms that cancel, which 200 digits stand.
SLOPES = {
    "exp1": [lambda x: -mpmath.exp(-x) / x],
    "expi": [lambda x: mpmath.exp(x) / x],
    "sici": [lambda x: mpmath.sin(x) / x, lambda x: mpmath.cos(x) / x],
    "shichi": [lambda x: mpmath.sinh(x) / x, lambda x: mpmath.cosh(x) / x],
    "fresnel": [lambda x: mpmath.sin(mpmath.pi * x**2 / 2), lambda x: mpmath.cos(mpmath.pi * x**2 / 2)],
    "spence": [lambda x: mpmath.log(x) / (1 - x)],
    "dawsn": [lambda x: 1 - 2 * x * dawson(x)],
    "erfi": [lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(x**2)],
    "erfcx": [lambda x: 2 * x * mpmath.exp(x**2) * mpmath.erfc(x) - 2 / mpmath.sqrt(mpmath.pi)],
}

# Tiny and huge arguments, both sides of the switches between methods, where closed forms cancel or overflow.
POINTS = {
    "exp1": [1e-300, 1e-8, 1.0, 30.0, 700.0],
    "expi": [-700.0, -1.0, -1e-9, 1e-300, 0.37, 1.0 + 1e-6, 30.0, 712.0],
    "sici": [-1e4, -2.0, 1e-9, 1.9999, 2.0001, 3.0001, 1e6 + 0.1],
    "shichi": [-30.0, -1e-9, 1e-5, 1.9999, 2.0001, 712.0],
    "fresnel": [-1e4 - 0.3, 1e-9, 0.3, 1.4142, 100.01, 1e9 + 0.25],
    "spence": [1e-300, 1e-9, 0.4999, 0.5001, 1 - 1e-9, 1 + 1e-12, 1.4999, 1.5001, 1e9],
    "dawsn": [-1e9, -3.0, 1e-9, 0.924, 5.5, 6.9999, 7.0001, 1e4],
    "erfi": [-20.0, 1e-9, 1.0, 26.5],
    "erfcx": [-26.0, -1.0, 1e-9, 1.9999, 2.0001, 30.0, 1e9],
}
NAMES = [*POINTS, "expn"]


def orders(name, x):
    """The outputs, and the first and second derivative of each."""
    found, x = [], torch.tensor(x, dtype=torch.float64, requires_grad=True)
    values = getattr(special, name)(x)
    for value in values if isinstance(values, tuple) else (values,):
        (first,) = torch.autograd.grad(value, x, create_graph=True)
        (second,) = torch.autograd.grad(first, x)
        found.append((value.item(), first.item(), second.item()))
    return found


@pytest.mark.parametrize(("name", "x"), [(name, x) for name, points in POINTS.items() for x in points])
def test_derivatives(name, x):
    values = np.atleast_1d(getattr(scipy.special, name)(x))
    for slope, value, found in zip(SLOPES[name], values, orders(name, x), strict=True):
        with mpmath.workdps(200):
            at = mpmath.mpf(x)
            first, second = slope(at), mpmath.diff(slope, at, h=at * mpmath.mpf(10) ** -80)
        if math.isfinite(value) and (name != "fresnel" or abs(x) < 36):
            assert found[0] == value
        assert found[1] == pytest.approx(float(first), rel=1e-12, abs=0)
        assert found[2] == pytest.approx(float(second), rel=1e-11, abs=0)


def of_cosine(x):
    """S and C of a large argument (DLMF 7.5.3, 7.5.4, 7.12.2)."""
    if x < 1e3:
        return mpmath.fresnels(x), mpmath.fresnelc(x)
    phase = mpmath.pi * x**2 / 2
    f, g = 1 / (mpmath.pi * x), 1 / (mpmath.pi**2 * x**3)
    sine, cosine = mpmath.sin(phase), mpmath.cos(phase)
    return 0.5 - f * cosine - g * sine, 0.5 + f * sine - g * cosine


WRONG_IN_SCIPY = {
    "expi": ([710.0, 715.3157865027309], mpmath.ei),
    "shichi": ([715.3157865027309, -712.0], lambda x: (mpmath.shi(x), mpmath.re(mpmath.chi(abs(x))))),
    "erfi": ([26.65, -26.7], mpmath.erfi),
    "spence": ([math.inf], lambda x: -mpmath.inf),
    "fresnel": ([36.5, 14499917.482534017, 189017705.8073883, 1e155, 1e200], of_cosine),
}


@pytest.mark.parametrize(("name", "x"), [(name, x) for name, (points, _) in WRONG_IN_SCIPY.items() for x in points])
def test_values_that_scipy_has_wrong(name, x):
    """Infinity and NaN too early, and digits of the phase lost."""
    found = getattr(special, name)(torch.tensor(x, dtype=torch.float64))
    with mpmath.workdps(500):
        exact = WRONG_IN_SCIPY[name][1](mpmath.mpf(x))
        values = [float(value) for value in (exact if isinstance(exact, tuple) else [exact])]
    found = [value.item() for value in (found if isinstance(found, tuple) else [found])]
    assert found == pytest.approx(values, rel=1e-14, abs=0)


def test_expn_of_an_order_that_is_no_int():
    order, x = torch.tensor([3e9, 1e307], dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64)
    assert special.expn(order, x).tolist() == pytest.approx([math.exp(-2) / 3000000002, math.exp(-2) / 1e307])


@pytest.mark.parametrize("x", [1e-9, 0.999, 1.001, 30.0])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 55])
def test_derivatives_of_expn(n, x):
    argument = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    value = special.expn(n, argument)
    (first,) = torch.autograd.grad(value, argument, create_graph=True)
    (second,) = torch.autograd.grad(first, argument)
    assert value.item() == scipy.special.expn(n, x)
    with mpmath.workdps(100):  # the difference of orders cancels at small x
        exact = [(-1) ** k * mpmath.expint(n - k, mpmath.mpf(x)) for k in (1, 2)]
    assert [first.item(), second.item()] == pytest.approx([float(e) for e in exact], rel=1e-12, abs=0)


LIMITS = [
    ("exp1", 0.0, [-np.inf]), ("exp1", np.inf, [0.0]), ("expi", np.inf, [np.inf]), ("expi", -np.inf, [0.0]),
    ("sici", 0.0, [1.0, np.inf]), ("sici", np.inf, [0.0, 0.0]), ("shichi", 0.0, [1.0, np.inf]),
    ("shichi", -np.inf, [np.inf, -np.inf]), ("fresnel", 0.0, [0.0, 1.0]), ("spence", 1.0, [-1.0]),
    ("spence", 0.0, [-np.inf]), ("dawsn", np.inf, [0.0]), ("erfi", -np.inf, [np.inf]), ("erfcx", np.inf, [0.0]),
    ("erfcx", -np.inf, [-np.inf]), ("exp1", -1.0, [np.nan]), ("spence", -1.0, [np.nan]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "x", "slopes"), LIMITS)
def test_limits(name, x, slopes):
    np.testing.assert_array_equal([first for _, first, _ in orders(name, x)], slopes)


@pytest.mark.slow
@pytest.mark.parametrize("name", POINTS)
def test_halves_are_computed_in_double(name):
    x = torch.tensor([0.3, 1.7, 2.9], dtype=torch.bfloat16, requires_grad=True)
    wide = x.detach().double().requires_grad_()
    found, expected = (torch.stack(y) if isinstance(y := getattr(special, name)(t), tuple) else y for t in (x, wide))
    torch.testing.assert_close(found, expected.bfloat16(), rtol=0, atol=0)
    slopes = (torch.autograd.grad(y[..., :2].sum(), t)[0] for y, t in ((found, x), (expected, wide)))
    torch.testing.assert_close(*(slope.bfloat16() for slope in slopes))


def test_there_is_no_derivative_in_the_order():
    n = torch.tensor(2.0, requires_grad=True)
    with pytest.raises(tg.DerivativeError, match="the order is an integer"):
        special.expn(n, 1.0).backward()
