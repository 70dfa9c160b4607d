"""Finding.plot(): the same pictures by matplotlib."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from torchgraft._check.finding import Evidence, Finding, Verdict
from torchgraft._check.report.picture import maps
from torchgraft._check.report.trace import trace

from . import made

ROOT = Path(__file__).parents[2]

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _without_a_display(monkeypatch):
    matplotlib.use("agg")


def render(figure):
    """Draw it truly: the canvas of a closed figure does nothing when it is told to draw."""
    figure.savefig(io.BytesIO(), format="png")


def pictures(figure):
    """The axes that are no colour bars."""
    return [at for at in figure.axes if at.get_label() != "<colorbar>"]


@pytest.mark.parametrize("finding", [made.sign(), made.constant(), made.conjugate(), made.one_entry()])
def test_it_draws_the_maps_and_the_ladder(finding):
    figure = finding.plot()
    render(figure)
    analytic, numeric, ratio, ladder = pictures(figure)
    shown = maps(finding.evidence)
    for at, one in zip((analytic, numeric, ratio), shown.maps, strict=True):
        (image,) = at.get_images()
        np.testing.assert_array_equal(image.get_array().filled(np.nan), np.array(one.values))
        assert at.get_title() == one.title
        assert image.get_clim() == pytest.approx((one.center - one.limit, one.center + one.limit))
    assert len(ratio.patches) == len(shown.wrong)
    assert ladder.get_yscale() == "asinh"
    points = ladder.containers[0].lines[0].get_xydata()
    np.testing.assert_allclose(points[:, 1], trace(finding.evidence).offsets)
    assert {at.get_xlabel() for at in (analytic, numeric, ratio)} == {"inputs"}


def test_numbers_are_in_small_maps_only():
    texts = [text.get_text() for text in pictures(made.sign().plot())[0].texts]
    assert texts[:2] == ["\N{MINUS SIGN}0.878", "0"]
    assert len(texts) == 16
    assert len(pictures(made.one_entry().plot())[0].texts) == 0


def test_nothing_to_draw():
    assert made.leak().plot() is None
    assert made.leak().but(evidence=Evidence(torch.zeros(0, 1), torch.zeros(0, 1))).plot() is None


def test_one_of_both():
    evidence = made.sign().evidence
    assert len(pictures(made.sign().but(evidence=Evidence(evidence.analytic, evidence.numeric)).plot())) == 3
    fields = vars(evidence) | {"analytic": torch.zeros(0, 1), "numeric": torch.zeros(0, 1), "estimate": None}
    assert len(pictures(made.sign().but(evidence=Evidence(**fields)).plot())) == 1


def test_infinite_errors_are_drawn():
    fields = vars(made.sign().evidence) | {"bars": (float("inf"),) * len(made.STEPS)}
    render(made.sign().but(evidence=Evidence(**fields)).plot())


def test_dollars_and_control_characters_are_text():
    evidence = Evidence(torch.eye(1), torch.eye(1), outputs=(("a$b", ()),), inputs=(("$\\frac", ()),))
    figure = Finding("c", Verdict.FAIL, "cost $\\frac$ \x1b", evidence=evidence).plot()
    render(figure)
    assert r"\x1b" in figure.get_suptitle()


def test_title_and_cause_have_lines_of_their_own():
    finding = made.sign().but(title="The gradient of `x` is wrong", cause="it has the wrong sign")
    assert finding.plot().get_suptitle() == "The gradient of x is wrong\nit has the wrong sign"


def test_no_figure_stays_open():
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    made.sign().plot()
    assert pyplot.get_fignums() == before


def test_without_matplotlib_it_says_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from tests.check import made\n"
        "assert made.leak().plot() is None\n"
        "try: made.sign().plot()\n"
        "except ModuleNotFoundError as error: print(*error.__notes__)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "pip install 'torchgraft[report]'" in out.stdout
