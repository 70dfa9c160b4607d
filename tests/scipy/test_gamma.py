"""The incomplete gamma functions: values are SciPy's, derivatives are mpmath's."""

import mpmath
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special

# Where others fail: a ~ x, large and tiny parameters, far tails.
POINTS = [
    (2.5, 1.3),
    (500.0, 480.0),
    (1e4, 1e4),
    (1e-8, 0.7),
    (30.0, 100.0),
    (0.5, 1e-8),
    (7.0, 7.0 + 1e-8),
    (3.0, 1.5),
]


def by_mpmath(a, x):
    """dP/da and dP/dx to 40 digits."""
    with mpmath.workdps(60):
        a, x = mpmath.mpf(a), mpmath.mpf(x)
        by_a = mpmath.diff(lambda a: mpmath.gammainc(a, 0, x, regularized=True), a)
        return float(by_a), float(mpmath.exp((a - 1) * mpmath.log(x) - x - mpmath.loggamma(a)))


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_both_derivatives(point):
    a, x = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in point)
    value = special.gammainc(a, x)
    assert value.item() == scipy.special.gammainc(*point)
    found = torch.autograd.grad(value, (a, x))
    assert [g.item() for g in found] == pytest.approx(by_mpmath(*point), rel=1e-12)


def test_the_operator_is_proved():
    report = tg.check(special.gammainc)
    assert report.ok, str(report)


def test_a_second_derivative_in_the_parameter_is_refused():
    a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(special.gammainc(a, 3.0), a, create_graph=True)
    with pytest.raises(tg.DerivativeError, match="second derivative in a parameter"):
        torch.autograd.grad(first, a)
