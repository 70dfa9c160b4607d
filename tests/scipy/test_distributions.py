"""Distribution functions: values are SciPy's, derivatives are mpmath's, by integrals that do not cancel."""

import math

import mpmath
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special

from ..cuda.standin import emulated
from .references import kept

NAMES = ["stdtr", "stdtrit", "fdtr", "chdtr", "chdtrc", "pdtr"]

# Few and very many degrees of freedom, t next to 0 and far out, both sides of z = 1 and of the sign change of d f/dv.
STUDENT = [
    (3.0, 1.5), (1e8, 0.5), (1e8, -6.0), (1e4, 1e-8), (1e4, 1.55), (1e4, 1.56), (0.01, 1e30), (0.01, -1e-5),
    (2.0, 1e10), (10.0, 4.1), (10.0, 4.2), (1.0, 1.3), (300.0, 25.0),
]  # fmt: skip
LEVELS = [
    (3.0, 0.7), (1e8, 0.3), (1e4, 1e-100), (1.0, 0.5 + 1e-12), (0.01, 0.2), (30.0, 1 - 1e-10), (0.002, 0.2255),
    (3.0, 1e-200), (10.0, 1e-300), (2.0, 1e-310), (1000.0, 5e-324), (0.01, 0.501),
]  # fmt: skip

# Equal and unequal, very many, next to X = 1 and far from it, both sides of the switch at n x = 3/2.
FISHER = [
    (2.0, 3.0, 1.5), (5.0, 1e8, 0.7), (1e8, 5.0, 1.2), (1e6, 1e6, 1.001), (1e10, 1e3, 0.9), (100.0, 100.0, 1 + 1e-9),
    (1e-6, 2.0, 1e6), (0.3, 1e5, 9.9), (0.3, 1e5, 10.1), (1e4, 3.0, 0.77), (0.5, 0.5, 1e-12), (3.0, 10.0, 30.0),
]  # fmt: skip


def derivatives(function, *point):
    """The value, and its first derivatives."""
    arguments = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    value = function(*arguments)
    return value.item(), [g.item() for g in torch.autograd.grad(value, arguments)]


def student(v, t):
    """dF/dv and the density: the integral from 0, or to infinity, of the density's derivative in v, in y = sqrt(z)."""
    v, t = mpmath.mpf(v), mpmath.mpf(t)
    z = mpmath.log1p(t * t / v)
    gap = mpmath.digamma((v + 1) / 2) - mpmath.digamma(v / 2) - 1 / v
    scale = mpmath.exp(mpmath.loggamma((v + 1) / 2) - mpmath.loggamma(v / 2)) / mpmath.sqrt(mpmath.pi)

    def weighted(y):
        s = y * y
        return (
            mpmath.exp(-v * (s - z) / 2)
            * y
            / mpmath.sqrt(-mpmath.expm1(-s))
            * (s + (1 + 1 / v) * mpmath.expm1(-s) - gap)
        )

    start = mpmath.sqrt(z)
    if v * z < 3:
        total = -mpmath.quad(weighted, mpmath.linspace(mpmath.mpf(10) ** -60, start, 9))
    else:
        reach = 160 / v / (start + mpmath.sqrt(z + 160 / v))
        total = mpmath.quad(weighted, mpmath.linspace(start, start + reach, 13))
    decay = scale * mpmath.exp(-v * z / 2)
    return mpmath.sign(t) * decay * total / 2, decay * mpmath.exp(-z / 2) / mpmath.sqrt(v)


def fisher(dfn, dfd, x):
    """dF/d dfn, dF/d dfd and the density, in the logit of the incomplete beta function's argument."""
    a, b, x = mpmath.mpf(dfn) / 2, mpmath.mpf(dfd) / 2, mpmath.mpf(x)
    n, start = a + b, mpmath.log(a * x / b)
    side = 1 if x > 1 else -1
    scale = mpmath.loggamma(n) - mpmath.loggamma(a) - mpmath.loggamma(b)
    by_a, by_b = (mpmath.digamma(n) - mpmath.digamma(c) + 1 for c in (a, b))

    def logs(s):
        return -mpmath.log1p(mpmath.exp(-s)), -mpmath.log1p(mpmath.exp(s))

    def exponent(s):
        return sum(map(mpmath.fmul, (a, b), logs(s)))

    def weighted(s):
        log_t, log_u = logs(s)
        g = mpmath.exp(exponent(s) - exponent(start))
        return mpmath.mpc(
            g * (log_t + by_a - n / a * mpmath.exp(log_t)), g * (log_u + by_b - n / b * mpmath.exp(log_u))
        )

    reach = mpmath.mpf(2) ** 60
    while exponent(start) - exponent(start + side * reach / 2) > 60:
        reach /= 2
    both = mpmath.quad(weighted, [start + side * reach * mpmath.mpf(k * k) / 64 for k in range(9)])
    mass = mpmath.exp(scale + exponent(start))
    return -mass * both.real / 2, -mass * both.imag / 2, mass / x


@kept
def slopes_of_stdtr(v, t):
    with mpmath.workdps(40):
        return list(map(float, student(v, t)))


@kept
def quantile(v, p):
    """The true one, and its slopes; ours is where the search begins."""
    start = special.stdtrit(torch.tensor(v, dtype=torch.float64), p).item()
    with mpmath.workdps(60):
        v, p = mpmath.mpf(v), mpmath.mpf(p)
        tail = min(p, 1 - p)

        def error(z):
            return mpmath.log(mpmath.betainc(v / 2, 0.5, 0, mpmath.exp(-z), regularized=True) / 2 / tail)

        guess = mpmath.log1p(mpmath.mpf(start) ** 2 / v)
        z = mpmath.findroot(error, (guess * (1 - mpmath.mpf(10) ** -4), guess), tol=1e-50)
        t = mpmath.sign(p - 0.5) * mpmath.sqrt(v * mpmath.expm1(z))
        by_v, density = student(v, t)
        return [float(t), float(-by_v / density), float(1 / density)]


@kept
def slopes_of_fdtr(dfn, dfd, x):
    with mpmath.workdps(35):
        return list(map(float, fisher(dfn, dfd, x)))


@pytest.mark.parametrize("point", STUDENT, ids=str)
def test_stdtr(point):
    value, found = derivatives(special.stdtr, *point)
    assert value == scipy.special.stdtr(*point)
    assert found == pytest.approx(slopes_of_stdtr(*point), rel=3e-13, abs=0)


@pytest.mark.parametrize("point", LEVELS, ids=str)
def test_stdtrit(point):
    """At the true quantile, of which SciPy's value may have few digits, or none."""
    v, p = point
    value, found = derivatives(special.stdtrit, v, p)
    t, *slopes = quantile(v, p)
    assert found == pytest.approx(slopes, rel=1e-12, abs=0)
    if v >= 0.01 and p > 1e-20 and abs(p - 0.5) > 1 / 256:
        assert value == scipy.special.stdtrit(v, p)
    else:
        assert value == pytest.approx(t, rel=1e-15 + 3e-16 / v, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", [(0.0016449855680489957, 0.15526060765084115), (0.016709006709569565, 0.9999965223263891)]
)
def test_stdtrit_next_to_infinity_on_cuda(point):
    inputs = [torch.tensor([value], dtype=torch.float64) for value in point]
    with emulated():
        (found,) = special.stdtrit._record.kernels["cuda"].native.run(inputs, [0, 0], 0, [((1,), torch.float64)], {})
    torch.testing.assert_close(found, special.stdtrit(*inputs), rtol=2e-13, atol=0)


def test_the_ends_of_stdtrit():
    """SciPy says inf at both."""
    ends = special.stdtrit(2.5, torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert ends.tolist() == [-math.inf, math.inf]


@pytest.mark.slow
@pytest.mark.parametrize("point", FISHER, ids=str)
def test_fdtr(point):
    value, found = derivatives(special.fdtr, *point)
    assert value == scipy.special.fdtr(*point)
    assert found == pytest.approx(slopes_of_fdtr(*point), rel=1e-12, abs=0)


@pytest.mark.parametrize("point", [(3.0, 2.0), (1e-3, 5.0), (2e4, 2.1e4), (40.0, 1e-3)], ids=str)
@pytest.mark.parametrize("name", ["chdtr", "chdtrc", "pdtr"])
def test_incomplete_gamma_functions(name, point):
    sign = 1 if name == "chdtr" else -1
    by_v = sign * mpmath.mpf(1) / 2
    a, x = (mpmath.floor(point[0]) + 1, mpmath.mpf(point[1])) if name == "pdtr" else (mpmath.mpf(p) / 2 for p in point)
    with mpmath.workdps(100):
        expected = [by_v * mpmath.diff(lambda a: mpmath.gammainc(a, 0, x, regularized=True), a)]
        expected.append(
            sign * mpmath.exp((a - 1) * mpmath.log(x) - x - mpmath.loggamma(a)) / (1 if name == "pdtr" else 2)
        )
    if name == "pdtr":
        expected = expected[1:]
        function, point = (lambda m, k=point[0]: special.pdtr(k, m)), point[1:]
    else:
        function = getattr(special, name)
    _, found = derivatives(function, *point)
    assert found == pytest.approx([float(d) for d in expected], rel=1e-12, abs=0)


def test_values_are_scipys():
    for name in ("chdtr", "chdtrc", "pdtr"):
        for point in ((3.7, 2.0), (0.0, 1.0), (2.0, 0.0), (-0.5, 1.0), (2.0, -1.0)):
            value = getattr(special, name)(*torch.tensor(point, dtype=torch.float64))
            torch.testing.assert_close(
                value.item(), float(getattr(scipy.special, name)(*point)), rtol=0, atol=0, equal_nan=True
            )


@pytest.mark.parametrize(("name", "parameter"), [("stdtr", 0), ("stdtrit", 0), ("fdtr", 0), ("fdtr", 1), ("chdtr", 0)])
def test_second_derivatives_in_parameters_are_refused(name, parameter):
    point = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (3.0, 0.4, 0.7)[: 2 + (name == "fdtr")]]
    (first,) = torch.autograd.grad(getattr(special, name)(*point), point[parameter], create_graph=True)
    with pytest.raises(tg.DerivativeError, match="second derivative of"):
        torch.autograd.grad(first, point[parameter])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "point"), [("stdtr", (3.5, -0.8)), ("stdtrit", (3.5, 0.9)), ("fdtr", (3.0, 7.5, 1.4))]
)
def test_mixed_second_derivatives(name, point):
    """Against differences of the first."""
    function, step = getattr(special, name), 1e-5
    slopes = [derivatives(function, *point[:-1], point[-1] + sign * step)[1] for sign in (1, -1)]
    expected = [(above - below) / (2 * step) for above, below in zip(*slopes, strict=True)]
    arguments = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    (slope,) = torch.autograd.grad(function(*arguments), arguments[-1], create_graph=True)
    found = [g.item() for g in torch.autograd.grad(slope, arguments)]
    assert found == pytest.approx(expected, rel=1e-7, abs=0)


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_number_of_events_has_no_derivative(before):
    """Nor have derivatives in the mean one in it."""
    k, m = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (2.0, 1.5))
    found = special.pdtr(k, m)
    for _ in range(before):
        (found,) = torch.autograd.grad(found, m, create_graph=True)
    with pytest.raises(tg.DerivativeError, match="events are counted"):
        torch.autograd.grad(found, k)


@pytest.mark.parametrize("point", [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.7, 2.0), (2.0, 2.0), (150.0, 140.0)], ids=str)
def test_derivatives_of_pdtr_in_the_mean(point):
    k, m = point[0], torch.tensor(point[1], dtype=torch.float64)
    with mpmath.workdps(60):
        exact = mpmath.taylor(lambda m: mpmath.gammainc(mpmath.floor(k) + 1, m, regularized=True), point[1], 3)
    function = torch.func.grad(lambda m: special.pdtr(k, m))
    for order in (1, 2, 3):
        expected = float(exact[order] * mpmath.factorial(order))
        assert function(m).item() == pytest.approx(expected, rel=1e-12, abs=1e-16), order
        function = torch.func.grad(function)


@pytest.mark.parametrize("point", [(7.6e-8, -5.6e260), (0.01, -1e200), (0.01, 1e200), (1e-156, 7.5e101)], ids=str)
def test_stdtr_far_out(point):
    """Where t^2 overflows."""
    with mpmath.workdps(60):
        v, t = map(mpmath.mpf, point)
        w = v / (v + t * t)
        tail = mpmath.exp(mpmath.log(w) * v / 2 + mpmath.loggamma((v + 1) / 2) - mpmath.loggamma(v / 2 + 1))
        tail *= mpmath.hyp2f1(v / 2, 0.5, v / 2 + 1, w) / mpmath.sqrt(mpmath.pi) / 2
        exact = float(1 - tail if t > 0 else tail)
    assert special.stdtr(*torch.tensor(point, dtype=torch.float64)).item() == pytest.approx(exact, rel=1e-14, abs=0)
    assert scipy.special.stdtr(*point) != pytest.approx(exact, rel=1e-3, abs=0)


@kept
def fdtr_and_slopes(*point):
    """The value of fdtr and its derivatives, where some of them hang on many digits."""

    def level(dfn, dfd, x):
        a, b, odds = dfn / 2, dfd / 2, dfn / dfd * x
        scale = mpmath.loggamma(a + b) - mpmath.loggamma(a) - mpmath.loggamma(b)
        front = mpmath.exp(a * mpmath.log(odds) - (a + b) * mpmath.log1p(odds) + scale)
        if odds < 1:
            return front / a * mpmath.hyp2f1(a + b, 1, a + 1, odds / (1 + odds))
        return 1 - front / b * mpmath.hyp2f1(a + b, 1, b + 1, 1 / (1 + odds))

    def slope(i):
        step = arguments[i] * mpmath.mpf(10) ** -250
        above, below = ([*arguments[:i], arguments[i] + sign * step, *arguments[i + 1 :]] for sign in (1, -1))
        return (level(*above) - level(*below)) / (2 * step)

    with mpmath.workdps(900):
        arguments = [mpmath.mpf(p) for p in point]
        return [float(level(*arguments)), *(float(slope(i)) for i in range(3))]


# X or the value below the least normal number, X beside which dfd is nothing, and two tiny degrees of freedom.
@pytest.mark.parametrize(
    "point", [
        (225.97180139379773, 9.172523283148204, 6.101103297940887e-05), (0.7705482628944068, 2806123.06, 1e-308),
        (1e-5, 27.0, 5e-324), (3.5e-8, 4e-76, 5e-324), (1.5, 7.5e-17, 1e300), (8.2e-216, 4.2e-254, 1.0),
        (4.96e-16, 2.08e-298, 5.7e-192),
    ], ids=str,
)  # fmt: skip
def test_fdtr_where_scipys_has_lost_digits(point):
    exact, *slopes = fdtr_and_slopes(*point)
    value, found = derivatives(special.fdtr, *point)
    assert value == pytest.approx(exact, rel=1e-12, abs=5e-324)
    assert found == pytest.approx(slopes, rel=1e-12, abs=1e-319)
    assert value != scipy.special.fdtr(*point)


def test_limits():
    """Of many degrees of freedom, a normal distribution; nothing is NaN at the ends."""
    normal = math.exp(-0.5) / math.sqrt(2 * math.pi)
    assert derivatives(special.stdtr, math.inf, 1.0)[1] == [0, pytest.approx(normal)]
    assert derivatives(special.stdtr, 3.0, -math.inf)[1] == [0, 0]
    assert derivatives(special.stdtr, 3.0, 0.0)[1][0] == 0
    assert derivatives(special.fdtr, 1.0, 3.0, 0.0)[1] == [0, 0, math.inf]
    assert derivatives(special.fdtr, 4.0, 3.0, math.inf)[1] == [0, 0, 0]
    assert derivatives(special.chdtr, 1.0, 0.0)[1] == [0, math.inf]
