"""Owen's T function, twice differentiable in both arguments.

Values are SciPy's, but where it loses digits. Those, and derivatives, come from `kernels/owens.c`, which says how.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from ..._build.source import c
from .nth import nth_source, refuse_order
from .sources import kernel_text

FILE = "owens.c"
MOST = 2
VALUE = c(
    f"{kernel_text(FILE)}\nTG_IMPORT(double, scipy_owens_t, (double, double, int))\n"
    "T owens_t(T h, T a) { return (T)(owens_t_by_series(h, a) ? owens_t_series(h, a) : scipy_owens_t(h, a, 0)); }",
    flags=["-ffp-contract=off"],
    imports={"scipy_owens_t": "scipy.special.cython_special:owens_t"},
)


@tg.op(kernel=nth_source(FILE, "T owens_t_nth(T h, T a, int64_t i, int64_t j)", "owens_t_derivative(h, a, i, j)"))
def owens_t_nth(h: Real[Tensor, "..."], a: Real[Tensor, "..."], i: int, j: int) -> Float[Tensor, "..."]:
    """The derivative of order `i` in h and `j` in a."""


@owens_t_nth.partial("h")
def _(h: Tensor, a: Tensor, i: int, j: int) -> Any:
    if i + j >= MOST:
        refuse_order("owens_t", "h", MOST)
    return owens_t_nth(h, a, i + 1, j)


@owens_t_nth.partial("a")
def _(h: Tensor, a: Tensor, i: int, j: int) -> Any:
    if i + j >= MOST:
        refuse_order("owens_t", "a", MOST)
    return owens_t_nth(h, a, i, j + 1)


@tg.op(kernel=VALUE)
@tg.domain(h="real", a="real")
def owens_t(h: Real[Tensor, "..."], a: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Owen's T function, P(X > h and 0 < Y < aX) of standard normal X and Y (Owen 1956).

    Args:
        h: any real number.
        a: any real number.

    Returns:
        In the shape to which the arguments broadcast. Where abs(h) > 4 and abs(a) < 0.01 the value is ours: there
        SciPy's has lost some 1e-15 / abs(a) of it.

    Raises:
        DerivativeError: a third derivative is asked for.

    Example:
        >>> owens_t(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.1416)
    """


@owens_t.partial("h")
def _(h: Tensor, a: Tensor) -> Any:
    """-exp(-h^2 / 2) erf(a h / sqrt(2)) / (2 sqrt(2 pi)), by definition (Owen 1956; `kernels/owens.c`)."""
    return owens_t_nth(h, a, 1, 0)


@owens_t.partial("a")
def _(h: Tensor, a: Tensor) -> Any:
    """exp(-h^2 (1 + a^2) / 2) / (2 pi (1 + a^2)), by definition (Owen 1956; `kernels/owens.c`)."""
    return owens_t_nth(h, a, 0, 1)
