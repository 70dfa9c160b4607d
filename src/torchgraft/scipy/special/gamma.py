"""The incomplete gamma functions and their inverses, differentiable in the parameter and in the argument."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .sources import lent, ours

# -- derivatives, which are operators themselves ------------------------------------------------------------------


@tg.op(kernel=ours("gamma.c", "gamma_density", "density_of_gamma(a, x)", "a x"))
def gamma_density(a: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The density of the gamma distribution, ``x^(a-1) exp(-x) / Gamma(a)`` (DLMF 8.8.13)."""


@tg.op(kernel=ours("gamma.c", "gammainc_by_a", "gammainc_da(a, x)", "a x"))
def gammainc_by_a(a: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """dP/da of the lower incomplete gamma function P(a, x)."""


@tg.op(kernel=ours("gamma.c", "psi_of", "digamma_of(x)", "x"))
def psi_of(x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The digamma function for positive x (DLMF 5.2.2), also next to its zero."""


@gamma_density.partial("a")
def _(a: Tensor, x: Tensor) -> Any:
    return gamma_density(a, x) * (x.log() - psi_of(a))


@gamma_density.partial("x")
def _(a: Tensor, x: Tensor) -> Any:
    return gamma_density(a, x) * ((a - 1) / x - 1)


@gammainc_by_a.partial("a")
def _(a: Tensor, x: Tensor) -> Any:
    raise tg.DerivativeError(
        "the second derivative in a parameter is not available", operator="gammainc", argument="a",
        expected="first derivatives in a, first and second ones in x", got="a second one in a",
    )  # fmt: skip


@gammainc_by_a.partial("x")
def _(a: Tensor, x: Tensor) -> Any:
    return gamma_density(a, x) * (x.log() - psi_of(a))


# -- the functions --------------------------------------------------------------------------------------------------


@tg.op(kernel=lent("gammainc", 2))
@tg.domain(a="positive", x="nonnegative")
def gammainc(a: Real[Tensor, "..."], x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The regularised lower incomplete gamma function P(a, x) (DLMF 8.2.4).

    Args:
        a: positive parameter.
        x: argument, not negative; it broadcasts with `a`.

    Returns:
        Values between 0 and 1; NaN outside of the domain, as SciPy has it.

    Example:
        >>> gammainc(torch.tensor(2.5), torch.tensor(1.3))
        tensor(0.2400)
    """


@gammainc.partial("a")
def _(a: Tensor, x: Tensor) -> Any:
    return gammainc_by_a(a, x)


@gammainc.partial("x")
def _(a: Tensor, x: Tensor) -> Any:
    return gamma_density(a, x)
