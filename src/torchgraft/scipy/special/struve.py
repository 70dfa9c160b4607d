"""The Struve function, differentiable in the argument.

Values are SciPy's where they are right, else ours. Both, and derivatives to the second order, come from
`kernels/struve.c`, which says how.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .nth import nth_source, refuse_order

LENT = {"scipy_struve": "struve"}
ORDER = "no formula for the derivative in the order is implemented"


@tg.op(kernel=nth_source("struve.c", "T struve_nth(T v, T x, int64_t n)", "struve_derivative(v, x, n)", LENT))
def struve_nth(v: Real[Tensor, "..."], x: Real[Tensor, "..."], n: int) -> Float[Tensor, "..."]:
    """The derivative of order `n`, 1 or 2, in the argument."""


@struve_nth.partial("x")
def _(v: Tensor, x: Tensor, n: int) -> Any:
    return struve_nth(v, x, n + 1) if n < 2 else refuse_order("struve", "x", 2)


struve_nth.nondifferentiable("v", reason=ORDER)


@tg.op(kernel=nth_source("struve.c", "T struve(T v, T x)", "struve_value(v, x)", LENT))
@tg.domain(x="positive")
def struve(v: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The Struve function H_v(x) (DLMF 11.2.1).

    Args:
        v: order, any real number.
        x: argument, not negative, or any where `v` is an integer.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a derivative in `v`, or a third one in `x`, is asked for.

    Example:
        >>> struve(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.7990)
    """


@struve.partial("x")
def _(v: Tensor, x: Tensor) -> Any:
    """H_(v-1) - (v / x) H_v (DLMF 11.4.27, 11.2.1 and 11.2.5, differentiated; `kernels/struve.c`)."""
    return struve_nth(v, x, 1)


struve.nondifferentiable("v", reason=ORDER)
