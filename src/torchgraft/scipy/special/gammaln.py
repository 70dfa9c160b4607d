"""The logarithms of the gamma and beta functions, and the polygamma functions, differentiable to any order.

Values are SciPy's, but for polygamma, of which SciPy lends no C function, betaln where it has lost digits, and gammaln
next to 0, where SciPy's is infinite below 5.6e-309.
Polygamma and the derivatives come from `kernels/polygamma.c`, which says how.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .sources import lent, mended, ours

FILE = "polygamma.c"

# -- derivatives ----------------------------------------------------------------------------------------------------


@tg.op(kernel=ours(FILE, "psi_at", "digamma_real(x)", "x"))
def psi_at(x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The digamma function of any real number (DLMF 5.2.2), also next to its zeros."""


@psi_at.partial("x")
def _(x: Tensor) -> Any:
    return polygamma(1, x)


@tg.op(kernel=ours(FILE, "betaln_by_a", "betaln_da(a, b)", "a b"))
def betaln_by_a(a: Real[Tensor, "..."], b: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """d/da of log B(a, b): the digamma function at a less that at a + b."""


@tg.op(kernel=ours(FILE, "betaln_by_a_a", "betaln_da_da(a, b)", "a b"))
def betaln_by_a_a(a: Real[Tensor, "..."], b: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The second derivative of log B(a, b) in a."""


@betaln_by_a_a.partial("a")
def _(a: Tensor, b: Tensor) -> Any:
    return polygamma(2, a) - polygamma(2, a + b)


@betaln_by_a_a.partial("b")
def _(a: Tensor, b: Tensor) -> Any:
    return -polygamma(2, a + b)


@betaln_by_a.partial("a")
def _(a: Tensor, b: Tensor) -> Any:
    return betaln_by_a_a(a, b)


@betaln_by_a.partial("b")
def _(a: Tensor, b: Tensor) -> Any:
    return -polygamma(1, a + b)


# -- functions ------------------------------------------------------------------------------------------------------


@tg.op(kernel=mended("gammabeta.h", "gammaln", "fabs(x) < 1e-290 && x != 0 ? -log(fabs(x)) : SCIPYS", "x"))
@tg.domain(x="real except nonpositive integers")
def gammaln(x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The logarithm of the absolute value of the gamma function (DLMF 5.2.1; derivative 5.2.2).

    Args:
        x: any real number; at 0, -1, -2, ... the value is inf.

    Returns:
        In the shape of `x`. The derivative is NaN at the poles, but for 0, where it is that of the side of its sign.

    Example:
        >>> gammaln(torch.tensor([0.5, 10.0]))
        tensor([ 0.5724, 12.8018])
    """


@gammaln.partial("x")
def _(x: Tensor) -> Any:
    """The digamma function (DLMF 5.2.2; `kernels/polygamma.c`)."""
    return psi_at(x)


@tg.op(kernel=mended("gammabeta.h", "betaln", "betaln_value(a, b, SCIPYS)", "a b"))
@tg.domain(a="positive", b="positive")
def betaln(a: Real[Tensor, "..."], b: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The logarithm of the absolute value of the beta function (DLMF 5.12.1).

    Args:
        a: a positive number; negative ones as in SciPy.
        b: likewise.

    Returns:
        In the shape to which the arguments broadcast. By Stirling's formula (DLMF 5.11.1) where a + b > 171, but where
        one is 1e6 times the other, and where one is below 1e-307; next to the zero at (1, 1) by a series (DLMF 5.7.3).

    Example:
        >>> betaln(torch.tensor(2.0), torch.tensor(3.0))
        tensor(-2.4849)
    """


@betaln.partial("a")
def _(a: Tensor, b: Tensor) -> Any:
    """psi(a) - psi(a + b) (DLMF 5.12.1 differentiated, 5.2.2; `kernels/polygamma.c`)."""
    return betaln_by_a(a, b)


@betaln.partial("b")
def _(a: Tensor, b: Tensor) -> Any:
    """psi(b) - psi(a + b) (DLMF 5.12.1 differentiated, 5.2.2; `kernels/polygamma.c`)."""
    return betaln_by_a(b, a)


@tg.op(kernel=lent("digamma", 1, "__pyx_fuse_1psi"))
@tg.domain(z="real except nonpositive integers")
def digamma(z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The digamma function (DLMF 5.2.2).

    Args:
        z: any real number; at 0 the value is an infinity, at -1, -2, ... NaN.

    Returns:
        In the shape of `z`.

    Example:
        >>> digamma(torch.tensor([1.0, 10.0]))
        tensor([-0.5772,  2.2518])
    """


@digamma.partial("z")
def _(z: Tensor) -> Any:
    """The trigamma function (DLMF 5.15.1; `kernels/polygamma.c`)."""
    return polygamma(1, z)


@tg.op(kernel=ours(FILE, "polygamma", "polygamma_real(n, x)", "n x"))
@tg.domain(n={0, 1, 2, 3}, x="positive")
def polygamma(n: Real[Tensor, "..."] | float, x: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The n-th derivative of the digamma function (DLMF 5.15; by Hurwitz's function, 25.11.12).

    Args:
        n: order, an integer that is not negative.
        x: any real number; at 0, -1, -2, ... the value is inf or -inf.

    Returns:
        In the shape to which the arguments broadcast; NaN where `n` is no order.

    Raises:
        DerivativeError: a derivative in `n` is asked for.

    Example:
        >>> polygamma(1, torch.tensor([2.0, 3.0, 25.5]))
        tensor([0.6449, 0.3949, 0.0400])
    """


@polygamma.partial("x")
def _(n: Tensor, x: Tensor) -> Any:
    """The next polygamma function, by definition (DLMF 5.15; `kernels/polygamma.c`)."""
    return polygamma(n + 1, x)


polygamma.nondifferentiable("n", reason="the order of a derivative is an integer")
