"""The Struve function, differentiable in the argument.

Values are SciPy's where they are right, else ours. Both, and derivatives to the second order, come from
`kernels/struve.c`, which says how.
"""

from .docstrings import BROADCAST
from .sources import ours
from .table import Input, Refused, function, refuse_order

FILE = "struve.c"
ORDER = Refused("no formula for the derivative in the order is implemented")

struve_nth = function(
    "struve_nth", ours(FILE, "struve_derivative(v, x, n)"), "The derivative of order `n`, 1 or 2, in the argument.",
    v=ORDER, x=lambda v, x, n: struve_nth(v, x, n + 1) if n < 2 else refuse_order("struve", "x", 2), n=int,
)  # fmt: skip

struve = function(
    "struve", ours(FILE, "struve_value(v, x)"), "The Struve function H_v(x) (DLMF 11.2.1).",
    v=Input("order, any real number.", None, ORDER),
    x=Input(
        "argument, not negative, or any where `v` is an integer.", "positive", lambda v, x: struve_nth(v, x, 1),
        "H_(v-1) - (v / x) H_v (DLMF 11.4.27, 11.2.1 and 11.2.5, differentiated; `kernels/struve.c`).",
    ),
    returns=BROADCAST, raises="a derivative in `v`, or a third one in `x`,",
    example=("struve(torch.tensor(0.5), torch.tensor(2.0))", "tensor(0.7990)"),
)  # fmt: skip
