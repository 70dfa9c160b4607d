"""The zeta functions of Riemann and Hurwitz, differentiable in both arguments.

Values and derivatives come from `kernels/zeta.c`, which says how. Derivatives are there in `x` to the second order, in
`q` to any. SciPy lends no function of `q`, and that of `x` has few digits next to its zeros.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .nth import nth, nth_source, refuse_order

FILE = "zeta.c"
MOST = 2
LENT = {"scipy_zetac": "zetac"}

riemann_nth = nth(FILE, "riemann_nth", "riemann_derivative(x, n)", LENT, MOST)


@tg.op(kernel=nth_source(FILE, "T hurwitz_nth(T x, T q, int64_t n, int64_t k)", "zeta_derivative(x, q, n, k)", LENT))
def hurwitz_nth(x: Real[Tensor, "..."], q: Real[Tensor, "..."], n: int, k: int) -> Float[Tensor, "..."]:
    """The derivative of order `n` in x and `k` in q."""


@hurwitz_nth.partial("x")
def _(x: Tensor, q: Tensor, n: int, k: int) -> Any:
    if n >= MOST:
        refuse_order("zeta", "x", MOST)
    return hurwitz_nth(x, q, n + 1, k)


@hurwitz_nth.partial("q")
def _(x: Tensor, q: Tensor, n: int, k: int) -> Any:
    return hurwitz_nth(x, q, n, k + 1)


@tg.op(kernel=nth_source(FILE, "T riemann_zeta(T x)", "riemann_value(x)", LENT))
def riemann_zeta(x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Riemann's zeta function of x."""


@tg.op(kernel=nth_source(FILE, "T hurwitz_zeta(T x, T q)", "zeta_value(x, q)", LENT))
def hurwitz_zeta(x: Real[Tensor, "..."], q: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Hurwitz' zeta function of x and q."""


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
