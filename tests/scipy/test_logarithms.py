"""Products with logarithms and the power transform beside SciPy's values and mpmath's derivatives."""

import math

import mpmath
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special

NAMES = ["xlogy", "xlog1py", "boxcox", "inv_boxcox"]

# (x, lmbda) and (y, lmbda): lmbda at and next to 0, large and tiny arguments, both signs, next to the end of the range.
FORWARD = [
    (2.0, 0.0), (2.0, 1e-19), (2.0, -1e-9), (1 + 1e-9, 0.7), (1e-300, 0.3), (1e300, -0.5), (1e300, 1.01), (0.3, -7.0),
    (5.0, 40.0), (1.0, 3.0), (7.0, 1.03), (7.0, -1.03),
]  # fmt: skip
INVERSE = [
    (2.0, 0.0), (2.0, 1e-19), (-3.0, 1e-9), (1e-9, 0.7), (1e10, 0.4), (-0.9999999999, 1.0), (-1.0, 0.99999999),
    (3.0, -1 / 3), (500.0, 1e-5), (1e300, 1e10), (0.83, 0.5), (-0.57, 0.5),
]  # fmt: skip


def derivatives(name, *point):
    """The value, and its first derivatives."""
    arguments = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    value = getattr(special, name)(*arguments)
    return value.item(), [g.item() for g in torch.autograd.grad(value, arguments)]


@pytest.mark.parametrize("point", FORWARD, ids=str)
def test_boxcox(point):
    """Derivatives of two orders in lmbda: moments of e^(u s), by parts in many digits."""
    value, found = derivatives("boxcox", *point)
    assert value == scipy.special.boxcox(*point)
    x, lmbda = (torch.tensor(v, dtype=torch.float64) for v in point)
    second = torch.func.grad(torch.func.grad(special.boxcox, argnums=1), argnums=1)(x, lmbda)
    with mpmath.workdps(100):
        x, k = map(mpmath.mpf, point)
        log, u = mpmath.log(x), mpmath.log(x) * k
        moments = [mpmath.mpf(1) / (n + 1) for n in range(3)]
        if u != 0:
            moments[0] = mpmath.expm1(u) / u
            for n in (1, 2):
                moments[n] = (mpmath.exp(u) - n * moments[n - 1]) / u
        expected = [x ** (k - 1), log**2 * moments[1], log**3 * moments[2]]
    assert [*found, second.item()] == pytest.approx([float(d) for d in expected], rel=2e-13, abs=0)


@pytest.mark.parametrize("point", INVERSE, ids=str)
def test_inv_boxcox(point):
    """The value, too, is mpmath's: next to 1 + lmbda y = 0 SciPy's depends on how the processor rounds the product."""
    value, found = derivatives("inv_boxcox", *point)
    with mpmath.workdps(100):
        y, k = map(mpmath.mpf, point)
        base = 1 + k * y
        power = base ** (1 / k) if k else mpmath.exp(y)
        by_k = power * (k * y / base - mpmath.log(base)) / k**2 if k else -power * y * y / 2
        expected = [float(power), float(power / base), float(by_k)]
    assert [value, *found] == pytest.approx(expected, rel=2e-13, abs=1e-320)


def test_ends_of_the_ranges():
    assert derivatives("boxcox", 0.0, 2.0)[1] == [0, 0.25]
    assert derivatives("boxcox", 0.0, 0.0)[1] == [math.inf, math.inf]
    assert derivatives("boxcox", math.inf, -2.0)[1] == [0, 0.25]
    assert derivatives("inv_boxcox", -0.5, 2.0)[1] == [math.inf, -math.inf]
    assert derivatives("inv_boxcox", -2.0, 0.5)[1] == [0, 0]
    assert derivatives("inv_boxcox", -1.0, 1.0)[1] == [1, -1]
    assert derivatives("inv_boxcox", -math.inf, 0.0)[1] == [0, 0]
    assert derivatives("xlogy", 0.0, 0.0)[1] == [-math.inf, 0]
    assert derivatives("xlog1py", 0.0, -1.0)[1] == [-math.inf, 0]


@pytest.mark.parametrize(("x", "y"), [(0.0, 3.0), (2.0, 1e-300), (-1e8, 1e8)])
def test_products(x, y):
    value, found = derivatives("xlogy", x, y)
    assert value == scipy.special.xlogy(x, y)
    assert found == pytest.approx([math.log(y), x / y], rel=1e-15, abs=0)
    value, found = derivatives("xlog1py", x, y)
    assert value == scipy.special.xlog1py(x, y)
    assert found == pytest.approx([math.log1p(y), x / (1 + y)], rel=1e-15, abs=0)


def test_second_derivatives_of_a_product_where_it_is_0():
    """There the term x/y is 0, and its derivative in x is not."""
    x, y = torch.tensor(0.0).double(), torch.tensor(4.0).double()
    (xx, xy), (yx, yy) = torch.func.hessian(special.xlogy, argnums=(0, 1))(x, y)
    assert [xx, xy, yx, yy] == [0, 0.25, 0.25, 0]
    (xx, xy), (yx, yy) = torch.func.hessian(special.xlog1py, argnums=(0, 1))(x, y)
    assert [v.item() for v in (xx, xy, yx, yy)] == pytest.approx([0, 0.2, 0.2, 0])


@pytest.mark.parametrize(
    ("name", "point"), [("boxcox", (2.5, 0.3)), ("boxcox", (2.5, 0.0)), ("inv_boxcox", (1.5, 0.3))]
)
def test_mixed_second_derivatives(name, point):
    """Against differences of the first."""
    step = 1e-5
    slopes = [derivatives(name, point[0] + sign * step, point[1])[1] for sign in (1, -1)]
    expected = [(above - below) / (2 * step) for above, below in zip(*slopes, strict=True)]
    arguments = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    (slope,) = torch.autograd.grad(getattr(special, name)(*arguments), arguments[0], create_graph=True)
    found = [g.item() for g in torch.autograd.grad(slope, arguments)]
    assert found == pytest.approx(expected, rel=1e-8, abs=0)


def test_a_second_derivative_in_lmbda_of_the_inverse_is_refused():
    lmbda = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(special.inv_boxcox(1.5, lmbda), lmbda, create_graph=True)
    with pytest.raises(tg.DerivativeError, match="second derivative of"):
        torch.autograd.grad(first, lmbda)
