# An elementwise operator: the C function sees one element, torchgraft loops, broadcasts and vectorises. The partial
# derivative is such a function too; the gradient is one pass over memory.
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

SOURCE = tg.c("""
#include <tgmath.h> /* erf and exp of the type at hand */

T gelu(T x) { return x * (T)0.5 * (1 + erf(x * (T)0.70710678118654752)); }

T gelu_partial_x(T x) {
    return (T)0.5 * (1 + erf(x * (T)0.70710678118654752)) + x * (T)0.39894228040143268 * exp(-x * x / 2);
}
""")


@tg.op(kernel=SOURCE)
def gelu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """x times the normal distribution function at x (Hendrycks and Gimpel 2016, eq. 1)."""


@gelu.partial("x", kernel=SOURCE)
def _(x): ...


if __name__ == "__main__":
    x = torch.linspace(-3, 3, 7, dtype=torch.float64, requires_grad=True)
    plain = torch.nn.functional.gelu

    print("gelu      ", *(f"{value:8.4f}" for value in gelu(x).tolist()))
    print("torch     ", *(f"{value:8.4f}" for value in plain(x).tolist()))
    print("derivative", *(f"{value:8.4f}" for value in torch.autograd.grad(gelu(x).sum(), x)[0].tolist()))
    print("torch     ", *(f"{value:8.4f}" for value in torch.autograd.grad(plain(x).sum(), x)[0].tolist()))
    print(gelu.prototype())
