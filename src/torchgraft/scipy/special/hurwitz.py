"""The zeta functions of Riemann and Hurwitz, differentiable in both arguments.

Values and derivatives come from `kernels/zeta.c`, which says how. Derivatives are there in `x` to the second order, in
`q` to any. SciPy lends no function of `q`, and that of `x` has few digits next to its zeros.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .sources import ours
from .table import function, nth, refuse_order

FILE = "zeta.c"
MOST = 2

riemann_nth = nth("riemann", ours(FILE, "riemann_derivative(x, n)"), MOST)

hurwitz_nth = function(
    "hurwitz_nth", ours(FILE, "zeta_derivative(x, q, n, k)"), "The derivative of order `n` in x and `k` in q.",
    x=lambda x, q, n, k: hurwitz_nth(x, q, n + 1, k) if n < MOST else refuse_order("zeta", "x", MOST),
    q=lambda x, q, n, k: hurwitz_nth(x, q, n, k + 1),
    n=int, k=int,
)  # fmt: skip

riemann_zeta = function(
    "riemann_zeta", ours(FILE, "riemann_value(x, SCIPY(zetac))"), "Riemann's zeta function of x.",
    cuda_by_c=ours(FILE, "riemann_alone(x)"), x=None,
)  # fmt: skip
hurwitz_zeta = function(
    "hurwitz_zeta", ours(FILE, "zeta_value(x, q)"), "Hurwitz' zeta function of x and q.", x=None, q=None
)


@tg.op
@tg.domain(x="(1, inf)", q="positive")
def zeta(x: Real[Tensor, "..."], q: Real[Tensor, "..."] | None = None) -> Float[Tensor, "..."]:
    """Hurwitz' zeta function, the sum of (q + k)^-x over k = 0, 1, ... (DLMF 25.11.1; derivative 25.11.17).

    Args:
        x: exponent, at least 1; any real number where there is no `q`.
        q: positive, or negative where `x` is an integer; without it the function is Riemann's, whose q is 1.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a third derivative in `x` is asked for.

    Example:
        >>> zeta(torch.tensor(2.0)), zeta(2.0, torch.tensor(0.5))
        (tensor(1.6449), tensor(4.9348))
    """
    values: Tensor = riemann_zeta(x) if q is None else hurwitz_zeta(x, q)
    return values


@zeta.partial("x")
def _(x: Tensor, q: Tensor | None) -> Any:
    """The derivative in the exponent (DLMF 25.11.28 and 25.4.1, differentiated; `kernels/zeta.c`)."""
    return riemann_nth(x, 1) if q is None else hurwitz_nth(x, q, 1, 0)


@zeta.partial("q")
def _(x: Tensor, q: Tensor) -> Any:
    """-x zeta(x + 1, q) (DLMF 25.11.17; `kernels/zeta.c`)."""
    return hurwitz_nth(x, q, 0, 1)
