"""Pictures: the wrong entries, ratios, names, the ladder; and figures that matplotlib draws of them."""

import base64
import itertools
import math
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch

import torchgraft as tg
from torchgraft._check.evidence import Evidence
from torchgraft._check.finding import Finding, Verdict
from torchgraft._check.report.plot import MOST, entry_names, heat_maps, illustrations, step_name, trace

from .. import fresh
from ..default import by_default
from . import made

ROOT = Path(__file__).parents[2]
inf, nan = math.inf, math.nan

matplotlib = pytest.importorskip("matplotlib")


def matrix(*rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=dtype)


def wrong(found):
    return {(row, column) for row, column in np.argwhere(found.wrong).tolist()}


# -- the maps ---------------------------------------------------------------------------------------------------


def test_both_sides_have_one_scale():
    analytic, numeric, _ = heat_maps(Evidence(matrix([1.0, 0.5]), matrix([-4.0, 0.5]))).maps
    assert (analytic.values.tolist(), numeric.values.tolist()) == ([[1.0, 0.5]], [[-4.0, 0.5]])
    assert (analytic.center, analytic.limit) == (numeric.center, numeric.limit) == (0.0, 4.0)


def test_ratios_without_a_number_are_marked():
    found = heat_maps(Evidence(matrix([0.0, -5.0, nan, inf, 1.0, 3.0]), matrix([0.0, 0.0, 1.0, 1.0, nan, 2.0])))
    ratio = found.maps[2]
    assert ratio.marks.tolist() == [["0/0", "x/0", "nan", "inf", "nan", ""]]
    assert ratio.values[0, [0, 1, 5]].tolist() == [1.0, 1.0 - ratio.limit, 1.5]


def test_wrong_is_what_the_estimate_does_not_explain():
    right = matrix([1.0, 1.0, 1.0, 0.0])
    found = heat_maps(Evidence(right + matrix([3e-6, 5e-6, 0.0, 1e-9]), right, matrix([1e-6, 1e-6, 0.0, 0.0])))
    assert wrong(found) == {(0, 1), (0, 3)}
    assert found.caption == "2 of 4 entries deviate by more than numerics explain (framed)."


def test_without_an_estimate_nothing_is_called_wrong():
    found = heat_maps(Evidence(matrix([2.0]), matrix([1.0])))
    assert (wrong(found), found.caption) == (set(), "")


def test_nan_is_wrong():
    assert wrong(heat_maps(Evidence(matrix([nan, 1.0]), matrix([1.0, 1.0]), matrix([0.1, 0.1])))) == {(0, 0)}


def test_right_entries_do_not_stretch_the_scale_of_ratios():
    found = heat_maps(Evidence(matrix([1.5, 1.0001]), matrix([1.0, 1.0]), matrix([0.2, 1e-9])))
    assert wrong(found) == {(0, 1)}
    assert found.maps[2].ends == ("1 - 0.0001", "1 + 0.0001")


def test_far_ratios_are_cut_off():
    ratio = heat_maps(Evidence(matrix([64.0, 1.0]), matrix([1.0, 1.0]))).maps[2]
    assert (ratio.ends, ratio.values.tolist()) == (("-1", "3"), [[64.0, 1.0]])


def test_entries_without_a_numeric_derivative_are_unknown():
    found = heat_maps(Evidence(matrix([5.0, 2.0]), matrix([1.0, 1.0]), matrix([inf, 0.0])))
    assert wrong(found) == {(0, 1)}
    assert [one.marks.tolist() for one in found.maps] == [[["", ""]], [["?", ""]], [["?", ""]]]
    assert found.maps[0].limit == 5.0
    assert found.caption.endswith("1 without a derivative that differences can tell (?).")


def test_large_jacobians_are_shown_around_the_largest_deviation():
    finding = made.one_entry()
    found = heat_maps(finding.evidence)
    assert (len(found.rows), len(found.columns)) == (MOST, MOST)
    ((row, column),) = wrong(found)
    assert (found.rows[row], found.columns[column]) == ("out[33]", "weight[5, 1]")
    assert found.maps[0].values[row, column] == finding.analytic[33, 51].item()
    assert "1 of 2400 entries deviates" in found.caption
    assert "32 x 32 of 40 x 60" in found.caption
    assert "rows from 8, columns from 28" in found.caption


class Square(torch.autograd.Function):
    """The square of a complex number, whose backward does not conjugate."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z * z

    @staticmethod
    def backward(ctx, grad):
        (z,) = ctx.saved_tensors
        return grad * 2 * z


def test_a_complex_number_has_two_columns():
    z = torch.tensor([1 + 1j, 0.5 - 2j], dtype=torch.complex128)
    (finding,) = tg.check(Square.apply, z, only=["gradient"]).findings
    found = heat_maps(finding.evidence)
    assert found.columns == ["z[0, 0]", "z[0, 1]"]
    assert found.rows == ["output[0, 0]", "output[0, 1]"]
    assert wrong(found) == {(0, 1), (1, 0)}


@pytest.mark.parametrize("fill", [0.0, nan, inf])
def test_uniform_jacobians_have_maps(fill):
    found = heat_maps(Evidence(torch.full((2, 2), fill), torch.full((2, 2), fill), torch.zeros(2, 2)))
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
    found = heat_maps(Evidence(*(matrix(side) for side in values)))
    assert tuple(one.text(0, 0, 6) for one in found.maps) == text


def test_numbers_that_do_not_fit_are_left_out():
    assert heat_maps(Evidence(matrix([-1.5e-10]), matrix([1.0]))).maps[0].text(0, 0, 3) == ""


def test_rows_and_columns_have_names():
    blocks = (("x", (2, 2)), ("n", ()))
    assert entry_names(blocks, 5) == ["x[0, 0]", "x[0, 1]", "x[1, 0]", "x[1, 1]", "n"]
    assert entry_names((), 2) == ["0", "1"]
    assert entry_names(blocks, 3) == ["0", "1", "2"]


# -- the ladder -------------------------------------------------------------------------------------------------


def ladder(values, bars, **fields):
    places = tuple(2.0**-k for k in range(len(values)))
    return Evidence(torch.zeros(0, 1), torch.zeros(0, 1), steps=places, ladder=values, bars=bars, **fields)


def test_distances_from_the_step_that_was_used():
    found = trace(ladder((1.5, 1.25, 1.0), (0.5, 0.25, 0.125), chosen=1, along=-1.25))
    assert found.offsets == [0.25, 0.0, -0.25]
    assert (found.chosen, found.along, found.linear) == (1, -2.5, 0.25)
    assert "2⁻¹ give 1.25 (error at most about 0.25); the derivative under test gives -1.25." in found.caption


@pytest.mark.parametrize("along", [None, nan])
def test_without_a_derivative_under_test(along):
    assert trace(ladder((1.5, 1.25), (0.5, 0.125), chosen=0, along=along)).along is None


def test_steps_without_an_estimate_are_not_drawn():
    given = ladder((nan, 1.5, 1.25), (0.1, inf, nan), chosen=1)
    found = trace(given)
    assert found.bars == [0.1, inf, inf]
    (at,) = pictures(made.leak().but(evidence=given).plot())
    points = at.containers[0].lines[0].get_xydata()
    assert points[np.isfinite(points).all(axis=1)].tolist() == [[0.5, 0.0], [0.25, -0.25]]


@pytest.mark.parametrize("found", [{}, {"values": (nan, 1.0), "chosen": 0}], ids=["none", "nan was chosen"])
def test_no_ladder(found):
    assert trace(ladder(**{"values": (1.0, 1.0), "bars": (1.0, 1.0)} | found)) is None


LADDERS = itertools.product([(0.0, 0.0), (1e300, 1e300), (1.0, 1.0), (5e-324, 0.0), (1.0,)], [0.0, inf, 1e-16])


@pytest.mark.parametrize(("values", "bar"), by_default(LADDERS, lambda values, bar: not bar or values == (1.0, 1.0)))
def test_any_ladder_is_drawn(values, bar):
    given = ladder(values, (bar,) * len(values), chosen=0, along=2 * values[0])
    found = trace(given)
    assert 0 < found.linear < found.reach < inf
    assert abs(found.along) < found.reach
    ((_, [(_, source)]),) = illustrations(given)
    assert "under test" in svg(source)


@pytest.mark.parametrize(("step", "text"), [(0.125, "2⁻³"), (1.0, "2⁰"), (0.1, "0.1")])
def test_steps_have_names(step, text):
    assert step_name(step) == text


# -- the figure -------------------------------------------------------------------------------------------------


def svg(source):
    kind, _, data = source.partition("base64,")
    assert kind == "data:image/svg+xml;"
    text = base64.b64decode(data).decode()
    ElementTree.fromstring(text)
    return text


def pictures(figure):
    """The axes that are no colour bars."""
    return [at for at in figure.axes if at.get_label() != "<colorbar>"]


@pytest.mark.slow
@pytest.mark.parametrize("finding", [made.sign(), made.constant(), made.conjugate(), made.one_entry()])
def test_it_draws_the_maps_and_the_ladder(finding):
    analytic, numeric, ratio, steps = pictures(finding.plot())
    shown = heat_maps(finding.evidence)
    for at, one in zip((analytic, numeric, ratio), shown.maps, strict=True):
        (image,) = at.get_images()
        np.testing.assert_array_equal(image.get_array().filled(np.nan), one.values)
        assert at.get_title() == one.title
        assert image.get_clim() == pytest.approx((one.center - one.limit, one.center + one.limit))
    assert len(ratio.patches) == shown.wrong.sum() > 0
    assert len(analytic.patches) == 0
    expected = trace(finding.evidence)
    points = steps.containers[0].lines[0].get_xydata()
    np.testing.assert_allclose(points, np.transpose([expected.steps, expected.offsets]))
    (used,) = [line for line in steps.get_lines() if line.get_label() == "step used"]
    np.testing.assert_allclose(used.get_xydata(), points[[expected.chosen]])


@pytest.mark.slow
def test_numbers_are_in_small_maps_only():
    texts = [text.get_text() for text in pictures(made.sign().plot())[0].texts]
    assert texts[:2] == ["\N{MINUS SIGN}0.878", "0"]
    assert len(texts) == 16
    assert len(pictures(made.one_entry().plot())[0].texts) == 0


def test_nothing_to_draw():
    assert made.leak().plot() is None
    assert made.leak().but(evidence=Evidence(torch.zeros(0, 1), torch.zeros(0, 1))).plot() is None


@pytest.mark.slow
def test_infinite_errors_are_drawn():
    given = vars(made.sign().evidence) | {"bars": (inf,) * len(made.STEPS)}
    assert len(pictures(made.sign().but(evidence=Evidence(**given)).plot())) == 4


@pytest.mark.slow
def test_dollars_and_control_characters_and_other_letters_are_text():
    evidence = Evidence(torch.eye(1), torch.eye(1), outputs=(("a$b", ()),), inputs=(("$\\frac<", ()),))
    figure = Finding("c", Verdict.FAIL, "cost $\\frac$ \x1b\N{CJK UNIFIED IDEOGRAPH-4E2D}", evidence=evidence).plot()
    assert r"\x1b" in figure.get_suptitle()
    assert figure._repr_png_().startswith(b"\x89PNG")
    ((_, [(_, source), *_]),) = illustrations(evidence)
    assert "$\\frac&lt;" in svg(source)


@pytest.mark.slow
def test_title_and_cause_have_lines_of_their_own():
    finding = made.sign().but(title="The gradient of `x` is wrong", cause="it has the wrong sign")
    assert finding.plot().get_suptitle() == "The gradient of x is wrong\nit has the wrong sign"


@pytest.mark.slow
def test_the_pictures_are_the_same_each_time_and_with_any_style():
    first = list(illustrations(made.sign().evidence))
    with matplotlib.style.context("dark_background"), matplotlib.rc_context({"font.size": 20, "svg.hashsalt": None}):
        again = list(illustrations(made.sign().evidence))
    assert first == again
    assert "://matplotlib" not in svg(first[0][1][0][1])


def run(code):
    return fresh.run("-c", code, cwd=ROOT, check=True).stdout


@pytest.mark.slow
def test_notebooks_show_it_without_pyplot():
    code = "import sys; from tests.check import made; print(made.sign().plot()._repr_png_()[:4], *sys.modules)"
    shown, *modules = run(code).split()
    assert shown == r"b'\x89PNG'"
    assert "matplotlib.figure" in modules
    assert "matplotlib.pyplot" not in modules


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert made.leak().plot() is None
    with pytest.raises(ModuleNotFoundError) as caught:
        made.sign().plot()
    assert any("pip install 'torchgraft[report]'" in note for note in caught.value.__notes__)
