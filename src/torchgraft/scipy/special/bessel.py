"""Bessel functions of real order, differentiable in the order and in the argument.

Values are SciPy's where they are right, else ours: of large orders and arguments, next to 0, and where they under- or
overflow. Where nobody knows the phase, for orders and arguments that are both above 1e20, J and Y are NaN.

Derivatives come from `kernels/bessel.c`, which says how, to the second order in the argument, and with the first in the
order.
"""

from __future__ import annotations

from typing import Any

import torchgraft as tg

from .docstrings import BROADCAST
from .sources import ours
from .table import Input, function, refuse_order, second_of

FILE = "bessel.c"

# -- derivatives ----------------------------------------------------------------------------------------------------


def _derivatives(name: str) -> tuple[tg.Op[..., Any], tg.Op[..., Any]]:
    """Operators of v, z and n: the derivative of order `n` in the argument; that in the order, of f or (1) of f'."""
    nth = function(
        f"{name}_nth", ours(FILE, f"{name}_n(v, z, n)"), f"The derivative of order `n` of `{name}` in `z`.",
        v=lambda v, z, n: by_order(v, z, n) if n < 2 else refuse_order(name, "v", 2),
        z=lambda v, z, n: nth(v, z, n + 1) if n < 2 else refuse_order(name, "z", 2),
        n=int,
    )  # fmt: skip
    by_order = function(
        f"{name}_by_order", ours(FILE, f"{name}_dv(v, z, n)"),
        f"The derivative in `v` of `{name}`, or (1) of its derivative in `z`.",
        v=second_of(name),
        z=lambda v, z, n: by_order(v, z, n + 1) if n < 1 else refuse_order(name, "z", 2),
        n=int,
    )  # fmt: skip
    return nth, by_order


jv_nth, jv_by_order = _derivatives("jv")
yv_nth, yv_by_order = _derivatives("yv")
iv_nth, iv_by_order = _derivatives("iv")
kv_nth, kv_by_order = _derivatives("kv")
ive_nth, ive_by_order = _derivatives("ive")
kve_nth, kve_by_order = _derivatives("kve")

# -- functions ------------------------------------------------------------------------------------------------------


def _bessel(
    name: str,
    summary: str,
    derivatives: tuple[tg.Op[..., Any], tg.Op[..., Any]],
    *,
    v: str,
    z: str,
    prints: str,
    value: str = "",
    wrong: str = "false",
    first: str = "",
    note: str = "",
) -> tg.Op[..., Any]:
    """Declare a function: SciPy's value, and ours where that is not right.

    Args:
        name: of the function.
        summary: of its docstring.
        derivatives: what `_derivatives` returned.
        v: formula of the derivative in the order.
        z: formula of the derivative in the argument.
        prints: what the example prints.
        value: the name of our function, where it is another one.
        wrong: where SciPy's is to be replaced as well, in C.
        first: the letter of a function of the first kind, which has values at negative arguments.
        note: on its values.
    """
    nth, by_order = derivatives
    chosen = f"{wrong} || loses_digits(v, z) || doubtful(f, z) ? better(f, {value or name}_n(v, z, 0)) : f"
    below = f" For z < 0, where {first} is real at integer orders alone, there is no derivative in `v` (NaN)."
    return function(
        name, ours(FILE, f"double f = SCIPY({name}); return (T)({chosen});"), summary,
        v=Input("order, any real number.", None, lambda v, z: by_order(v, z, 0), v),
        z=Input(
            f"argument, not negative{', or any where `v` is an integer' if first else ''}.", "positive",
            lambda v, z: nth(v, z, 1), z,
        ),
        returns=f"{BROADCAST}{below if first else ''}{note}",
        raises="a second derivative in `v`, or any third derivative,",
        cuda_by_c=ours(FILE, f"{value or name}_n(v, z, 0)"),
        example=(f"{name}(torch.tensor(0.5), torch.tensor(2.0))", f"tensor({prints})"),
    )  # fmt: skip


jv = _bessel(
    "jv", "The Bessel function of the first kind J_v(z) (DLMF 10.2.2).", (jv_nth, jv_by_order),
    v="dJ/dv (DLMF 10.2.2, 10.9.17 and 10.9.18, differentiated in v; `kernels/bessel.c`).",
    z="dJ/dz (DLMF 10.2.2, 10.9.17 and 10.9.18, differentiated in z; `kernels/bessel.c`).",
    first="J", prints="0.5130",
)  # fmt: skip

yv = _bessel(
    "yv", "The Bessel function of the second kind Y_v(z) (DLMF 10.2.3).", (yv_nth, yv_by_order),
    v="dY/dv (DLMF 10.9.18, differentiated in v; Temme 1976 for small z; `kernels/bessel.c`).",
    z="dY/dz (DLMF 10.9.18, differentiated in z; Temme 1976 for small z; `kernels/bessel.c`).",
    prints="0.2348",
)  # fmt: skip

iv = _bessel(
    "iv", "The modified Bessel function of the first kind I_v(z) (DLMF 10.25.2).", (iv_nth, iv_by_order),
    v="dI/dv (DLMF 10.25.2 and 10.32.12, differentiated in v; `kernels/bessel.c`).",
    z="dI/dz (DLMF 10.25.2 and 10.32.12, differentiated in z; `kernels/bessel.c`).",
    first="I", prints="2.0462",
)  # fmt: skip

kv = _bessel(
    "kv", "The modified Bessel function of the second kind K_v(z) (DLMF 10.27.4).", (kv_nth, kv_by_order),
    v="dK/dv (DLMF 10.32.9, differentiated in v; Temme 1975 for small z; `kernels/bessel.c`).",
    z="dK/dz (DLMF 10.32.9, differentiated in z; Temme 1975 for small z; `kernels/bessel.c`).",
    prints="0.1199",
)  # fmt: skip

jve = _bessel(
    "jve", "The scaled Bessel function of the first kind, of real argument `jv` itself (DLMF 10.2.2).",
    (jv_nth, jv_by_order),
    v="dJ/dv (DLMF 10.2.2, 10.9.17 and 10.9.18, differentiated in v; `kernels/bessel.c`).",
    z="dJ/dz (DLMF 10.2.2, 10.9.17 and 10.9.18, differentiated in z; `kernels/bessel.c`).",
    value="jv", first="J", prints="0.5130",
)  # fmt: skip

yve = _bessel(
    "yve", "The scaled Bessel function of the second kind, of real argument `yv` itself (DLMF 10.2.3).",
    (yv_nth, yv_by_order),
    v="dY/dv (DLMF 10.9.18, differentiated in v; Temme 1976 for small z; `kernels/bessel.c`).",
    z="dY/dz (DLMF 10.9.18, differentiated in z; Temme 1976 for small z; `kernels/bessel.c`).",
    value="yv", prints="0.2348",
)  # fmt: skip

ive = _bessel(
    "ive", "The scaled modified Bessel function exp(-abs(z)) I_v(z) (DLMF 10.25.2).", (ive_nth, ive_by_order),
    v="exp(-|z|) dI/dv (DLMF 10.25.2 and 10.32.12, differentiated in v; `kernels/bessel.c`).",
    z="The derivative of exp(-|z|) I (DLMF 10.25.2 and 10.32.12, differentiated in z; `kernels/bessel.c`).",
    wrong="needs_k(v, z)", first="I", prints="0.2769",
    note=" At 0 the derivative of even orders is 0, the mean of both sides.",
)  # fmt: skip

kve = _bessel(
    "kve", "The scaled modified Bessel function exp(z) K_v(z) (DLMF 10.27.4).", (kve_nth, kve_by_order),
    v="exp(z) dK/dv (DLMF 10.32.9, differentiated in v; Temme 1975 for small z; `kernels/bessel.c`).",
    z="The derivative of exp(z) K (DLMF 10.32.9, differentiated in z; Temme 1975 for small z; `kernels/bessel.c`).",
    prints="0.8862",
)  # fmt: skip
