"""The measured size of the errors of values."""

import pytest
import torch

from torchgraft._check.numeric.ladder import SAMPLES, ecnoise

AT = torch.arange(SAMPLES, dtype=torch.float64)[:, None] * 2.0**-18


@pytest.mark.parametrize("level", [1e-15, 1e-10, 1e-4])
def test_the_noise_of_a_smooth_function(level):
    generator = torch.Generator().manual_seed(0)
    smooth = (0.7 + AT).exp() + (3 * AT).sin()
    noise = level * torch.randn(SAMPLES, 2000, generator=generator, dtype=torch.float64)
    measured = ecnoise(smooth + noise)
    assert 0.6 * level < measured.median() < 2.0 * level  # the largest of three estimates
    assert (measured > level / 8).double().mean() > 0.99
    assert (measured < 8 * level).all()


def test_a_smooth_function_alone_has_next_to_none():
    assert ecnoise((0.7 + AT).exp()) < 1e-15
    assert ecnoise((50 * AT).sin()) < 1e-15


def test_each_column_has_its_own():
    generator = torch.Generator().manual_seed(0)
    levels = torch.tensor([1e-12, 1e-3], dtype=torch.float64)
    measured = ecnoise(levels * torch.randn(SAMPLES, 2, generator=generator, dtype=torch.float64))
    assert (measured / levels < 4).all()
    assert (measured / levels > 0.2).all()


@pytest.mark.parametrize("scale", [2.0**-700, 2.0**700])
def test_the_scale_does_not_matter(scale):
    generator = torch.Generator().manual_seed(0)
    samples = 1 + 1e-12 * torch.randn(SAMPLES, 5, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(ecnoise(samples * scale) / scale, ecnoise(samples), rtol=1e-12, atol=0)
