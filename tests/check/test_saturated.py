"""Derivatives next to nothing: what saturates loses the digits of its gradient, and is right nevertheless."""

import pytest
import torch
from torch.nn import functional as F

import torchgraft as tg

from ..default import by_default

SATURATED = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "cross entropy": lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2])),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "normalize": F.normalize,
}
CHECKS = ("gradient", "linearity", "forward mode", "second order", "vmap", "outputs", "freed")


@pytest.mark.parametrize("scale", by_default([10, 30, 200], lambda scale: scale == 30))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", SATURATED)
def test_what_saturates_passes(name, dtype, scale):
    x = scale * torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    report = tg.check(SATURATED[name], x.to(dtype), only=CHECKS)
    assert report.ok, str(report)


class Wrong(torch.autograd.Function):
    """A sine whose gradient is off by a factor, beside noise and a square of the upstream gradient."""

    @staticmethod
    def forward(ctx, x, times, noise, square):
        ctx.save_for_backward(x)
        ctx.of = times, noise, square
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,), (times, noise, square) = ctx.saved_tensors, ctx.of
        return times * grad * x.cos() * (1 + noise * torch.randn_like(x)) + square * grad * grad, None, None, None


SLIGHT = [(1e-9, 0.0), (1e-5, 0.0), (0.0, 1e-9), (0.0, 1e-5)]
BESIDE = [(times, *slight) for times in (2.0, -1.0, 0.0, 1.001) for slight in SLIGHT]


@pytest.mark.parametrize(
    ("times", "noise", "square"),
    by_default(BESIDE, lambda times, noise, square: times == 1.001 or noise == 1e-5),
)
def test_a_wrong_factor_is_worse_than_noise(times, noise, square):
    x = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    report = tg.check(Wrong.apply, x, times, noise, square, only="gradient")
    assert report.verdict is tg.Verdict.FAIL
    assert "wrong-gradient" in {finding.code for finding in report.findings}


@pytest.mark.parametrize(("noise", "square"), [(1e-9, 0.0), (0.0, 1e-9)])
def test_noise_alone_loses_digits(noise, square):
    x = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert tg.check(Wrong.apply, x, 1.0, noise, square, only="gradient").verdict is tg.Verdict.LOSES_DIGITS
