"""The three examples against PyTorch's own functions, and every example file as a program."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import scipy.signal
import scipy.special
import scipy.stats
import torch
from torch.nn import functional

import torchgraft as tg
from examples import mesh
from examples.correlate2d import correlate2d
from examples.correlate2d_c import correlate2d as correlate2d_c
from examples.dropout import dropout, dropout_c
from examples.filter_bank_c import filter_bank
from examples.gamma import gamma
from examples.lfilter_c import lfilter
from examples.linear import linear
from examples.linear_cpp import linear as linear_cpp
from examples.softplus import softplus

ROOT = Path(__file__).parents[1]
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def compare(op, reference, *arguments: torch.Tensor):
    """Values and gradients, shapes and dtypes."""
    x = [a.clone().requires_grad_() for a in arguments]
    y = [a.clone().requires_grad_() for a in arguments]
    out, expected = op(*x), reference(*y)
    torch.testing.assert_close(out, expected)
    cotangent = torch.randn_like(expected)
    gradients = torch.autograd.grad(out, x, cotangent)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, y, cotangent))


def conv2d(x: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    images = x.reshape(-1, 1, *x.shape[-2:])
    out = functional.conv2d(images, kernel[None, None])
    return out.reshape(*x.shape[:-2], *out.shape[-2:])


@dtypes
@pytest.mark.parametrize("batch", [(), (5,), (2, 5), (0,), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("linear", [linear, linear_cpp], ids=["torch", "C++"])
def test_linear(linear: tg.Op, dtype: torch.dtype, batch: tuple[int, ...], m: int, with_bias: bool):
    arguments = [torch.randn(*batch, 4, dtype=dtype), torch.randn(m, 4, dtype=dtype)]
    compare(linear, functional.linear, *arguments, *([torch.randn(m, dtype=dtype)] if with_bias else []))


def test_linear_without_features():
    compare(linear, functional.linear, torch.randn(2, 0), torch.randn(3, 0), torch.randn(3))


@dtypes
@pytest.mark.parametrize("batch", [(), (5,), (2, 3)], ids=str)
@pytest.mark.parametrize(
    ("image", "kernel"),
    [((6, 5), (2, 3)), ((4, 4), (4, 4)), ((7, 1), (3, 1)), ((3, 3), (1, 1)), ((3, 30), (2, 7)), ((4, 12), (3, 10))],
)
@pytest.mark.parametrize("correlate2d", [correlate2d, correlate2d_c], ids=["SciPy", "C"])
def test_correlate2d(
    correlate2d: tg.Op,
    dtype: torch.dtype,
    batch: tuple[int, ...],
    image: tuple[int, int],
    kernel: tuple[int, int],
):
    compare(correlate2d, conv2d, torch.randn(*batch, *image, dtype=dtype), torch.randn(*kernel, dtype=dtype))


def test_correlate2d_with_a_kernel_for_each_image():
    x, kernel = torch.randn(4, 6, 5), torch.randn(4, 2, 3)

    def grouped(x: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(x[None], kernel[:, None], groups=4)[0]

    compare(correlate2d, grouped, x, kernel)


@pytest.mark.parametrize(
    ("shape", "error"), [((4, 2), tg.ShapeError), ((1, 1), tg.ShapeError), ((2, 3), tg.KernelError)], ids=str
)
def test_correlate2d_refuses_a_kernel_that_does_not_fit(shape: tuple[int, int], error: type[Exception]):
    with pytest.raises(error, match="correlate2d"):  # SciPy would exchange the two without a word
        correlate2d(torch.randn(shape), torch.randn(3, 4))


@dtypes
@pytest.mark.parametrize("batch", [(), (5,), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("filters", [1, 4])
@pytest.mark.parametrize("with_bias", [True, False])
def test_filter_bank(dtype: torch.dtype, batch: tuple[int, ...], filters: int, with_bias: bool):
    def reference(x: torch.Tensor, kernel: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        maps = functional.conv2d(x.reshape(-1, 1, 6, 9), kernel[:, None], *bias)
        return maps.reshape(*batch, *maps.shape[1:])

    arguments = [torch.randn(*batch, 6, 9, dtype=dtype), torch.randn(filters, 2, 5, dtype=dtype)]
    compare(filter_bank, reference, *arguments, *([torch.randn(filters, dtype=dtype)] if with_bias else []))


@dtypes
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)], ids=str)
@pytest.mark.parametrize(("p", "q"), [(1, 1), (3, 2), (1, 4), (7, 3)])
def test_lfilter(dtype: torch.dtype, batch: tuple[int, ...], p: int, q: int):
    x, b = torch.randn(*batch, 5, dtype=dtype), torch.randn(p, dtype=dtype)
    a = torch.cat([torch.full((1,), 1.5, dtype=dtype), 0.3 * torch.randn(q - 1, dtype=dtype)])
    wanted = scipy.signal.lfilter(b.double().numpy(), a.double().numpy(), x.double().numpy())
    torch.testing.assert_close(lfilter(x, b, a), torch.from_numpy(wanted).to(dtype))
    if dtype is torch.float64:
        inputs = [t.requires_grad_() for t in (x, b, a)]
        assert torch.autograd.gradcheck(lfilter, inputs, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(lfilter, inputs)


def test_lfilter_without_a_leading_coefficient():
    with pytest.raises(tg.KernelError, match="the function returned 1"):
        lfilter(torch.ones(3), torch.ones(1), torch.zeros(2))


def softplus_in_torch(x: torch.Tensor) -> torch.Tensor:
    return functional.softplus(x, threshold=torch.finfo(x.dtype).max)


@dtypes
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)], ids=str)
def test_softplus(dtype: torch.dtype, shape: tuple[int, ...]):
    compare(softplus, softplus_in_torch, torch.randn(shape, dtype=dtype))


@dtypes
def test_softplus_far_out(dtype: torch.dtype):
    """At +-100 and beyond: exact values, and three derivatives without NaN or infinity."""
    x = torch.tensor([-1e4, -100.0, -40.0, 0.0, 40.0, 100.0, 1e4], dtype=dtype)
    exact = torch.tensor([0.0, 3.720076e-44, 4.248354e-18, 0.693147180559945, 40.0, 100.0, 1e4], dtype=torch.float64)
    torch.testing.assert_close(softplus(x), exact.to(dtype), rtol=1e-6, atol=1e-44)
    logistic = torch.special.expit(x.double())
    slope = logistic * torch.special.expit(-x.double())
    derivatives = [logistic, slope, slope * (1 - 2 * logistic)]
    f = softplus
    for expected in derivatives:
        f = torch.func.grad(f)
        made = torch.vmap(f)(x)
        assert made.isfinite().all()
        assert made.dtype == dtype
        torch.testing.assert_close(made, expected.to(dtype), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("op", "shapes"),
    [(linear, [(5, 4), (3, 4), (3,)]), (correlate2d, [(6, 5), (2, 3)]), (softplus, [(3, 4)])],
    ids=["linear", "correlate2d", "softplus"],
)
def test_half_precision_is_the_rounded_result(op: tg.Op, shapes: list[tuple[int, ...]], dtype: torch.dtype):
    arguments = [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
    out = op(*arguments)
    out.sum().backward()
    assert out.dtype == dtype
    exact = op(*(a.detach().float() for a in arguments))
    torch.testing.assert_close(out.float(), exact, rtol=2e-2, atol=2e-2)
    assert all(a.grad is not None and a.grad.dtype == dtype for a in arguments)


def test_dropout():
    x = torch.randn(40, 50, dtype=torch.float64)
    out = dropout(x, 0.25, seed=3)
    assert torch.equal(out, dropout_c(x, 0.25, seed=3))
    assert torch.equal(out[out != 0], x[out != 0] / 0.75)
    assert abs((out == 0).double().mean() - 0.25) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("op", [dropout, dropout_c, gamma], ids=lambda op: op.__name__)
def test_random_examples_pass(op: tg.Op):
    # SciPy's functions have no second derivative in the shape of the gamma distribution.
    tg.check(op, skip="second order" if op is gamma else ()).raise_if_failed()


def test_gamma():
    alpha = torch.tensor([0.7, 2.0, 9.0], dtype=torch.float64, requires_grad=True)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        theirs = torch.distributions.Gamma(alpha, torch.ones_like(alpha)).rsample()
    (expected,) = torch.autograd.grad(theirs.sum(), alpha)
    # At the same sample, the derivative is the same: that of the inverse at u = F(z; alpha).
    u = scipy.special.gammainc(alpha.detach().numpy(), theirs.detach().numpy())
    inverse = [scipy.special.gammaincinv(alpha.detach().numpy() + step, u) for step in (-1e-5, 1e-5)]
    torch.testing.assert_close(expected, torch.from_numpy(inverse[1] - inverse[0]) / 2e-5, rtol=1e-3, atol=0)
    samples = gamma(alpha.expand(4000, 3), seed=5)
    assert scipy.stats.kstest(samples[:, 1].detach(), "gamma", (2.0,)).pvalue > 1e-3
    (by_alpha,) = torch.autograd.grad(samples.sum(), alpha)
    torch.testing.assert_close(by_alpha / 4000, torch.ones(3, dtype=torch.float64), rtol=0.05, atol=0)


# Half a minute, and a family of the zoo besides; ten seconds, and one epoch of it below; others that take seconds.
# They run as programs alone.
SLOW = ("tutorial_mistakes", "mesh", "split", "state")
FILES = sorted((ROOT / "examples").glob("[!_]*.py"))


def shows_something(printed: str) -> bool:
    """Whether a program printed some lines, and nothing that went wrong."""
    bad = ("nan", "inf", "Traceback")
    return len(printed.splitlines()) >= 3 and not any(word in printed.replace("information", "") for word in bad)


@pytest.mark.parametrize("file", [file for file in FILES if file.stem not in SLOW], ids=lambda file: file.stem)
@pytest.mark.unless("test_the_file_runs_as_a_program")
def test_the_file_runs(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(file)])
    with torch.random.fork_rng():
        runpy.run_path(str(file), run_name="__main__")
    printed = capsys.readouterr()
    assert shows_something(printed.out), printed.out
    assert printed.err == ""


@pytest.mark.slow
def test_one_process_is_a_mesh(capsys: pytest.CaptureFixture[str]):
    threads = torch.get_num_threads()
    try:
        assert mesh.main(epochs=1, at_most=256) == []
    finally:
        torch.set_num_threads(threads)
    assert "One process cuts nothing" in capsys.readouterr().out


TORCHS_OWN = "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
"""Torch's own Inductor warns so where it is imported."""


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_file_runs_as_a_program(file: Path, tmp_path: Path):
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-W", "error", "-W", TORCHS_OWN, file],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert shows_something(run.stdout), run.stdout


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_file_begins_by_saying_what_it_shows(file: Path):
    first, second, third = file.read_text().splitlines()[:3]
    assert first.startswith("# ")
    assert second.startswith("# ")
    assert not third.startswith("#")
    assert '\nif __name__ == "__main__":\n' in file.read_text()
