# An elementwise NumPy function: one partial derivative, written in torch, gives both modes and every order.
# Right at the ends too: log(1 + exp(100)) overflows nowhere, and no derivative of it is NaN.
import numpy as np
import torch
from jaxtyping import Float

import torchgraft as tg


@tg.op
def softplus(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """A smooth rectifier: log(1 + exp(x))."""
    return np.logaddexp(x, 0)


@softplus.partial("x")
def _(x):
    return torch.sigmoid(x)


if __name__ == "__main__":
    x = torch.tensor([-100.0, -1.0, 0.0, 1.0, 100.0], dtype=torch.float64)

    f = softplus
    for order in range(4):
        print(f"derivative {order}:", *(f"{value:10.3g}" for value in torch.vmap(f)(x)))
        f = torch.func.grad(f)
