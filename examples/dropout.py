# Dropout twice, in torch and in C: the seed is an argument that torch draws where it is left out. Both drop the same
# elements for the same seed, and the backward, which reads the seed, drops them too: no mask is saved.
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


def drop(x: Tensor, p: float, seed: Tensor) -> Tensor:
    return torch.where(tg.random_uniform(seed, x.shape[-1:], dtype=torch.float64) < p, 0, x / (1 - p))


@tg.domain(p="[0, 1)")
@tg.op
def dropout(x: Float[Tensor, "*batch n"], p: float = 0.5, *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "*batch n"]:
    """Zero elements with probability p, and scale the others."""
    return drop(x, p, seed)


@dropout.adjoint("x")
def _(grad, p, seed):
    return drop(grad, p, seed)


SOURCE = tg.c("""
#include <torchgraft/random.h>

void dropout_c(int64_t n, const T *x, double p, int64_t seed, T *out) {
    for (int64_t i = 0; i < n; i++) out[i] = tg_uniform(seed, i) < p ? 0 : x[i] / (1 - p);
}

void dropout_c_adjoint_x(int64_t n, const T *grad, double p, int64_t seed, T *grad_x) {
    dropout_c(n, grad, p, seed, grad_x);
}
""")


@tg.domain(p="[0, 1)")
@tg.op(kernel=SOURCE)
def dropout_c(x: Float[Tensor, "*batch n"], p: float = 0.5, *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "*batch n"]:
    """Zero elements with probability p, and scale the others."""


@dropout_c.adjoint("x", kernel=SOURCE)
def _(grad, p, seed): ...


class Dropout(tg.module(dropout_c)):
    """A layer that drops while it is trained."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.training else x


if __name__ == "__main__":
    x = torch.ones(2, 8)
    torch.manual_seed(0)
    print(dropout(x))
    print("the same in C     ", torch.equal(dropout(x, seed=3), dropout_c(x, seed=3)))
    x.requires_grad_()
    out = dropout_c(x)
    print("the same backward ", torch.equal(torch.autograd.grad(out.sum(), x)[0], out))
    shared = torch.vmap(dropout, randomness="same")(x)
    print("shared by samples ", torch.equal(shared[0], shared[1]))
    print(Dropout(p=0.25).eval()(x).equal(x), Dropout(p=0.25))
