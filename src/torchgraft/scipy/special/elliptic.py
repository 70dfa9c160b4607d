"""Complete elliptic integrals, twice differentiable in the parameter.

Values are SciPy's. Derivatives come from `kernels/elliptic.c`, which says how.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .nth import nth
from .sources import lent

FILE = "elliptic.c"

ellipk_nth = nth(FILE, "ellipk_nth", "ellipk_by_c(1 - (double)x, n)", most=2)
ellipkm1_nth = nth(FILE, "ellipkm1_nth", "(n == 1 ? -1 : 1) * ellipk_by_c(x, n)", most=2)
ellipe_nth = nth(FILE, "ellipe_nth", "ellipe_by_c(1 - (double)x, n)", most=2)


@tg.op(kernel=lent("ellipk", 1))
@tg.domain(m="(-inf, 1)")
def ellipk(m: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The complete elliptic integral of the first kind K(m) (DLMF 19.2.8, m = k^2; derivative 19.4.1).

    Args:
        m: parameter, at most 1. Next to 1, `ellipkm1` has more digits.

    Returns:
        In the shape of the parameter; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a third derivative is asked for.

    Example:
        >>> ellipk(torch.tensor(0.5))
        tensor(1.8541)
    """


@ellipk.partial("m")
def _(m: Tensor) -> Any:
    """dK/dm (DLMF 19.4.1, by integrals that do not cancel; `kernels/elliptic.c`)."""
    return ellipk_nth(m, 1)


@tg.op(kernel=lent("ellipkm1", 1))
@tg.domain(p="positive")
def ellipkm1(p: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The complete elliptic integral of the first kind K(1 - p) (DLMF 19.2.8; derivative 19.4.1).

    Args:
        p: complement of the parameter, not negative.

    Returns:
        In the shape of the argument; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a third derivative is asked for.

    Example:
        >>> ellipkm1(torch.tensor(1e-8))
        tensor(10.5966)
    """


@ellipkm1.partial("p")
def _(p: Tensor) -> Any:
    """-dK/dm at m = 1 - p (DLMF 19.4.1, by integrals that do not cancel; `kernels/elliptic.c`)."""
    return ellipkm1_nth(p, 1)


@tg.op(kernel=lent("ellipe", 1))
@tg.domain(m="(-inf, 1)")
def ellipe(m: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The complete elliptic integral of the second kind E(m) (DLMF 19.2.8, m = k^2; derivative 19.4.2).

    Args:
        m: parameter, at most 1.

    Returns:
        In the shape of the parameter; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a third derivative is asked for.

    Example:
        >>> ellipe(torch.tensor(0.5))
        tensor(1.3506)
    """


@ellipe.partial("m")
def _(m: Tensor) -> Any:
    """dE/dm (DLMF 19.4.2, by integrals that do not cancel; `kernels/elliptic.c`)."""
    return ellipe_nth(m, 1)
