# A recurrence: plain PyTorch would record a node for each step; in C it is one loop. Its adjoint is the same filter run
# backwards in time, so that all rules are written with the operator itself, and have derivatives of any order.
import scipy.signal
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


@tg.op(kernel=tg.c("lfilter.c"))
@tg.domain(p="positive", q="positive", a="[1, 2]")  # so that feedback does not run away
def lfilter(x: Float[Tensor, "*batch n"], b: Float[Tensor, "p"], a: Float[Tensor, "q"]) -> Float[Tensor, "*batch n"]:
    """The filter with numerator b and denominator a along the last axis, at rest before it (scipy.signal.lfilter)."""


def backwards(grad, b, a):
    return lfilter(grad.flip(-1), b, a).flip(-1)


def correlate(left, right, count):
    """Sums of products with `right` delayed by 0, 1, ... steps."""
    before = torch.nn.functional.pad(right, (count, 0))
    return torch.stack([(left * before[..., count - j : before.shape[-1] - j]).sum() for j in range(count)])


@lfilter.adjoint("x")
def _(grad, b, a):
    return backwards(grad, b, a)


@lfilter.vjp("b")
def _(grad, x, b, a):
    return correlate(backwards(grad, a.new_ones(1), a), x, len(b))


@lfilter.vjp("a")  # a y = b x, differentiated
def _(grad, a, out):
    return -correlate(backwards(grad, a.new_ones(1), a), out, len(a))


if __name__ == "__main__":
    torch.manual_seed(0)
    b, a = (torch.from_numpy(c) for c in scipy.signal.butter(3, 0.2))
    noise = torch.randn(4, 500, dtype=torch.float64)
    wanted = torch.from_numpy(scipy.signal.lfilter(b.numpy(), a.numpy(), noise.numpy()))
    print(f"beside SciPy: {(lfilter(noise, b, a) - wanted).abs().max():.1e}")

    drive, gain, pole = noise[:, :100], torch.tensor([0.5]).double(), torch.tensor([1.0, -0.9]).double()
    heard = lfilter(drive, gain, pole)
    found = [torch.tensor([start], dtype=torch.float64, requires_grad=True) for start in (1.0, 0.0)]
    optimizer = torch.optim.Adam(found, lr=0.05)
    for step in range(201):  # find the filter from what it made
        made = lfilter(drive, found[0], torch.cat([pole[:1], found[1]]))
        loss = (made - heard).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step:3}  gain {found[0].item():7.4f}  pole {-found[1].item():7.4f}  loss {loss.item():.1e}")
