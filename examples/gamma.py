# Samples of the gamma distribution, with a derivative in its shape: z = F^-1(u; alpha) for a uniform u. Implicitly,
# F(z; alpha) = u, so that dz/dalpha = -(dF/dalpha) / (dF/dz) (Figurnov, Mohamed, Mnih 2018).
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
from torchgraft.scipy.special import gammaincinv
from torchgraft.scipy.special.incomplete_gamma import gammainc_slope  # (dF/dalpha) / (dF/dz), which underflows nowhere


@tg.domain(alpha="[0.5, 20]")
@tg.op
def gamma(alpha: Float[Tensor, "..."], *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "..."]:
    """A sample of the gamma distribution for each shape alpha."""
    u = tg.random_uniform(seed, dtype=torch.float64) + 2.0**-54  # It is never 0.
    return gammaincinv(alpha.double(), u).to(alpha.dtype)


@gamma.partial("alpha")
def _(alpha, out):
    return -gammainc_slope(alpha, out)


if __name__ == "__main__":
    torch.manual_seed(0)
    alpha = torch.tensor([0.7, 2.0, 9.0], dtype=torch.float64, requires_grad=True)

    samples = gamma(alpha.expand(20000, 3))
    print("means", samples.mean(0).tolist())  # of the gamma distribution: alpha
    print("their gradients", (torch.autograd.grad(samples.sum(), alpha)[0] / 20000).tolist())  # of alpha: 1

    theirs = torch.distributions.Gamma(alpha, torch.ones_like(alpha)).rsample()
    (expected,) = torch.autograd.grad(theirs.sum(), alpha)
    print("as torch's rsample", torch.allclose(-gammainc_slope(alpha, theirs).detach(), expected, rtol=1e-3))
