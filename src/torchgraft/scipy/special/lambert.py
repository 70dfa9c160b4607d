"""Lambert's W: its real branches, differentiable to any order, also next to the branch point.

Values and derivatives come from `kernels/lambertw.c`, which says how; SciPy's lose half of their digits there.
"""

from typing import Literal

from .sources import ours
from .table import Input, Option, function

FILE = "lambertw.c"

lambertw_nth = function(
    "lambertw_nth", ours(FILE, "lambertw_derivative(z, k, n)"), "The derivative of order `n` of the branch `k`.",
    z=lambda z, k, n: lambertw_nth(z, k, n + 1), k=int, n=int,
)  # fmt: skip

lambertw = function(
    "lambertw", ours(FILE, "lambertw_value(z, k)"),
    "The real branches of Lambert's W, the inverse of w exp(w) (DLMF 4.13.1; derivative 4.13.4).",
    z=Input(
        "argument, at least -1/e; on the branch -1 also at most 0. The double ``-exp(-1)`` stands for -1/e.",
        "(-1/e, 0)", lambda z, k: lambertw_nth(z, k, 1), "exp(-w) / (1 + w) (DLMF 4.13.4; `kernels/lambertw.c`).",
    ),
    k=Option(Literal[0, -1], "the branch: 0, which has w >= -1, or -1, which has w <= -1.", 0),
    tol=Option(float, "of SciPy's iteration; it has no effect, as all digits are right.", 1e-8),
    returns="Real numbers, in the shape of the argument; NaN where the branch is not real. SciPy returns complex ones.",
    example=("lambertw(torch.tensor([1.0, -0.2]))", "tensor([ 0.5671, -0.2592])"),
)  # fmt: skip
