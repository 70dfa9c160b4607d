"""Hypergeometric functions 0F1, 1F1 and 2F1, differentiable in the argument to any order.

Values are SciPy's where they are right, and ours elsewhere. These and derivatives come from `kernels/hyper.c`, which
says how.
"""

from .docstrings import SHAPE
from .sources import ours
from .table import Input, Refused, function

FILE = "hyper.c"
SERIES = Refused(
    "the derivative in a parameter of a hypergeometric function is a series of its own, which is not there"
)

# -- derivatives ----------------------------------------------------------------------------------------------------

hyp0f1_nth = function(
    "hyp0f1_nth", ours(FILE, "hyp0f1_derivative(v, z, n)"), "The derivative of order `n` in z.",
    v=SERIES, z=lambda v, z, n: hyp0f1_nth(v, z, n + 1), n=int,
)  # fmt: skip

hyp1f1_nth = function(
    "hyp1f1_nth", ours(FILE, "hyp1f1_derivative(a, b, x, n)"), "The derivative of order `n` in x.",
    a=SERIES, b=SERIES, x=lambda a, b, x, n: hyp1f1_nth(a, b, x, n + 1), n=int,
)  # fmt: skip

hyp2f1_nth = function(
    "hyp2f1_nth", ours(FILE, "hyp2f1_derivative(a, b, c, z, n)"), "The derivative of order `n` in z.",
    a=SERIES, b=SERIES, c=SERIES, z=lambda a, b, c, z, n: hyp2f1_nth(a, b, c, z, n + 1), n=int,
)  # fmt: skip

# -- functions ------------------------------------------------------------------------------------------------------

hyp0f1 = function(
    "hyp0f1", ours(FILE, "hyp0f1_value(v, z)"),
    "The confluent hypergeometric limit function 0F1(; v; z) (DLMF 16.2.1; derivative 16.3.1).\n\n"
    "Values are SciPy's, and ours where it has nothing finite, or may have nothing right: abs(z) > 1e4, abs(v) > 1000, "
    "z < 0 and v > 150, v < -165 or abs(v - 1) log(-z) > 1300, and v < 0 next to an integer. They are NaN where "
    "neither is right, as may be for v < -300 and z < -2e5, and for z < -1e39, where nobody knows the phase.",
    v=Input("parameter, any real number but 0, -1, -2, ...", "positive", SERIES),
    z=Input(
        "argument, any real number.", "real", lambda v, z: hyp0f1_nth(v, z, 1),
        "0F1(; v + 1; z) / v (DLMF 16.3.1; `kernels/hyper.c`).",
    ),
    returns=f"{SHAPE}.", raises="a derivative in `v`", example=("hyp0f1(2.5, torch.tensor(1.0))", "tensor(1.4616)"),
)  # fmt: skip

hyp1f1 = function(
    "hyp1f1", ours(FILE, "hyp1f1_derivative(a, b, x, 0)"),
    "Kummer's confluent hypergeometric function 1F1(a; b; x) (DLMF 13.2.2; derivative 13.3.16).\n\n"
    "Values are SciPy's, and ours where these are wrong or may be: for -3 < x < 0 unless a < b, for b < 0 unless both "
    "parameters are of moderate size, and where a, b or b - a is next to an integer. They are NaN where that would "
    "take too long, as may be for ``|x|`` > 1000 there. SciPy's, which does not return at many points with parameters "
    "or arguments above 1e4 or below 1e-250, is not called with these.",
    a=Input("parameter, any real number.", "real", SERIES),
    b=Input("parameter, any real number but 0, -1, -2, ...", "positive", SERIES),
    x=Input(
        "argument, any real number.", "real", lambda a, b, x: hyp1f1_nth(a, b, x, 1),
        "(a / b) 1F1(a + 1; b + 1; x) (DLMF 13.3.15; `kernels/hyper.c`).",
    ),
    returns=f"{SHAPE}.", raises="a derivative in `a` or `b`",
    example=("hyp1f1(0.5, 2.5, torch.tensor(1.0))", "tensor(1.2523)"),
)  # fmt: skip

hyp2f1 = function(
    "hyp2f1", ours(FILE, "hyp2f1_value(a, b, c, z)"),
    "Gauss' hypergeometric function 2F1(a, b; c; z) (DLMF 15.2.1; derivative 15.5.1).\n\n"
    "Values are SciPy's for a and b from -6 to 6, c > 0.1 and z from -2 to 0.9, unless one of them is next to an "
    "integer or to 0. Elsewhere SciPy's has few right digits or none at many points, and values are ours, which take "
    "some 20 microseconds, and up to milliseconds where large terms cancel. Values and derivatives are NaN where that "
    "would take too long, as may be with parameters above 1000.",
    a=Input("parameter, any real number.", "positive", SERIES),
    b=Input("parameter, any real number.", "positive", SERIES),
    c=Input("parameter, any real number but 0, -1, -2, ...", "positive", SERIES),
    z=Input(
        "argument, below 1.", "(-2, 0.5)", lambda a, b, c, z: hyp2f1_nth(a, b, c, z, 1),
        "(a b / c) 2F1(a + 1, b + 1; c + 1; z) (DLMF 15.5.1; `kernels/hyper.c`).",
    ),
    returns=f"{SHAPE}; outside of the domain what SciPy gives.", raises="a derivative in `a`, `b` or `c`",
    example=("hyp2f1(0.5, 1.5, 2.5, torch.tensor(0.5))", "tensor(1.2108)"),
)  # fmt: skip
