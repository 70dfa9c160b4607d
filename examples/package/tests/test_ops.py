"""Each operator against a slow and simple one, its derivative against differences, and both compiled."""

import pytest
import torch
from sequences import isotonic, smooth
from torch.autograd import gradcheck


def plain_smooth(x, decay):
    out = []
    for step in x.unbind(-1):
        out.append(step if not out else decay * out[-1] + step)
    return torch.stack(out, -1)


def plain_isotonic(x):
    """The largest of the smallest means (Barlow et al., Inference under Order Restrictions, 1972, 1.2.4)."""
    n = x.shape[-1]
    means = [[x[..., a : b + 1].mean(-1) for b in range(a, n)] for a in range(n)]
    lowest = [[torch.stack(means[a][i - a :]).amin(0) for a in range(i + 1)] for i in range(n)]
    return torch.stack([torch.stack(candidates).amax(0) for candidates in lowest], -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3, 5)])
def test_values(dtype, shape):
    x, decay = torch.randn(shape, dtype=dtype), torch.tensor(0.9, dtype=dtype)
    torch.testing.assert_close(smooth(x, decay), plain_smooth(x, decay))
    torch.testing.assert_close(isotonic(x), plain_isotonic(x))


def test_derivatives():
    torch.manual_seed(0)
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    decay = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert gradcheck(smooth, (x, decay))
    assert gradcheck(isotonic, x)


def test_compiled():
    def loss(x, decay):
        return isotonic(smooth(x, decay)).square().sum()

    x, decay = torch.randn(4, 8, requires_grad=True), torch.tensor(0.5, requires_grad=True)
    expected = torch.autograd.grad(loss(x, decay), (x, decay))
    found = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(x, decay), (x, decay))
    torch.testing.assert_close(found, expected)
