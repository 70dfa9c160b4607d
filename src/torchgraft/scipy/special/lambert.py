"""Lambert's W: its real branches, differentiable to any order, also next to the branch point.

Values and derivatives come from `kernels/lambertw.c`, which says how; SciPy's lose half of their digits there.
"""

from __future__ import annotations

from typing import Any, Literal

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .nth import nth_source

FILE = "lambertw.c"


@tg.op(kernel=nth_source(FILE, "T lambertw_nth(T z, int64_t k, int64_t n)", "lambertw_derivative(z, k, n)"))
def lambertw_nth(z: Real[Tensor, "..."], k: int, n: int) -> Float[Tensor, "..."]:
    """The derivative of order `n` of the branch `k`."""


@lambertw_nth.partial("z")
def _(z: Tensor, k: int, n: int) -> Any:
    return lambertw_nth(z, k, n + 1)


@tg.op(kernel=nth_source(FILE, "T lambertw(T z, int64_t k, double tol)", "lambertw_value(z, k)"))
@tg.domain(z="(-1/e, 0)")
def lambertw(z: Real[Tensor, "..."], k: Literal[0, -1] = 0, tol: float = 1e-8) -> Float[Tensor, "..."]:
    """The real branches of Lambert's W, the inverse of w exp(w) (DLMF 4.13.1; derivative 4.13.4).

    Args:
        z: argument, at least -1/e; on the branch -1 also at most 0. The double ``-exp(-1)`` stands for -1/e.
        k: the branch: 0, which has w >= -1, or -1, which has w <= -1.
        tol: of SciPy's iteration; it has no effect, as all digits are right.

    Returns:
        Real numbers, in the shape of the argument; NaN where the branch is not real. SciPy returns complex ones.

    Example:
        >>> lambertw(torch.tensor([1.0, -0.2]))
        tensor([ 0.5671, -0.2592])
    """


@lambertw.partial("z")
def _(z: Tensor, k: int) -> Any:
    """exp(-w) / (1 + w) (DLMF 4.13.4; `kernels/lambertw.c`)."""
    return lambertw_nth(z, k, 1)
