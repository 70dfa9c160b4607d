"""Derivatives along a line, and what is said of where there is none."""

import math

import pytest
import torch

from torchgraft._check.numeric import ladder as ladders
from torchgraft._check.numeric.ladder import Rough, climb
from torchgraft._check.numeric.vectors import GRIDS

GRID = GRIDS[torch.float64]
POINTS = torch.tensor([0.3125, -1.25, 2.0], dtype=torch.float64)


def ladder(function, x=POINTS, noise=None, grid=GRID):
    center = function(x)
    noise = grid.epsilon * center.abs().nan_to_num() if noise is None else torch.full_like(center, noise)
    return climb(lambda h: function(x + h), center, noise, grid)


SMOOTH = {
    "sin": (torch.sin, torch.cos),
    "exp": (torch.exp, torch.exp),
    "steep": (lambda x: (20 * x).sin(), lambda x: 20 * (20 * x).cos()),
    "linear": (lambda x: 3 * x + 1, lambda x: 3 + 0 * x),
    "constant": (lambda x: 0 * x + 5, lambda x: 0 * x),
    "odd": (lambda x: (x - POINTS) ** 3, lambda x: 0 * x),
    "even": (lambda x: (x - POINTS) ** 2 + 7, lambda x: 0 * x),
    "small": (lambda x: 1e-12 * x.sin(), lambda x: 1e-12 * x.cos()),
    "pole": (lambda x: 1 / (x - 0.3225), lambda x: -1 / (x - 0.3225) ** 2),
}


def test_a_square_at_zero_is_measured_by_the_values_beside_it():
    found = ladder(lambda x: (x - POINTS) ** 2, noise=1e-30)
    assert found.known.all()
    assert not found.derivative.any()


def test_pieces_give_what_the_whole_gives(monkeypatch):
    x = torch.linspace(-2, 2, 50, dtype=torch.float64)
    whole = ladder(lambda x: (20 * x).sin().abs(), x)
    monkeypatch.setattr(ladders, "PIECE", 7)
    pieces = ladder(lambda x: (20 * x).sin().abs(), x)
    for one, other in zip(vars(whole).values(), vars(pieces).values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions(name):
    function, derivative = SMOOTH[name]
    found = ladder(function)
    deviation = (found.derivative - derivative(POINTS)).abs()
    assert found.known.all()
    assert (deviation <= 4 * found.error + 1e-300).all()
    assert (found.error <= 1e-6 * (derivative(POINTS).abs() + function(POINTS).abs())).all()


def test_errors_are_of_each_element():
    function = lambda x: torch.stack([x[0].sin(), 1e9 * x[0].cos(), 1e-9 * (9 * x[0]).sin()])  # noqa: E731
    found = ladder(function, noise=0.0)
    expected = torch.stack([POINTS[0].cos(), -1e9 * POINTS[0].sin(), 9e-9 * (9 * POINTS[0]).cos()])
    assert ((found.derivative - expected) / expected).abs().max() < 1e-9


def test_noise_is_part_of_the_error():
    generator = torch.Generator().manual_seed(0)
    jitter = lambda x: x.sin() + 1e-7 * torch.randn(3, generator=generator, dtype=torch.float64)  # noqa: E731
    found = ladder(jitter, noise=1e-7)
    deviation = (found.derivative - POINTS.cos()).abs()
    assert (deviation <= 4 * found.error).all()
    assert (found.error > 1e-7).all()
    assert (found.error < 1e-4).all()


def test_a_kink_at_the_point_is_seen():
    found = ladder(lambda x: torch.stack([(x[0] - 0.3125).abs(), x[0].relu(), (x[0] - 0.3125).relu() + x[0].sin()]))
    assert found.kinked.tolist() == [True, False, True]
    assert found.known.tolist() == [False, True, False]


def test_a_jump_at_the_point_is_seen():
    found = ladder(lambda x: torch.stack([(x[0] > 0.3125).double(), (x[0] - 0.3125).sign(), (x[0] >= 0.3125) + x[0]]))
    assert not found.known.any()


def test_a_root_at_the_point_is_seen():
    found = ladder(
        lambda x: torch.stack([(x[0] - 0.3125).abs().sqrt(), (x[0] - 0.3125).sign() * (x[0] - 0.3125).abs().sqrt()])
    )
    assert not found.known.any()


@pytest.mark.parametrize("distance", [0.1, 0.05, 0.011, 0.003])
def test_a_kink_or_a_jump_elsewhere_spoils_nothing(distance):
    edge = 0.3125 + distance
    found = ladder(lambda x: x[0].sin() + torch.stack([5 * (x[0] - edge).relu(), 5.0 * (x[0] > edge)]))
    assert found.known.all()
    assert ((found.derivative - math.cos(0.3125)).abs() <= 4 * found.error).all()
    assert found.error.max() < 1e-6


def test_stairs_are_no_slope():
    found = ladder(lambda x: torch.round(100 * x) / 100)
    assert (found.derivative.abs() <= 4 * found.error)[found.known].all()
    fine = ladder(lambda x: torch.round(2.0**14 * x) / 2.0**14)
    assert not fine.known.any() or (fine.derivative.abs() <= 4 * fine.error)[fine.known].all()


@pytest.mark.parametrize("pitch", [42169.65034285822, 133352.1432163324])
def test_stairs_about_as_fine_as_the_smallest_steps(pitch):
    x = torch.linspace(-2, 2, 200, dtype=torch.float64)
    found = ladder(lambda x: (pitch * x).round() / pitch, x, noise=1e-16 * pitch)
    assert (found.derivative.abs() <= 8 * found.error)[found.known].all()


@pytest.mark.parametrize("pitch", [1e4, 4.2e4, 1e5, 133352.14321633241, 4.2e5, 562341.3251903491, 1e7])
def test_waves_finer_than_the_steps_are_not_taken_for_a_slope(pitch):
    x = torch.linspace(-2, 2, 200, dtype=torch.float64)
    found = ladder(lambda x: torch.sin(pitch * x) + x, x)
    wrong = (found.derivative - pitch * (pitch * x).cos() - 1).abs() > 4 * found.error + 1e-3 * pitch
    assert not (wrong & found.known).any()


def test_the_end_of_a_domain_shortens_the_steps():
    found = ladder(torch.log, torch.tensor([1e-3, 0.01, 0.7], dtype=torch.float64))
    assert found.known.all()
    assert ((found.derivative * torch.tensor([1e-3, 0.01, 0.7]) - 1).abs() < 1e-6).all()

    def strict(x):
        if (x < 0.69).any():
            raise ValueError("outside")
        return x.log()

    found = ladder(strict, torch.tensor([0.7], dtype=torch.float64))
    assert found.steps[0] < 0.01
    assert abs(found.derivative - 1 / 0.7) <= 4 * found.error


def test_where_a_value_is_not_finite_nothing_is_known():
    found = ladder(lambda x: torch.stack([x[0] * math.nan, x[0] * 0 + math.inf, x[0] ** 2]))
    assert found.known.tolist() == [False, False, True]


def test_a_function_that_only_raises_is_rough():
    def once(x):
        if x[0] != 0.3125:
            raise ValueError
        return x

    with pytest.raises(Rough):
        ladder(once)


def test_few_calls():
    calls = []
    climb(lambda h: calls.append(h) or (POINTS + h).sin(), POINTS.sin(), 1e-16 * POINTS.abs(), GRID)
    assert len(calls) <= 13


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_few_digits(dtype):
    grid = GRIDS[dtype]
    x = grid.snap(POINTS)
    function = lambda x: x.to(dtype).double().sin().to(dtype).double()  # noqa: E731
    found = ladder(function, x, grid=grid)
    deviation = (found.derivative - x.cos()).abs()
    assert (deviation[found.known] <= 4 * found.error[found.known]).all()
    assert dtype != torch.float32 or (found.known.all() and found.error.max() < 1e-4)


def test_a_second_ladder_that_disagrees_is_an_error():
    one, other = ladder(torch.sin), ladder(lambda x: x.sin() + torch.stack([0.1 * x[0], 0 * x[1], 0 * x[2]]))
    doubted = one.doubting(other)
    assert doubted.error[0] > 0.09
    assert doubted.error[1:].max() < 1e-9
    twice = one.scaled(2.0)
    assert torch.equal(twice.derivative, 2 * one.derivative)
    assert torch.equal(twice.error, 2 * one.error)
