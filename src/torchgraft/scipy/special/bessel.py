"""Bessel functions of real order, differentiable in the order and in the argument.

Values are SciPy's. Derivatives in the order come from `kernels/bessel.c`, which says how; they are operators
themselves, so that second derivatives follow where there are any. Those in the argument are recurrences that lose no
digits.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from .refusals import no_second_derivative
from .sources import lent, ours

FILE = "bessel.c"


# -- derivatives in the order ---------------------------------------------------------------------------------------


@tg.op(kernel=ours(FILE, "jv_by_order", "jv_dv(v, z)", "v z"))
def jv_by_order(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """dJ/dv."""


@tg.op(kernel=ours(FILE, "yv_by_order", "yv_dv(v, z)", "v z"))
def yv_by_order(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """dY/dv."""


@tg.op(kernel=ours(FILE, "iv_by_order", "iv_dv(v, z)", "v z"))
def iv_by_order(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """dI/dv."""


@tg.op(kernel=ours(FILE, "kv_by_order", "kv_dv(v, z)", "v z"))
def kv_by_order(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """dK/dv."""


@tg.op(kernel=ours(FILE, "kve_by_order", "kve_dv(v, z)", "v z"))
def kve_by_order(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """d/dv of exp(z) K."""


@tg.op(kernel=ours(FILE, "kve_by_argument", "kve_dx(v, z)", "v z"))
def kve_by_argument(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """d/dz of exp(z) K, which its recurrence loses at large z."""


@jv_by_order.partial("z")
def _(v: Tensor, z: Tensor, out: Tensor) -> Any:
    return v / z * out - jv_by_order(v + 1, z) + jv(v, z) / z


@yv_by_order.partial("z")
def _(v: Tensor, z: Tensor, out: Tensor) -> Any:
    return v / z * out - yv_by_order(v + 1, z) + yv(v, z) / z


@iv_by_order.partial("z")
def _(v: Tensor, z: Tensor, out: Tensor) -> Any:
    return v / z * out + iv_by_order(v + 1, z) + iv(v, z) / z


@kv_by_order.partial("z")
def _(v: Tensor, z: Tensor) -> Any:
    return -(kv_by_order(v - 1, z) + kv_by_order(v + 1, z)) / 2


@kve_by_order.partial("z")
def _(v: Tensor, z: Tensor, out: Tensor) -> Any:
    return out - (kve_by_order(v - 1, z) + kve_by_order(v + 1, z)) / 2


@kve_by_argument.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    return kve_by_order(v, z) - (kve_by_order(v - 1, z) + kve_by_order(v + 1, z)) / 2


@kve_by_argument.partial("z")
def _(v: Tensor, z: Tensor, out: Tensor) -> Any:
    """By Bessel's equation (DLMF 10.25.1)."""
    value = kve(v, z)
    return 2 * out + (v / z) ** 2 * value + (value - out) / z


no_second_derivative(jv_by_order, "jv", "v")
no_second_derivative(yv_by_order, "yv", "v")
no_second_derivative(iv_by_order, "iv", "v")
no_second_derivative(kv_by_order, "kv", "v")
no_second_derivative(kve_by_order, "kve", "v")

# -- functions ------------------------------------------------------------------------------------------------------


@tg.op(kernel=lent("jv", 2, "__pyx_fuse_1jv"))
@tg.domain(z="positive")
def jv(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The Bessel function of the first kind J_v(z) (DLMF 10.2.2; derivative 10.6.2).

    Args:
        v: order, any real number.
        z: positive argument.

    Returns:
        In the shape to which the arguments broadcast; outside of the domain what SciPy gives, without a gradient (NaN).

    Raises:
        DerivativeError: a second derivative in `v` is asked for.

    Example:
        >>> jv(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.5130)
    """


@jv.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    return jv_by_order(v, z)


@jv.partial("z")
def _(v: Tensor, z: Tensor, out: Tensor) -> Any:
    return v / z * out - jv(v + 1, z)


@tg.op(kernel=lent("yv", 2, "__pyx_fuse_1yv"))
@tg.domain(z="positive")
def yv(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The Bessel function of the second kind Y_v(z) (DLMF 10.2.3; derivative 10.6.2).

    Args:
        v: order, any real number.
        z: positive argument.

    Returns:
        In the shape to which the arguments broadcast; outside of the domain what SciPy gives, without a gradient (NaN).

    Raises:
        DerivativeError: a second derivative in `v` is asked for.

    Example:
        >>> yv(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.2348)
    """


@yv.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    return yv_by_order(v, z)


@yv.partial("z")
def _(v: Tensor, z: Tensor, out: Tensor) -> Any:
    return v / z * out - yv(v + 1, z)


@tg.op(kernel=lent("iv", 2, "__pyx_fuse_1iv"))
@tg.domain(z="positive")
def iv(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The modified Bessel function of the first kind I_v(z) (DLMF 10.25.2; derivative 10.29.2).

    Args:
        v: order, any real number.
        z: positive argument.

    Returns:
        In the shape to which the arguments broadcast; outside of the domain what SciPy gives, without a gradient (NaN).

    Raises:
        DerivativeError: a second derivative in `v` is asked for.

    Example:
        >>> iv(torch.tensor(0.5), torch.tensor(2.0))
        tensor(2.0462)
    """


@iv.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    return iv_by_order(v, z)


@iv.partial("z")
def _(v: Tensor, z: Tensor, out: Tensor) -> Any:
    return v / z * out + iv(v + 1, z)


@tg.op(kernel=lent("kv", 2, "__pyx_fuse_1kv"))
@tg.domain(z="positive")
def kv(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The modified Bessel function of the second kind K_v(z) (DLMF 10.27.4; derivative 10.29.1).

    Args:
        v: order, any real number.
        z: positive argument.

    Returns:
        In the shape to which the arguments broadcast; outside of the domain what SciPy gives, without a gradient (NaN).

    Raises:
        DerivativeError: a second derivative in `v` is asked for.

    Example:
        >>> kv(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.1199)
    """


@kv.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    return kv_by_order(v, z)


@kv.partial("z")
def _(v: Tensor, z: Tensor) -> Any:
    return -(kv(v - 1, z) + kv(v + 1, z)) / 2


@tg.op(kernel=lent("kve", 2, "__pyx_fuse_1kve"))
@tg.domain(z="positive")
def kve(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The scaled modified Bessel function exp(z) K_v(z) (DLMF 10.27.4).

    Args:
        v: order, any real number.
        z: positive argument.

    Returns:
        In the shape to which the arguments broadcast; outside of the domain what SciPy gives, without a gradient (NaN).

    Raises:
        DerivativeError: a second derivative in `v` is asked for.

    Example:
        >>> kve(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.8862)
    """


@kve.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    return kve_by_order(v, z)


@kve.partial("z")
def _(v: Tensor, z: Tensor) -> Any:
    return kve_by_argument(v, z)
