"""What the pictures show: what is wrong, ratios, names, the ladder; and colours that everybody tells apart."""

import itertools
import math

import pytest
import torch

from torchgraft._check.colors import DARK, LEVELS, LIGHT, contrast, hexadecimal, ink, level, linear, oklab, scale
from torchgraft._check.finding import Evidence
from torchgraft._check.report.picture import MOST, maps
from torchgraft._check.report.trace import step_name, trace

from . import made

inf, nan = math.inf, math.nan


def matrix(*rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=dtype)


# -- the maps ---------------------------------------------------------------------------------------------------


def test_both_sides_have_one_scale():
    found = maps(Evidence(matrix([1.0, 0.5]), matrix([-4.0, 0.5])))
    analytic, numeric, _ = found.maps
    assert (analytic.values, numeric.values) == ([[1.0, 0.5]], [[-4.0, 0.5]])
    assert analytic.limit == numeric.limit == 4.0
    assert analytic.center == 0.0


def test_the_ratio():
    found = maps(Evidence(matrix([3.0, -1.0, 0.0]), matrix([2.0, 1.0, 4.0])))
    ratio = found.maps[2]
    assert ratio.values == [[1.5, -1.0, 0.0]]
    assert (ratio.center, ratio.limit, ratio.ends) == (1.0, 2.0, ("-1", "3"))


def test_ratios_without_a_number_are_marked():
    ratio = maps(Evidence(matrix([0.0, -5.0, nan, inf, 1.0]), matrix([0.0, 0.0, 1.0, 1.0, nan]))).maps[2]
    assert ratio.marks == {(0, 0): "0/0", (0, 1): "x/0", (0, 2): "nan", (0, 3): "inf", (0, 4): "nan"}
    assert ratio.values[0][0] == 1.0
    assert ratio.values[0][1] == 1.0 - ratio.limit


def test_wrong_is_what_the_estimate_does_not_explain():
    right = matrix([1.0, 1.0, 1.0, 0.0])
    wrong = right + matrix([3e-6, 5e-6, 0.0, 1e-9])
    found = maps(Evidence(wrong, right, matrix([1e-6, 1e-6, 0.0, 0.0])))
    assert found.wrong == {(0, 1), (0, 3)}
    assert found.caption == "2 of 4 entries deviate by more than numerics explain (framed)."


def test_without_an_estimate_nothing_is_called_wrong():
    found = maps(Evidence(matrix([2.0]), matrix([1.0])))
    assert found.wrong == frozenset()
    assert found.caption == ""


def test_nan_is_wrong():
    assert maps(Evidence(matrix([nan, 1.0]), matrix([1.0, 1.0]), matrix([0.1, 0.1]))).wrong == {(0, 0)}


def test_float32_has_its_own_precision():
    right = matrix([1.0])
    near = right.float() + 1e-5
    assert maps(Evidence(near, right, matrix([1e-12]))).wrong == frozenset()
    assert maps(Evidence(near.double(), right, matrix([1e-12]))).wrong == {(0, 0)}


def test_right_entries_do_not_stretch_the_scale_of_ratios():
    right = matrix([1.0, 1.0])
    found = maps(Evidence(matrix([1.5, 1.0001]), right, matrix([0.2, 1e-9])))
    assert found.wrong == {(0, 1)}
    assert found.maps[2].limit == pytest.approx(1e-4)
    assert found.maps[2].ends == ("1 - 0.0001", "1 + 0.0001")


def test_entries_without_a_numeric_derivative_are_unknown():
    found = maps(Evidence(matrix([5.0, 2.0]), matrix([1.0, 1.0]), matrix([inf, 0.0])))
    assert found.wrong == {(0, 1)}
    assert [one.marks for one in found.maps] == [{}, {(0, 0): "?"}, {(0, 0): "?"}]
    assert found.maps[0].limit == 5.0
    assert found.caption.endswith("1 without a derivative that differences can tell (?).")


def test_a_ratio_at_the_end_of_the_scale_is_not_beyond_it():
    ratio = maps(Evidence(matrix([-1.0 - 2**-52]), matrix([1.0]))).maps[2]
    assert ratio.ends == ("-1", "3")


def test_far_ratios_are_cut_off():
    ratio = maps(Evidence(matrix([64.0, 1.0]), matrix([1.0, 1.0]))).maps[2]
    assert ratio.ends == ("-1 or less", "3 or more")
    assert ratio.values == [[64.0, 1.0]]


def test_large_jacobians_are_shown_around_the_largest_deviation():
    finding = made.one_entry()
    found = maps(finding.evidence)
    assert (len(found.rows), len(found.columns)) == (MOST, MOST)
    ((row, column),) = found.wrong
    assert (found.rows[row], found.columns[column]) == ("out[33]", "weight[5, 1]")
    assert found.maps[0].values[row][column] == finding.analytic[33, 51].item()
    assert "1 of 2400 entries deviates" in found.caption
    assert "32 x 32 of 40 x 60" in found.caption


def test_a_complex_jacobian_has_two_columns_for_each_number():
    found = maps(made.conjugate().evidence)
    assert found.columns == ["z[0].real", "z[0].imag", "z[1].real", "z[1].imag"]
    assert found.maps[1].values == [[2.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, -4.0]]
    assert [found.maps[2].values[0][k] for k in (0, 1)] == [1.0, -1.0]
    assert found.wrong == {(0, 1), (1, 3)}


def test_nothing_to_show():
    assert maps(Evidence(torch.zeros(0, 3), torch.zeros(0, 3))) is None


@pytest.mark.parametrize("fill", [0.0, nan, inf])
def test_uniform_jacobians_have_maps(fill):
    found = maps(Evidence(torch.full((2, 2), fill), torch.full((2, 2), fill), torch.zeros(2, 2)))
    assert all(one.limit > 0 and math.isfinite(one.limit) for one in found.maps)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (([1 / 3], [1.0]), ("0.333", "1", "0.333")),
        (([-0.0], [1.0]), ("0", "1", "0")),
        (([1 + 3e-8], [1.0]), ("1", "1", "+3e-08")),
        (([0.0], [0.0]), ("0", "0", "0/0")),
        (([-1.234e-10], [1.0]), ("-1e-10", "1", "-1e-10")),
    ],
)
def test_numbers_in_cells_are_short(values, text):
    found = maps(Evidence(*(matrix(side) for side in values)))
    assert tuple(one.text((0, 0), 6) for one in found.maps) == text


def test_numbers_that_do_not_fit_are_left_out():
    assert maps(Evidence(matrix([-1.5e-10]), matrix([1.0]))).maps[0].text((0, 0), 3) is None


# -- the ladder -------------------------------------------------------------------------------------------------


def steps(ladder, bars, **fields):
    places = tuple(2.0**-k for k in range(len(ladder)))
    return trace(Evidence(matrix([1.0]), matrix([1.0]), steps=places, ladder=ladder, bars=bars, **fields))


def test_distances_from_the_step_that_was_used():
    found = steps((1.5, 1.25, 1.0), (0.5, 0.25, 0.125), chosen=1, along=-1.25)
    assert found.offsets == [0.25, 0.0, -0.25]
    assert (found.chosen, found.along, found.linear) == (1, -2.5, 0.25)
    assert "2⁻¹ give 1.25 (error at most about 0.25); the derivative under test gives -1.25." in found.caption


def test_without_a_choice_the_step_of_least_error_was_used():
    assert steps((1.5, 1.25, 1.0), (0.5, 0.125, 0.25)).chosen == 1


@pytest.mark.parametrize("along", [None, nan])
def test_without_a_derivative_under_test(along):
    assert steps((1.5, 1.25), (0.5, 0.125), along=along).along is None


def test_steps_without_an_estimate_are_left_out():
    found = steps((nan, 1.5, 1.25), (0.1, inf, nan), chosen=1)
    assert found.steps == [0.5, 0.25]
    assert found.bars == [inf, inf]
    assert found.chosen == 0


@pytest.mark.parametrize(
    "found", [((), ()), ((nan, nan), (1.0, 1.0)), ((nan, 1.0), (1.0, 1.0))], ids=["none", "nan", "chosen is nan"]
)
def test_no_ladder(found):
    assert steps(*found, chosen=0) is None


@pytest.mark.parametrize("ladder", [(0.0, 0.0), (1e300, 1e300), (1.0, 1.0), (5e-324, 0.0)])
@pytest.mark.parametrize("bars", [(0.0, 0.0), (inf, inf), (1e-16, 1e-12), ()])
def test_any_ladder_has_an_axis(ladder, bars):
    found = steps(ladder, bars, chosen=1, along=ladder[0])
    assert 0 < found.linear < found.reach < inf
    assert found.height(0) == 0
    assert found.height(found.reach) == pytest.approx(1)
    assert found.height(-inf) == -1
    assert len(found.exponents()) <= 4


def test_the_axis_is_logarithmic():
    found = steps((1 + 1e-2, 1.0, 1 + 1e-9), (1e-2, 1e-12, 1e-9), chosen=1, along=2.0)
    heights = [found.height(10.0**k) for k in (-9, -6, -3, 0)]
    gaps = [b - a for a, b in itertools.pairwise(heights)]
    assert gaps[0] > 0.1
    assert gaps == pytest.approx([gaps[0]] * 3, rel=1e-3)
    assert all(1e-12 < 10.0**k <= found.reach for k in found.exponents())


@pytest.mark.parametrize(("step", "text"), [(0.125, "2⁻³"), (1.0, "2⁰"), (0.1, "0.1")])
def test_steps_have_names(step, text):
    assert step_name(step) == text


# -- the colours ------------------------------------------------------------------------------------------------

each_theme = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])

# What people see who lack one kind of cone: G. M. Machado et al., "A physiologically-based model for simulation of
# color vision deficiency", 2009, table 1, severity 1, for linear sRGB.
CONES = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def seen(color, cones):
    light = linear(color)
    channels = [min(1, max(0, sum(a * b for a, b in zip(row, light, strict=True)))) for row in cones]
    coded = [12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in channels]
    return "#" + "".join(f"{round(255 * c):02x}" for c in coded)


@each_theme
@pytest.mark.parametrize("cones", CONES.values(), ids=CONES)
def test_signs_are_told_apart_with_any_colour_vision(theme, cones):
    colors = scale(theme)
    for step in range(LEVELS // 3, LEVELS + 1):
        first, second = (oklab(seen(colors[sign * step], cones)) for sign in (-1, 1))
        assert math.dist(first, second) > 0.08  # 0.02 is a difference that is just seen


@each_theme
def test_text_is_legible_on_every_colour(theme):
    assert all(contrast(color, ink(color)) >= 4.5 for color in scale(theme).values())


@each_theme
def test_colours_grow_away_from_zero(theme):
    colors = scale(theme)
    assert list(colors) == list(range(-LEVELS, LEVELS + 1))
    for sign in (-1, 1):
        light = [oklab(colors[sign * step])[0] for step in range(LEVELS + 1)]
        assert light == sorted(light, reverse=theme is LIGHT)


@pytest.mark.parametrize("color", ["#000000", "#ffffff", "#134b86", "#dd8438"])
def test_colours_survive_the_way_through_oklab(color):
    assert hexadecimal(oklab(color)) == color


def test_known_contrasts():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # the usual example of "just not enough"


@pytest.mark.parametrize(("value", "step"), [(0.0, 0), (2.0, LEVELS), (-1.0, -LEVELS), (0.5, 8), (1e-9, 0)])
def test_levels(value, step):
    assert level(value, 1.0) == step
    assert level(value, 0.0) == 0
