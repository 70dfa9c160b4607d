"""The Airy functions, differentiable to any order.

Values are SciPy's, but far from 0, where it has 0 and NaN too early. Derivatives come from `kernels/airy.c`, which says
how.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from ..._build.source import c
from .sources import kernel_text

Four = tuple[Float[Tensor, "..."], Float[Tensor, "..."], Float[Tensor, "..."], Float[Tensor, "..."]]

KERNEL = c(
    kernel_text("airy.c"),
    flags=["-ffp-contract=off"],
    imports={"scipy_airy": "scipy.special.cython_special:__pyx_fuse_1airy"},
)


@tg.op(kernel=KERNEL)
def airy_nth(z: Real[Tensor, "..."], n: int) -> Four:
    """The derivatives of order `n` of Ai, Ai', Bi and Bi' (DLMF 9.2.1, differentiated)."""


@airy_nth.partial("z")
def _(z: Tensor, n: int) -> Any:
    return airy_nth(z, n + 1)


@tg.op(kernel=KERNEL)
@tg.domain(z="real")
def airy(z: Real[Tensor, "..."]) -> Four:
    """The Airy functions Ai and Bi and their derivatives (DLMF 9.2).

    Args:
        z: any real number.

    Returns:
        Ai(z), Ai'(z), Bi(z) and Bi'(z), each in the shape of the argument.

    Example:
        >>> airy(torch.tensor(1.0))
        (tensor(0.1353), tensor(-0.1591), tensor(1.2074), tensor(0.9324))
    """


@airy.partial("z")
def _(z: Tensor) -> Any:
    """Ai', z Ai, Bi' and z Bi (DLMF 9.2.1; `kernels/airy.c`)."""
    return airy_nth(z, 1)
