"""Elliptic, hypergeometric, zeta, Owen's and Lambert's functions: derivatives are mpmath's where closed forms fail."""

import math

import mpmath
import numpy as np
import pytest
import scipy.special
import torch

import torchgraft as tg
from torchgraft.scipy import special


def slopes(name, *point, by=-1):
    """The value, and its first and second derivative in one argument."""
    point = [torch.tensor(x, dtype=torch.float64) for x in point]
    x = point[by].requires_grad_()
    value = getattr(special, name)(*point)
    (first,) = torch.autograd.grad(value, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    return value.item(), first.item(), second.item()


def close(found, exact, rel=1e-12):
    return found == pytest.approx([float(mpmath.re(x)) for x in exact], rel=rel, abs=0)


# -- elliptic integrals ---------------------------------------------------------------------------------------------


def legendre(m):
    """B, D and (D - B)/m, of which K and E and all derivatives are made."""
    first, second = mpmath.ellipk(m), mpmath.ellipe(m)
    d = (first - second) / m
    return first - d, d, (2 * d - first) / m


@pytest.mark.parametrize("m", [-1e300, -1e8, -1.0, -1e-9, 1e-300, 1e-9, 0.5, 0.99, 1 - 1e-15])
def test_elliptic_integrals(m):
    k, e = slopes("ellipk", m), slopes("ellipe", m)
    assert (k[0], e[0]) == (scipy.special.ellipk(m), scipy.special.ellipe(m))
    with mpmath.workdps(700):
        b, d, j = legendre(mpmath.mpf(m))
        c = 1 - mpmath.mpf(m)
        assert close(k[1:], [b / (2 * c), j / (4 * c) + b / (2 * c**2)])
        assert close(e[1:], [-d / 2, (j - b / c) / 4])


@pytest.mark.parametrize("p", [1e-100, 1e-8, 0.3, 1 - 1e-12, 5.0])
def test_the_elliptic_integral_of_the_complement(p):
    found = slopes("ellipkm1", p)
    assert found[0] == scipy.special.ellipkm1(p)
    with mpmath.workdps(300):
        b, _, j = legendre(1 - mpmath.mpf(p))
        assert close(found[1:], [-b / (2 * p), j / (4 * p) + b / (2 * mpmath.mpf(p) ** 2)])


# -- hypergeometric functions ---------------------------------------------------------------------------------------

HYPER = [
    ("hyp0f1", (291.578, 0.336)), ("hyp0f1", (280.6, -1.82)), ("hyp0f1", (0.3, 1e4)), ("hyp0f1", (0.3, -1e4)),
    ("hyp0f1", (-2 + 1e-8, 5.0)), ("hyp0f1", (-6.5, -40.0)), ("hyp0f1", (1.0, 0.0)), ("hyp0f1", (200.0, -300.0)),
    ("hyp1f1", (2.0, 3.5, -30.0)), ("hyp1f1", (20.0, 1.5, -10.0)), ("hyp1f1", (-3.0, 2.5, 4.0)),
    ("hyp1f1", (158.4, 3.66, -15.3)), ("hyp1f1", (0.0, 2.0, 1.0)), ("hyp1f1", (0.5, 1.5, 700.0)),
    ("hyp2f1", (2.0, 3.0, 4.5, -3.0)), ("hyp2f1", (100.0, 100.0, 300.0, -0.5)), ("hyp2f1", (0.5, 1.5, 2.5, 0.999999)),
    ("hyp2f1", (0.5489, 1.5489, 6.8377, -3.4133)), ("hyp2f1", (3.0, 3.0 + 1e-8, 2.5, -1e4)),
    ("hyp2f1", (2.0733, 0.8168, 2.8901, 1 - 2.4e-7)), ("hyp2f1", (-3.0, 2.5, 1.5, 7.0)),
    ("hyp2f1", (1.5, -2.5, -3.5, 0.4)), ("hyp2f1", (0.5, 0.5, 1.0, 0.0)), ("hyp2f1", (0.0, 2.0, 3.0, 0.5)),
    ("hyp2f1", (66.53, 6.12, 71.13, 0.9157)), ("hyp2f1", (33.04, 46.66, 85.43, 0.9445)),
    ("hyp2f1", (0.3518086677784072, 1.2773816991292968, 92.31490470846535, -751.5692720262801)),
    ("hyp2f1", (74.99666595458984, 43.266719818115234, 0.8464360237121582, -0.5946774482727051)),
    ("hyp2f1", (-37.24, 81.7, 1.278, 0.99858)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "point"), HYPER)
def test_hypergeometric_functions(name, point):
    value, *found = slopes(name, *point)
    assert close([value], [precise(name, point)], rel=1e-11)
    *parameters, z = map(mpmath.mpf, point)
    upper, exact = {"hyp0f1": 0, "hyp1f1": 1, "hyp2f1": 2}[name], []
    with mpmath.workdps(60):
        for n in (1, 2):
            ratio = mpmath.fprod(mpmath.rf(a, n) for a in parameters[:upper]) / mpmath.rf(parameters[-1], n)
            exact.append(ratio * getattr(mpmath, name)(*(p + n for p in parameters), z))
    assert close(found, exact)


SCIPY_WRONG = {
    # infinity, 0 and NaN where Gamma(v), x^(1 - v) or J is not in range
    "hyp0f1": [
        (262.08670220545525, -135.16496620181536), (298.52050510503193, -9302.871467297542), (-300.5, -4.0),
        (1221.3020479921581, -64372.16928445916), (144.9897443006301, -142360.95468839537), (206.24, -2156256.0),
        (300.5, -2.5e7), (-118.10731747018467, -316534.019475242), (-7.9999999999976605, -0.01576017482622651),
        (-15.31447589977623, 132567.48202685307), (-190.5, -90000.5),
    ],
    # a large, an integer nearby, b - a an integer, a small beside b
    "hyp1f1": [
        (932.727, 0.00508070950904, -0.45805), (1.0, -10.0000000015, -2.0825), (1.0, -5.99999999848, -19.023),
        (0.5, -3 + 1e-11, 0.0035348), (0.93614378853792661, -4.063856211462073, -284.8923515974684),
        (9.0, 2.000000000000759, -1291.5341463604364),
        (-7.999999999999753, -0.10537130399567118, 74.88913668724422), (0.00626718, -63.9103454074, -98.673),
        (78.0589, -224.333136846, 27.698), (-0.3018467478881508, 0.8863802487840559, 766.033833792241),
    ],
    # parameters above 20, a - b, c - a - b or c - a next to an integer, c next to 0, terms that vanish and return
    "hyp2f1": [
        (19.666790008544922, 2.2085483074188232, 251.5498809814453, -4.7040276527404785),
        (0.011883696707170238, 92.559444218264, 60.708933980363526, 0.8975139070871262),
        (22.759939193725586, 93.6150894165039, 110.93830108642578, -23.144563674926758),
        (70.18498204071625, 7.814121193716792, 42.9387605986614, 0.999999611490822),
        (4.5, 5.0, 0.49999999999998757, -1.7977237203794578), (0.5, 3.4, 5.922593755282765e-15, 0.5),
        (1.6109818326137408e-15, 8.500000000000002, 5.746943682742484e-9, 0.5), (-90.3, 91.7, 0.7, 0.4),
        (0.1055830571868308, 5.564917395452694, -2283.121352763424, 0.9999809793385782),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "point"), [(name, point) for name in SCIPY_WRONG for point in SCIPY_WRONG[name]])
def test_hypergeometric_values_that_scipy_has_wrong(name, point):
    exact = float(precise(name, point))
    assert not math.isclose(getattr(scipy.special, name)(*point), exact, rel_tol=1e-7)
    found = getattr(special, name)(*(torch.tensor(x, dtype=torch.float64) for x in point)).item()
    assert math.isclose(found, exact, rel_tol=1e-11 if name == "hyp0f1" else 1e-15)


def precise(name, point):
    with mpmath.workdps(60):
        return getattr(mpmath, name)(*map(mpmath.mpf, point), maxprec=200000, maxterms=10**6)


@pytest.mark.parametrize(
    ("point", "slope"),
    [
        ((10.498064558836766, 25.888112036956137, -12.729663074743755, 0.9999983871567925), -math.inf),
        ((48.7187614440918, 11.957093238830566, 1.7896742820739746, 0.9999996423721313), math.inf),
    ],
)
def test_a_slope_that_overflows_has_its_sign(point, slope):
    assert slopes("hyp2f1", *point)[1] == slope


@pytest.mark.slow
def test_a_value_that_would_take_too_long_is_none():
    assert math.isnan(slopes("hyp2f1", -7625.039533960035, -2.9754498161169174, -10.558326113098234, 0.99999999)[0])


# -- zeta -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("s", [-250.5, -20.3, -4.0, -1.0, -0.5, -1e-9, 0.0, 0.5, 1 - 1e-9, 1 + 1e-9, 2.0, 30.0, 100.0])
def test_riemann(s):
    value, *found = slopes("zeta", s)
    with mpmath.workdps(150):
        at, step = mpmath.mpf(s), mpmath.mpf(10) ** -40
        assert close([value], [mpmath.zeta(at)], rel=1e-15)
        assert close(found, [mpmath.diff(mpmath.zeta, at, n, h=step) for n in (1, 2)])


@pytest.mark.parametrize("s", [-1.9999999999999998, -18.0002556360129, -66.00020329465536, -218.8201877937927])
def test_riemann_where_scipy_loses_digits(s):
    """Next to zeros, and far from 0."""
    exact = float(mpmath.zeta(mpmath.mpf(s)))
    assert not math.isclose(scipy.special.zeta(s), exact, rel_tol=1e-14)
    assert math.isclose(special.zeta(torch.tensor(s, dtype=torch.float64)).item(), exact, rel_tol=1e-15)


HURWITZ = [(1 + 1e-8, 0.5), (1.5, 1e-3), (2.0, 1.0), (3.25, 7.5), (60.0, 0.3), (84.0, 60.0), (2.5, 1e6)]


@pytest.mark.parametrize(("s", "q"), HURWITZ)
def test_hurwitz(s, q):
    value, *by_s = slopes("zeta", s, q, by=0)
    x, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (s, q))
    (first,) = torch.autograd.grad(special.zeta(x, y), y, create_graph=True)
    mixed = [g.item() for g in torch.autograd.grad(first, (x, y))]
    with mpmath.workdps(320):
        s, q = mpmath.mpf(s), mpmath.mpf(q)
        of = [[mpmath.zeta(s + k, q, n) for k in range(3)] for n in range(3)]
        assert close([value], [of[0][0]], rel=5e-16)
        assert close(by_s, [of[1][0], of[2][0]])
        assert close([first.item(), *mixed], [-s * of[0][1], -s * of[1][1] - of[0][1], s * (s + 1) * of[0][2]])


# -- Owen's T -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [-1e3, -1e-8, 0.0, 1.1869884985596424, 1e8])
@pytest.mark.parametrize("h", [-3.0, 1e-8, 0.0, 20.367694412234222])
def test_owens_t(h, a):
    x, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (h, a))
    value = special.owens_t(x, y)
    assert value.item() == scipy.special.owens_t(h, a) or (h, a) == (20.367694412234222, -1e-8)
    by_h, by_a = torch.autograd.grad(value, (x, y), create_graph=True)
    second = [*torch.autograd.grad(by_h, (x, y), retain_graph=True), *torch.autograd.grad(by_a, (x, y))]
    with mpmath.workdps(80):
        h, a = mpmath.mpf(h), mpmath.mpf(a)
        bell, b = mpmath.exp(-(h**2) / 2), 1 + a**2
        both = mpmath.exp(-(h**2) * b / 2) / (2 * mpmath.pi)
        slope = -bell * mpmath.erf(a * h / mpmath.sqrt(2)) / (2 * mpmath.sqrt(2 * mpmath.pi))
        exact = [slope, both / b, -h * slope - a * both, -h * both, -h * both, -both * (h**2 * a + 2 * a / b) / b]
    assert close([t.item() for t in (by_h, by_a, *second)], exact, rel=2e-15)


@pytest.mark.parametrize(
    ("h", "a"), [(4.8418858, 1.6e-8), (-9.1, 1.5e-9), (38.0, -0.00999), (5.5, 1e-15), (-20.367694412234222, -1e-8)]
)
def test_values_of_owens_t_that_scipy_has_wrong(h, a):
    found = special.owens_t(*(torch.tensor(v, dtype=torch.float64) for v in (h, a))).item()
    with mpmath.workdps(40):
        h, a = mpmath.mpf(h), mpmath.mpf(a)
        rest = mpmath.quad(lambda t: mpmath.exp(-((h * a * t) ** 2) / 2) / (1 + (a * t) ** 2), (0, 1))
        exact = a * rest * mpmath.exp(-(h**2) / 2) / (2 * mpmath.pi)
    assert found == pytest.approx(float(exact), rel=1e-15, abs=0)


# -- Lambert's W ----------------------------------------------------------------------------------------------------

BRANCH_POINT = -math.exp(-1)
LAMBERT = [
    *[(z, 0) for z in (-0.27, -0.2695, -1e-300, 1e-300, 0.5, 1.0, 30.0, 1e300)],
    *[(z, -1) for z in (-0.2707, -0.2706, -0.1, -1e-10, -1e-307, -5e-324)],
    *[(BRANCH_POINT + offset, k) for offset in (1.2e-16, 1e-12, 1e-6, 1e-2) for k in (0, -1)],
]


@pytest.mark.parametrize(("z", "k"), LAMBERT)
def test_lambertw(z, k):
    """Also next to the branch point, where SciPy has half of the digits."""
    x = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    value = special.lambertw(x, k)
    (first,) = torch.autograd.grad(value, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    with mpmath.workdps(80):
        w, z = mpmath.lambertw(mpmath.mpf(z), k).real, mpmath.mpf(z)
        for _ in range(4):  # it ends early next to the branch point
            w -= (w * mpmath.exp(w) - z) / ((1 + w) * mpmath.exp(w))
        slope = mpmath.exp(-w) / (1 + w)
        assert abs(value.item() - w) <= 2.1 * np.spacing(abs(value.item()))
        assert close([first.item(), second.item()], [slope, -(slope**2) * (w + 2) / (1 + w)])


def test_lambertw_has_two_real_branches():
    assert special.lambertw(torch.tensor(-0.4, dtype=torch.float64)).isnan()
    assert special.lambertw(torch.tensor(0.1, dtype=torch.float64), -1).isnan()
    with pytest.raises(tg.ArgumentError):
        special.lambertw(torch.tensor(1.0), 1)


# -- all ------------------------------------------------------------------------------------------------------------

LIMITS = [
    ("ellipk", (0.0,), math.pi / 8), ("ellipk", (1.0,), math.inf), ("ellipk", (-math.inf,), 0.0),
    ("ellipk", (1.5,), math.nan), ("ellipkm1", (0.0,), -math.inf), ("ellipe", (1.0,), -math.inf),
    ("hyp0f1", (2.0, math.inf), math.inf), ("hyp1f1", (2.0, 3.0, math.inf), math.inf),
    ("hyp1f1", (2.0, 3.0, -math.inf), 0.0), ("hyp0f1", (1e300, -1e6), 1e-300),
    ("zeta", (1.0,), -math.inf), ("zeta", (math.inf,), 0.0),
    ("zeta", (2.0, 0.0), -math.inf), ("zeta", (0.5, 2.0), math.nan), ("owens_t", (1.0, math.inf), 0.0),
    ("owens_t", (math.inf, 0.0), 0.0), ("lambertw", (0.0,), 1.0), ("lambertw", (BRANCH_POINT,), math.inf),
    ("lambertw", (math.inf,), 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "point", "slope"), LIMITS)
def test_limits(name, point, slope):
    np.testing.assert_allclose(slopes(name, *point)[1], slope, rtol=1e-15)


ONE = {"ellipk": 0.3, "ellipkm1": 0.3, "ellipe": 0.3, "zeta": 2.5}
NAMES = [*ONE, "hyp0f1", "hyp1f1", "hyp2f1", "owens_t", "lambertw"]


@pytest.mark.parametrize("name", ONE)
def test_third_derivatives_are_refused(name):
    x = torch.tensor(ONE[name], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(getattr(special, name)(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first, x, create_graph=True)
    with pytest.raises(tg.DerivativeError, match="so high an order"):
        torch.autograd.grad(second, x)


@pytest.mark.parametrize("parameter", range(3))
def test_parameters_of_hypergeometric_functions_have_no_derivative(parameter):
    point = [torch.tensor(x, requires_grad=i == parameter) for i, x in enumerate((0.5, 1.5, 2.5, 0.5))]
    with pytest.raises(tg.DerivativeError, match="a series of its own"):
        special.hyp2f1(*point).backward()
