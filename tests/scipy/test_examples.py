"""The examples on real data: their formulas against SciPy's, what learning promises, and what the page says of them."""

import importlib
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch

from examples.scipy import gaussian_process as gp
from examples.scipy import student_t as st

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/scipy.md").read_text()
SHOWN = dict(re.findall(r"^<!-- examples/scipy/(\w+)\.py -->\n```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
NAMES = sorted(path.stem for path in (ROOT / "examples/scipy").glob("[!_]*.py"))


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def run(name, *arguments):
    """What a program prints, as one that warns of nothing."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "error", ROOT / f"examples/scipy/{name}.py", *map(str, arguments)]
    made = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr) == (0, ""), made.stderr
    return made.stdout


# -- the Gaussian process -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nu", "closed"),
    [
        (0.5, lambda r: np.exp(-r)),
        (1.5, lambda r: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r)),
        (2.5, lambda r: (1 + 5**0.5 * r + 5 * r**2 / 3) * np.exp(-(5**0.5) * r)),
    ],
)
def test_the_covariance_is_the_elementary_one_at_half_integers(nu, closed):
    r = torch.cat([number([0.0]), torch.logspace(-8, 2, 50, dtype=torch.float64)])
    torch.testing.assert_close(gp.matern(r, number(nu)), torch.from_numpy(closed(r.numpy())), rtol=1e-11, atol=0)


@pytest.mark.parametrize("nu", [0.7, 1.7, 3.0, 12.3])
def test_the_covariance_has_its_derivatives_and_none_at_zero(nu):
    r, nu = number([0.1, 0.3, 2.0, 20.0]).requires_grad_(), number(nu).requires_grad_()
    assert torch.autograd.gradcheck(gp.matern, (r, nu))
    same = torch.zeros_like(r).requires_grad_()
    by_r, by_nu = torch.autograd.grad(gp.matern(same, nu).sum(), (same, nu))
    assert by_r.tolist() == [0.0] * 4
    assert by_nu == 0


@pytest.mark.slow
@pytest.mark.parametrize("data", [gp.diabetes, gp.terrain])
def test_learning_nu_finds_no_smaller_likelihood(data):
    x, y = data()
    train = torch.randperm(len(y), generator=torch.Generator().manual_seed(1))[:80]
    x, y = x[train], (y[train] - y[train].mean()) / y[train].std()
    theta, fixed = gp.fit(x, y, number([2.0, 1.0, 0.5, 2.5]), learned=False)
    assert theta[3] == pytest.approx(2.5, rel=1e-14, abs=0)
    learned_theta, learned = gp.fit(x, y, theta, learned=True)
    assert learned >= fixed
    assert abs(learned_theta[3] - 2.5) > 0.1


def test_a_prediction_is_what_conditioning_the_joint_distribution_gives():
    x, y = gp.terrain()
    x, y, theta = x[:7], y[:7] - y[:7].mean(), number([0.8, 20.0, 1.0, 1.7])
    made = gp.predict(x[:6], y[:6], x[6:], *theta)
    precision = gp.covariance(x, *theta).inverse()  # of the last, given the others
    torch.testing.assert_close(made.stddev, precision[6:, 6].rsqrt())
    torch.testing.assert_close(made.mean, -precision[6:, :6] @ y[:6] / precision[6, 6])


# -- Student's t ----------------------------------------------------------------------------------------------------


def test_the_log_density_is_that_of_scipy():
    z = torch.linspace(-30, 30, 61, dtype=torch.float64)
    for df in (0.3, 1.0, 2.09, 4.0, 300.0):
        expected = torch.from_numpy(scipy.stats.t.logpdf(z.numpy(), df))
        torch.testing.assert_close(st.log_density(z, number(df)), expected, rtol=1e-12, atol=1e-13)
    expected = torch.from_numpy(scipy.stats.norm.logpdf(z.numpy()))
    torch.testing.assert_close(st.log_density(z, number(math.inf)), expected)


def test_learning_the_degrees_of_freedom_finds_no_smaller_likelihood():
    x, y = st.nuclei()
    fixed, learned = (st.fit(x, y, 4.0, learned) for learned in (False, True))
    assert fixed[-1].exp() == pytest.approx(4)
    assert abs(learned[-1].exp() - 4) > 1
    assert st.log_likelihood(x, y, learned).sum() > st.log_likelihood(x, y, fixed).sum() + 1
    theta = learned.clone().requires_grad_()
    (slope,) = torch.autograd.grad(st.log_likelihood(x, y, theta).mean(), theta)
    assert slope.abs().max() < 1e-4


def test_without_end_to_the_degrees_of_freedom_it_is_least_squares():
    x, y = st.nuclei()
    theta = st.fit(x, y, math.inf, learned=False)
    residual = y - x @ torch.linalg.lstsq(x, y).solution
    torch.testing.assert_close(y - x @ theta[:-2], residual, rtol=0, atol=1e-5)
    torch.testing.assert_close(theta[-2].exp(), residual.square().mean().sqrt(), rtol=1e-4, atol=0)


# -- the programs ---------------------------------------------------------------------------------------------------


def close(shown, printed):
    """Whether two texts are the same but for one unit in the last digit of a number."""
    pattern = r"-?\d+(?:\.\d+)?"
    if re.sub(pattern, "", shown) != re.sub(pattern, "", printed):
        return False
    pairs = zip(re.findall(pattern, shown), re.findall(pattern, printed), strict=True)
    return all(abs(float(a) - float(b)) < 1.5 * 10.0 ** -len(a.partition(".")[2]) * ("." in a) + 1e-9 for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_what_is_printed(name, tmp_path):
    printed = run(name, tmp_path / "picture.png")
    assert close(SHOWN[name], printed), printed
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_shows_every_example_and_its_picture():
    assert sorted(SHOWN) == NAMES
    for name in NAMES:
        assert f"]({name}.png)" in PAGE
        assert (ROOT / f"docs/{name}.png").stat().st_size < 80_000


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("a 1.25 x 3\n", True), ("a 1.26 x 3\n", True), ("a 1.27 x 3\n", False), ("a 1.25 x 4\n", False),
     ("b 1.25 x 3\n", False)],
)  # fmt: skip
def test_another_number_is_found(printed, expected):
    assert close("a 1.25 x 3\n", printed) is expected


@pytest.mark.parametrize("name", NAMES)
def test_it_begins_by_saying_what_it_shows(name):
    first, second, third = (ROOT / f"examples/scipy/{name}.py").read_text().splitlines()[:3]
    assert first.startswith("# ")
    assert second.startswith("# ")
    assert not third.startswith("#")
    assert importlib.import_module(f"examples.scipy.{name}").special.__name__ == "torchgraft.scipy.special"
