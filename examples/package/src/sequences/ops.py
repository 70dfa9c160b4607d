"""What the operators take and return; what they compute is in the C and C++ files beside."""

from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

SMOOTH = tg.c("smooth.c")
ISOTONIC = tg.cpp("isotonic.cpp")


@tg.op(kernel=SMOOTH)
def smooth(x: Float[Tensor, "*batch n"], decay: Float[Tensor, ""]) -> Float[Tensor, "*batch n"]:
    """Exponential smoothing with a decay that can be learned: ``out[i] = decay * out[i-1] + x[i]``."""


@smooth.vjp("x", "decay", kernel=SMOOTH)
def _(grad, decay, out): ...


@tg.op(kernel=ISOTONIC)
def isotonic(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """Isotonic regression: the non-decreasing sequence that is nearest to `x` in the sum of squares."""


@isotonic.vjp("x", kernel=ISOTONIC)
def _(grad, out): ...
