"""Spherical Bessel functions, differentiable in the argument to the third order.

Values are SciPy's where it has them. Derivatives come from `kernels/spherical.c`, which says how.
"""

from __future__ import annotations

from typing import Any

import torchgraft as tg

from .docstrings import SHAPE
from .sources import Kernel, kernel_text, ours, source
from .table import Input, Option, Refused, function, refuse_order

FILE = "spherical.c"
INTEGER = Refused("the order is an integer")

# -- derivatives ----------------------------------------------------------------------------------------------------


def _derivatives(kind: str) -> tg.Op[..., Any]:
    """An operator of n, z and d: the derivative of order `d` of a function in `FILE`, j, y, i or k."""
    name = f"spherical_{kind}n"
    nth = function(
        f"{name}_nth", ours(FILE, f"spherical_{kind}(n, z, d)"), f"The derivative of order `d` of `{name}` in `z`.",
        n=INTEGER, z=lambda n, z, d: nth(n, z, d + 1) if d < 3 else refuse_order(name, "z", 3), d=int,
    )  # fmt: skip
    return nth


spherical_jn_nth = _derivatives("j")
spherical_yn_nth = _derivatives("y")
spherical_in_nth = _derivatives("i")
spherical_kn_nth = _derivatives("k")

# -- functions ------------------------------------------------------------------------------------------------------


def _value(kind: str, where: str) -> Kernel:
    """SciPy's function and derivative, of negative arguments as well by parity; ours where it has 0 or nothing finite.

    Args:
        kind: j, y, i or k.
        where: SciPy's is to be used, in C.
    """
    sign = "-" if kind == "y" else ""

    def made(name: str, parameters: Any) -> Any:
        options = f"struct __pyx_fuse_1__pyx_opt_args_5scipy_7special_14cython_special_{name}"
        return source(
            kernel_text(FILE),
            f"""
{options} {{ int count, derivative; }};
typedef ptrdiff_t Py_ssize_t;
TG_IMPORT(double, scipy_{name}, (Py_ssize_t, double, int, {options} *))
T {name}(T n, T z, bool derivative) {{
    double f = 0;
    if (n >= 0 && n <= MANY && z != 0 && ({where})) {{
        {options} options = {{1, derivative}};
        f = scipy_{name}((Py_ssize_t)n, fabs(z), 0, &options);
        if (z < 0) f *= {sign}sign_of(trunc(n)) * sign_of(derivative);
        if (derivative && fabs(f) < 1e-290) f = 0; /* it is a difference, of which few digits are left */
    }}
    return (T)(f == 0 || !isfinite(f) ? spherical_{kind}(n, z, derivative) : f);
}}""",
        )

    return made


BEYOND_SERIES = "!derivative || !few_terms(n, z)"  # Within, SciPy's derivatives lose their digits.


def _spherical(
    kind: str, nth: tg.Op[..., Any], where: str, summary: str, *, z: str, formula: str, prints: str
) -> tg.Op[..., Any]:
    """Declare one of the four functions.

    Args:
        kind: j, y, i or k.
        nth: its derivatives, of `_derivatives`.
        where: SciPy's value is right, in C.
        summary: of its docstring.
        z: the argument, in words.
        formula: that of the derivative.
        prints: what the example prints.
    """
    return function(
        f"spherical_{kind}n", _value(kind, where), summary,
        n=Input(
            "order, an integer that is not negative; SciPy drops what a number has behind the point.", {0, 1, 2, 7},
            INTEGER,
        ),
        z=Input(z, "positive", lambda n, z, derivative: nth(n, z, 1 + derivative), formula),
        derivative=Option(bool, "whether to give the derivative instead, which is differentiable as well.", False),
        returns=f"{SHAPE}; NaN where `n` is negative, as in SciPy.",
        raises="a derivative in `n`, or one of an order above three in `z`,",
        cuda_by_c=ours(FILE, f"spherical_{kind}(n, z, derivative)"),
        example=(f"spherical_{kind}n(2, torch.tensor(2.0))", f"tensor({prints})"),
    )  # fmt: skip


spherical_jn = _spherical(
    "j", spherical_jn_nth, BEYOND_SERIES,
    "The spherical Bessel function of the first kind j_n(z) (DLMF 10.47.3; derivative 10.51.2).",
    z="any real number.", prints="0.1984",
    formula="dj/dz (DLMF 10.51.2; 10.53.1 for small z, differentiated; `kernels/spherical.c`).",
)  # fmt: skip

spherical_yn = _spherical(
    "y", spherical_yn_nth, "true",
    "The spherical Bessel function of the second kind y_n(z) (DLMF 10.47.4; derivative 10.51.2).",
    z="any real number; at 0 the function is taken from the right.", prints="-0.7340",
    formula="dy/dz (DLMF 10.51.2; `kernels/spherical.c`).",
)  # fmt: skip

spherical_in = _spherical(
    "i", spherical_in_nth, BEYOND_SERIES,
    "The modified spherical Bessel function of the first kind i_n(z) (DLMF 10.47.7; derivative 10.51.5).",
    z="any real number.", prints="0.3519",
    formula="di/dz (DLMF 10.51.5; 10.53.3 for small z, differentiated; `kernels/spherical.c`).",
)  # fmt: skip

spherical_kn = _spherical(
    "k", spherical_kn_nth, "!derivative && z > 0",
    "The modified spherical Bessel function of the second kind k_n(z) (DLMF 10.47.9; derivative 10.51.5).",
    z="any real number; at 0 the function is taken from the right.", prints="0.3454",
    formula="dk/dz (DLMF 10.51.5; `kernels/spherical.c`).",
)  # fmt: skip
