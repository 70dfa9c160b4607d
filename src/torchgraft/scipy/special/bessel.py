"""Bessel functions of real order, differentiable in the order and in the argument.

Values are SciPy's where they are right, else ours: of J and Y above 8192, of all next to 0 and where they under- or
overflow. Where nobody knows the phase, for orders and arguments that are both above 1e20, J and Y are NaN.

Derivatives come from `kernels/bessel.c`, which says how, to the second order in the argument, and with the first in the
order.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Real
from torch import Tensor

import torchgraft as tg

from ..._build.source import Source, c
from .nth import nth_source, refuse_order
from .refusals import no_second_derivative
from .sources import kernel_text

FILE = "bessel.c"

# -- derivatives ----------------------------------------------------------------------------------------------------


def _derivatives(name: str) -> tuple[tg.Op[..., Any], tg.Op[..., Any]]:
    """Operators of v, z and n: the derivative of order `n` in the argument; that in the order, of f or (1) of f'."""

    def by_argument(v: Real[Tensor, "..."], z: Real[Tensor, "..."], n: int) -> Float[Tensor, "..."]: ...
    def by_order(v: Real[Tensor, "..."], z: Real[Tensor, "..."], n: int) -> Float[Tensor, "..."]: ...

    nth = tg.op(name=f"{name}_nth", kernel=_kernel(f"{name}_nth", f"{name}_n(v, z, n)"))(by_argument)
    order = tg.op(name=f"{name}_by_order", kernel=_kernel(f"{name}_by_order", f"{name}_dv(v, z, n)"))(by_order)

    @nth.partial("v")
    def _(v: Tensor, z: Tensor, n: int) -> Any:
        return order(v, z, n) if n < 2 else refuse_order(name, "v", 2)

    @nth.partial("z")
    def _(v: Tensor, z: Tensor, n: int) -> Any:
        return nth(v, z, n + 1) if n < 2 else refuse_order(name, "z", 2)

    @order.partial("z")
    def _(v: Tensor, z: Tensor, n: int) -> Any:
        return order(v, z, n + 1) if n < 1 else refuse_order(name, "z", 2)

    no_second_derivative(order, name, "v")
    return nth, order


def _kernel(name: str, call: str) -> Source:
    return nth_source(FILE, f"T {name}(T v, T z, int64_t n)", call)


def _value(name: str, ours: str, wrong: str = "") -> Source:
    """SciPy's function, and ours where that is not right.

    Args:
        name: of the operator.
        ours: of the function in `FILE`.
        wrong: where SciPy's is to be replaced as well, in C.
    """
    lent = f"scipy_{name}"
    chosen = f"({wrong or 0}) || doubtful(f, z) ? better(f, {ours}_n(v, z, 0)) : f"
    return c(
        f"{kernel_text(FILE)}\nTG_IMPORT(double, {lent}, (double, double, int))\n"
        f"T {name}(T v, T z) {{ double f = {lent}(v, z, 0); return (T)({chosen}); }}",
        flags=["-ffp-contract=off"],
        imports={lent: f"scipy.special.cython_special:__pyx_fuse_1{name}"},
    )


jv_nth, jv_by_order = _derivatives("jv")
yv_nth, yv_by_order = _derivatives("yv")
iv_nth, iv_by_order = _derivatives("iv")
kv_nth, kv_by_order = _derivatives("kv")
ive_nth, ive_by_order = _derivatives("ive")
kve_nth, kve_by_order = _derivatives("kve")

# -- functions ------------------------------------------------------------------------------------------------------


@tg.op(kernel=_value("jv", "jv", "loses_phase(v, z)"))
@tg.domain(z="positive")
def jv(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The Bessel function of the first kind J_v(z) (DLMF 10.2.2).

    Args:
        v: order, any real number.
        z: argument, not negative, or any where `v` is an integer.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy. For z < 0, where
        J is real at integer orders alone, there is no derivative in `v` (NaN).

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> jv(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.5130)
    """


@jv.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    """dJ/dv (DLMF 10.2.2, 10.9.17 and 10.9.18, differentiated in v; `kernels/bessel.c`)."""
    return jv_by_order(v, z, 0)


@jv.partial("z")
def _(v: Tensor, z: Tensor) -> Any:
    """dJ/dz (DLMF 10.2.2, 10.9.17 and 10.9.18, differentiated in z; `kernels/bessel.c`)."""
    return jv_nth(v, z, 1)


@tg.op(kernel=_value("yv", "yv", "loses_phase(v, z)"))
@tg.domain(z="positive")
def yv(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The Bessel function of the second kind Y_v(z) (DLMF 10.2.3).

    Args:
        v: order, any real number.
        z: argument, not negative.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> yv(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.2348)
    """


@yv.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    """dY/dv (DLMF 10.9.18, differentiated in v; Temme 1976 for small z; `kernels/bessel.c`)."""
    return yv_by_order(v, z, 0)


@yv.partial("z")
def _(v: Tensor, z: Tensor) -> Any:
    """dY/dz (DLMF 10.9.18, differentiated in z; Temme 1976 for small z; `kernels/bessel.c`)."""
    return yv_nth(v, z, 1)


@tg.op(kernel=_value("iv", "iv"))
@tg.domain(z="positive")
def iv(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The modified Bessel function of the first kind I_v(z) (DLMF 10.25.2).

    Args:
        v: order, any real number.
        z: argument, not negative, or any where `v` is an integer.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy. For z < 0, where
        I is real at integer orders alone, there is no derivative in `v` (NaN).

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> iv(torch.tensor(0.5), torch.tensor(2.0))
        tensor(2.0462)
    """


@iv.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    """dI/dv (DLMF 10.25.2 and 10.32.12, differentiated in v; `kernels/bessel.c`)."""
    return iv_by_order(v, z, 0)


@iv.partial("z")
def _(v: Tensor, z: Tensor) -> Any:
    """dI/dz (DLMF 10.25.2 and 10.32.12, differentiated in z; `kernels/bessel.c`)."""
    return iv_nth(v, z, 1)


@tg.op(kernel=_value("kv", "kv"))
@tg.domain(z="positive")
def kv(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The modified Bessel function of the second kind K_v(z) (DLMF 10.27.4).

    Args:
        v: order, any real number.
        z: argument, not negative.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> kv(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.1199)
    """


@kv.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    """dK/dv (DLMF 10.32.9, differentiated in v; Temme 1975 for small z; `kernels/bessel.c`)."""
    return kv_by_order(v, z, 0)


@kv.partial("z")
def _(v: Tensor, z: Tensor) -> Any:
    """dK/dz (DLMF 10.32.9, differentiated in z; Temme 1975 for small z; `kernels/bessel.c`)."""
    return kv_nth(v, z, 1)


@tg.op(kernel=_value("jve", "jv", "loses_phase(v, z)"))
@tg.domain(z="positive")
def jve(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The scaled Bessel function of the first kind, of real argument `jv` itself (DLMF 10.2.2).

    Args:
        v: order, any real number.
        z: argument, not negative, or any where `v` is an integer.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy. For z < 0, where
        J is real at integer orders alone, there is no derivative in `v` (NaN).

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> jve(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.5130)
    """


@jve.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    """dJ/dv (DLMF 10.2.2, 10.9.17 and 10.9.18, differentiated in v; `kernels/bessel.c`)."""
    return jv_by_order(v, z, 0)


@jve.partial("z")
def _(v: Tensor, z: Tensor) -> Any:
    """dJ/dz (DLMF 10.2.2, 10.9.17 and 10.9.18, differentiated in z; `kernels/bessel.c`)."""
    return jv_nth(v, z, 1)


@tg.op(kernel=_value("yve", "yv", "loses_phase(v, z)"))
@tg.domain(z="positive")
def yve(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The scaled Bessel function of the second kind, of real argument `yv` itself (DLMF 10.2.3).

    Args:
        v: order, any real number.
        z: argument, not negative.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> yve(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.2348)
    """


@yve.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    """dY/dv (DLMF 10.9.18, differentiated in v; Temme 1976 for small z; `kernels/bessel.c`)."""
    return yv_by_order(v, z, 0)


@yve.partial("z")
def _(v: Tensor, z: Tensor) -> Any:
    """dY/dz (DLMF 10.9.18, differentiated in z; Temme 1976 for small z; `kernels/bessel.c`)."""
    return yv_nth(v, z, 1)


@tg.op(kernel=_value("ive", "ive", "needs_k(v, z)"))
@tg.domain(z="positive")
def ive(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The scaled modified Bessel function exp(-abs(z)) I_v(z) (DLMF 10.25.2).

    Args:
        v: order, any real number.
        z: argument, not negative, or any where `v` is an integer.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy. For z < 0, where
        I is real at integer orders alone, there is no derivative in `v` (NaN). At 0 the derivative of even
        orders is 0, the mean of both sides.

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> ive(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.2769)
    """


@ive.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    """exp(-|z|) dI/dv (DLMF 10.25.2 and 10.32.12, differentiated in v; `kernels/bessel.c`)."""
    return ive_by_order(v, z, 0)


@ive.partial("z")
def _(v: Tensor, z: Tensor) -> Any:
    """The derivative of exp(-|z|) I (DLMF 10.25.2 and 10.32.12, differentiated in z; `kernels/bessel.c`)."""
    return ive_nth(v, z, 1)


@tg.op(kernel=_value("kve", "kve"))
@tg.domain(z="positive")
def kve(v: Real[Tensor, "..."], z: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The scaled modified Bessel function exp(z) K_v(z) (DLMF 10.27.4).

    Args:
        v: order, any real number.
        z: argument, not negative.

    Returns:
        In the shape to which the arguments broadcast; NaN outside of the domain, as in SciPy.

    Raises:
        DerivativeError: a second derivative in `v`, or any third derivative, is asked for.

    Example:
        >>> kve(torch.tensor(0.5), torch.tensor(2.0))
        tensor(0.8862)
    """


@kve.partial("v")
def _(v: Tensor, z: Tensor) -> Any:
    """exp(z) dK/dv (DLMF 10.32.9, differentiated in v; Temme 1975 for small z; `kernels/bessel.c`)."""
    return kve_by_order(v, z, 0)


@kve.partial("z")
def _(v: Tensor, z: Tensor) -> Any:
    """The derivative of exp(z) K (DLMF 10.32.9, differentiated in z; Temme 1975 for small z; `kernels/bessel.c`)."""
    return kve_nth(v, z, 1)
