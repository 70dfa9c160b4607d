"""Interpolation and smoothing: values are SciPy's, derivatives those of differences."""

import doctest
import itertools

import numpy as np
import pytest
import scipy.ndimage
import torch

import torchgraft as tg
from torchgraft.scipy import ndimage
from torchgraft.scipy.ndimage import splines

from ..default import by_default

MODES = ["reflect", "grid-mirror", "constant", "grid-constant", "nearest", "mirror", "grid-wrap", "wrap"]


def random(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def points(shape, count=60):
    """Inside, outside, on grid points, half between, and at both ends."""
    size = torch.tensor(shape, dtype=torch.float64)[:, None]
    drawn = torch.from_numpy(np.random.default_rng(1).uniform(-2, 3, size=(len(shape), count))) * size
    drawn[:, :10] = drawn[:, :10].round()
    drawn[:, 10:15] = drawn[:, 10:15].round() + 0.5
    inside = torch.rand(len(shape), count, generator=torch.Generator().manual_seed(0)).double() * (size - 1)
    return torch.cat([drawn, inside, size - 1, 0 * size], 1)


@pytest.mark.parametrize("prefilter", [True, False])
@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("mode", MODES)
def test_interpolated_values_are_scipys(mode, order, prefilter):
    for shape in [(1,), (2,), (9,), (4, 5), (3, 1, 4)]:
        x, at = random(*shape), points(shape)
        settings = {"order": order, "mode": mode, "cval": 1.5, "prefilter": prefilter}
        expected = torch.from_numpy(scipy.ndimage.map_coordinates(x.numpy(), at.numpy(), **settings))
        found = ndimage.map_coordinates(x, at, **settings)
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-14 * x.abs().max().item())


def modes_and(orders, usual):
    """Each mode with each order; by default some with the usual order, and the first with others."""

    def is_quick(mode, order):
        return mode in MODES[::3] if order == usual else mode == MODES[0] and order % 2 == usual % 2

    rows = by_default(itertools.product(MODES, orders), is_quick)
    return pytest.mark.parametrize(("mode", "order"), rows)


@modes_and(range(6), 3)
def test_derivatives_of_interpolation(mode, order):
    """In values and coordinates, first and second; away from kinks."""
    x = random(3, 7).requires_grad_()
    at = [[-0.37, 0.61, 1.43, 2.29, 5.3, -4.2], [6.41, -0.29, 3.3, 6.12, -3.6, 9.7]]  # with borders in reach
    at = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    function = lambda x, at: ndimage.map_coordinates(x, at, order=order, mode=mode, cval=1.5)  # noqa: E731
    assert torch.autograd.gradcheck(function, (x, at), eps=1e-5)
    assert torch.autograd.gradgradcheck(function, (x, at), eps=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_the_transpose_of_scipys_filter(mode):
    """Also on lines of a few elements, where SciPy's filter is not quite the inverse that it stands for."""
    number = splines.MODES.index({"grid-mirror": "reflect"}.get(mode, mode))
    for n in (1, 2, 5, splines.CUTOFF, splines.CUTOFF + 1, 200):
        x, y = random(n), random(n, seed=1)
        (transposed,) = torch.autograd.grad(splines.spline_filter1d(x.requires_grad_(), 5, number), x, y)
        expected = scipy.ndimage.spline_filter1d(np.eye(n), 5, axis=0, mode=mode).T @ y.numpy()
        torch.testing.assert_close(transposed, torch.from_numpy(expected), rtol=0, atol=1e-13)


def test_derivatives_at_kinks():
    """From above, at the last point from below; outside those of the extension."""
    x = torch.tensor([0.0, 1.0, 3.0, 7.0], dtype=torch.float64)
    at = torch.tensor([[0.0, 1.0, 3.0, -0.5, 3.5]], dtype=torch.float64, requires_grad=True)
    expected = {"constant": [1, 2, 4, 0, 0], "nearest": [1, 2, 4, 0, 0], "mirror": [1, 2, 4, -1, -4]}
    for mode, slopes in expected.items():
        (found,) = torch.autograd.grad(ndimage.map_coordinates(x, at, order=1, mode=mode).sum(), at)
        assert found.tolist() == [slopes]


def test_what_is_not_a_number_stays_alone():
    x = random(5).requires_grad_()
    at = torch.tensor([[1.5, torch.nan, torch.inf]], dtype=torch.float64)
    for mode in MODES:
        found = ndimage.map_coordinates(x, at, mode=mode)
        assert found.isnan().tolist()[:2] == [False, True]
        (gradient,) = torch.autograd.grad(found[0], x)
        assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.uint8])
def test_dtypes_of_interpolation(dtype):
    x = (60 * random(4, 5).abs()).to(dtype)
    at = points((4, 5)).float()
    found = ndimage.map_coordinates(x, at, mode="mirror")
    expected = scipy.ndimage.map_coordinates(x.double().numpy(), at.numpy(), mode="mirror")
    whole = scipy.ndimage.map_coordinates(x.numpy(), at.numpy(), mode="mirror") if not dtype.is_floating_point else None
    assert found.dtype == dtype
    torch.testing.assert_close(found, torch.from_numpy(expected if whole is None else whole).to(dtype), rtol=0, atol=0)
    assert ndimage.map_coordinates(x, at, torch.float64).dtype == ndimage.map_coordinates(x, at, np.double).dtype


def test_many_points_are_shared_among_threads():
    x, at = random(5, 6).requires_grad_(), points((5, 6), 4000)
    whole = ndimage.map_coordinates(x, at, mode="mirror")
    parts = torch.cat([ndimage.map_coordinates(x, part, mode="mirror") for part in at.split(1000, 1)])
    torch.testing.assert_close(whole, parts, rtol=0, atol=0)
    weights = random(len(whole))
    torch.testing.assert_close(torch.autograd.grad(whole, x, weights), torch.autograd.grad(parts, x, weights))


@pytest.mark.slow
def test_interpolation_is_mapped_and_compiled():
    images, at = random(3, 4, 5), points((4, 5), 5).expand(3, -1, -1)
    function = lambda x, at: ndimage.map_coordinates(x, at, order=2, mode="wrap").sin()  # noqa: E731
    expected = torch.stack([function(x, c) for x, c in zip(images, at, strict=True)])
    torch.testing.assert_close(torch.vmap(function)(images, at), expected)
    torch.testing.assert_close(torch.vmap(function, (0, None))(images, at[0]), expected)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    image = images[0].clone().requires_grad_()
    torch.testing.assert_close(compiled(image, at[0]), expected[0])
    gradients = [torch.autograd.grad(f(image, at[0]).sum(), image)[0] for f in (compiled, function)]
    torch.testing.assert_close(*gradients)
    torch.testing.assert_close(torch.func.jacfwd(function)(image, at[0]), torch.func.jacrev(function)(image, at[0]))


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"order": 6}, RuntimeError, "spline order not supported"),
        ({"mode": "around"}, RuntimeError, "boundary mode not supported"),
        ({"coordinates": torch.zeros(3, 4)}, tg.ShapeError, "invalid shape for coordinate array"),
        ({"coordinates": torch.zeros(2)}, tg.ShapeError, "invalid shape for coordinate array"),
        ({"coordinates": [[0.5], [0.5]]}, tg.ArgumentError, "torch.as_tensor"),
        ({"coordinates": torch.zeros(2, 4, dtype=torch.complex64)}, tg.DtypeError, "complex64"),
        ({"output": torch.zeros(4)}, tg.ArgumentError, "an output to write into"),
        ({"output": "no dtype"}, tg.ArgumentError, "is no dtype"),
        ({"output": ">f8"}, tg.ArgumentError, "is no dtype"),
        ({"coordinates": [torch.zeros(2), torch.zeros(3)]}, tg.ShapeError, "several shapes"),
        ({"cval": torch.tensor(1.0, requires_grad=True)}, tg.ArgumentError, "no real number"),
        ({"mode": ["wrap"]}, RuntimeError, "boundary mode not supported"),
        ({"output": torch.bool}, tg.DtypeError, "floating or integer"),
        ({"input": torch.zeros(4, 4, device="meta")}, tg.DeviceError, "CPU"),
    ],
)
def test_wrong_interpolation_is_refused(arguments, error, said):
    with pytest.raises(error, match=said):
        ndimage.map_coordinates(**{"input": torch.zeros(4, 4), "coordinates": torch.zeros(2, 3)} | arguments)


# -- smoothing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int32, torch.uint8])
@pytest.mark.parametrize("mode", MODES)
def test_smoothed_values_are_scipys(mode, dtype):
    for shape in [(1,), (2,), (20,), (4, 5), (3, 1, 4)]:
        x = (100 * random(*shape).abs()).to(dtype)
        for settings in (
            {"sigma": 1.3},
            {"sigma": 3, "order": 2, "output": np.float32},
            {"sigma": 0.4, "radius": 9, "cval": 2.5},
            {"sigma": [0.7, 0, 2.1][: len(shape)], "order": [0, 1, 3][: len(shape)], "truncate": 2.5},
            {"sigma": 1, "axes": -1, "output": "float64"},
        ):
            expected = scipy.ndimage.gaussian_filter(x.numpy(), mode=mode, **settings)
            found = ndimage.gaussian_filter(x, mode=mode, **settings)
            torch.testing.assert_close(found, torch.from_numpy(expected), rtol=0, atol=0)


@pytest.mark.slow
@modes_and(range(3), 0)
def test_derivatives_of_smoothing(mode, order):
    x, sigma = random(2, 5).requires_grad_(), torch.tensor([0.6, 1.4], dtype=torch.float64, requires_grad=True)
    function = lambda x, sigma: ndimage.gaussian_filter(x, sigma, order, mode=mode, cval=1.5)  # noqa: E731
    assert torch.autograd.gradcheck(function, (x, sigma))
    assert torch.autograd.gradgradcheck(function, (x, sigma))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("sigma", [0.0, -1.0])
def test_axes_without_a_width_stay_as_they_are(sigma, order):
    """They take no part in the steps in integers, and nothing depends on their width."""
    image = 3 * random(4, 5)
    found = ndimage.gaussian_filter(image, (sigma, 1.5), order, torch.int32, axes=(0, np.int64(1)))
    expected = scipy.ndimage.gaussian_filter(image.numpy(), (sigma, 1.5), order, np.int32)
    assert found.tolist() == expected.tolist()
    width = torch.tensor(sigma, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(ndimage.gaussian_filter(image, width, order, radius=2).square().sum(), width)
    assert slope == 0


def test_a_mapped_width_needs_a_radius():
    with pytest.raises(tg.UnsupportedError, match="pass radius"):
        torch.vmap(lambda sigma: ndimage.gaussian_filter(torch.ones(4), sigma))(torch.ones(2))


@pytest.mark.slow
def test_smoothing_is_mapped_and_compiled():
    images, sigmas = random(3, 4, 5), torch.tensor([0.5, 1.0, 2.0])
    function = lambda x, sigma: ndimage.gaussian_filter(x, sigma, radius=3).sin()  # noqa: E731
    expected = torch.stack([function(x, sigma) for x, sigma in zip(images, sigmas, strict=True)])
    torch.testing.assert_close(torch.vmap(function)(images, sigmas), expected)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    image, sigma = images[0].clone().requires_grad_(), sigmas[0].clone().requires_grad_()
    torch.testing.assert_close(compiled(image, sigma), expected[0])
    found, wanted = (torch.autograd.grad(f(image, sigma).sum(), (image, sigma)) for f in (compiled, function))
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(torch.func.jacfwd(function)(image, sigma), torch.func.jacrev(function)(image, sigma))
    free = lambda sigma: ndimage.gaussian_filter(image, sigma, truncate=3.0).square().sum()  # noqa: E731
    fixed = lambda sigma: ndimage.gaussian_filter(image, sigma, radius=2).square().sum()  # noqa: E731
    torch.testing.assert_close(torch.func.hessian(free)(sigma), torch.func.hessian(fixed)(sigma))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_smoothed_in_more_digits(dtype):
    x = random(6, 6).to(dtype)
    torch.testing.assert_close(ndimage.gaussian_filter(x, 1), ndimage.gaussian_filter(x.float(), 1).to(dtype))


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"sigma": [1, 2, 3]}, ValueError, "sequence argument must have length"),
        ({"order": -1}, ValueError, "order must be non-negative"),
        ({"radius": -1}, ValueError, "nonnegative integer"),
        ({"radius": 1.5}, ValueError, "nonnegative integer"),
        ({"truncate": -2}, ValueError, "nonnegative integer"),
        ({"truncate": np.inf}, ValueError, "nonnegative integer"),
        ({"sigma": np.nan, "radius": 1}, ValueError, "no finite number"),
        ({"sigma": torch.ones(2, 1)}, tg.ShapeError, "several widths"),
        ({"sigma": None}, tg.ArgumentError, "no real number"),
        ({"order": None}, ValueError, "order must be non-negative"),
        ({"axes": 1.0}, ValueError, "axes must be unique, and exist"),
        ({"cval": torch.tensor(1.0, requires_grad=True)}, tg.ArgumentError, "no real number"),
        ({"mode": ["wrap", ["wrap"]]}, RuntimeError, "boundary mode not supported"),
        ({"axes": (0, 0)}, ValueError, "axes must be unique"),
        ({"axes": 2}, ValueError, "axes must be unique, and exist"),
        ({"mode": "around"}, RuntimeError, "boundary mode not supported"),
        ({"output": np.zeros((4, 4))}, tg.ArgumentError, "an output to write into"),
        ({"input": np.zeros((4, 4))}, tg.ArgumentError, "is no tensor"),
        ({"input": torch.zeros(4, 4, dtype=torch.bool)}, tg.DtypeError, "torch.bool"),
    ],
)
def test_wrong_smoothing_is_refused(arguments, error, said):
    with pytest.raises(error, match=said):
        ndimage.gaussian_filter(**{"input": torch.zeros(4, 4), "sigma": 1.0} | arguments)


# -- both -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["map_coordinates", "gaussian_filter"])
def test_examples_print_what_they_say(name):
    function, runner = getattr(ndimage, name), doctest.DocTestRunner(verbose=False)
    names = {"torch": torch} | vars(ndimage)
    example = doctest.DocTestParser().get_doctest(function.__doc__, names, name, None, 0)
    assert example.examples
    assert runner.run(example).failed == 0
