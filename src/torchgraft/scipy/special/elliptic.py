"""Complete elliptic integrals, twice differentiable in the parameter.

Values are SciPy's. Derivatives come from `kernels/elliptic.c`, which says how.
"""

from .docstrings import NAN
from .sources import lent, ours
from .table import Input, function, nth

FILE = "elliptic.c"
THIRD = "a third derivative"

ellipk_nth = nth("ellipk", ours(FILE, "ellipk_by_c(1 - (double)x, n)"), most=2)
ellipkm1_nth = nth("ellipkm1", ours(FILE, "(n == 1 ? -1 : 1) * ellipk_by_c(x, n)"), most=2)
ellipe_nth = nth("ellipe", ours(FILE, "ellipe_by_c(1 - (double)x, n)"), most=2)

ellipk = function(
    "ellipk", lent("ellipk"),
    "The complete elliptic integral of the first kind K(m) (DLMF 19.2.8, m = k^2; derivative 19.4.1).",
    m=Input(
        "parameter, at most 1. Next to 1, `ellipkm1` has more digits.", "(-inf, 1)", lambda m: ellipk_nth(m, 1),
        "dK/dm (DLMF 19.4.1, by integrals that do not cancel; `kernels/elliptic.c`).",
    ),
    returns=f"In the shape of the parameter; {NAN}", raises=THIRD,
    cuda_by_c=ours(FILE, "ellipk_alone(1 - (double)m)"),
    example=("ellipk(torch.tensor(0.5))", "tensor(1.8541)"),
)  # fmt: skip

ellipkm1 = function(
    "ellipkm1", lent("ellipkm1"),
    "The complete elliptic integral of the first kind K(1 - p) (DLMF 19.2.8; derivative 19.4.1).",
    p=Input(
        "complement of the parameter, not negative.", "positive", lambda p: ellipkm1_nth(p, 1),
        "-dK/dm at m = 1 - p (DLMF 19.4.1, by integrals that do not cancel; `kernels/elliptic.c`).",
    ),
    returns=f"In the shape of the argument; {NAN}", raises=THIRD,
    cuda_by_c=ours(FILE, "ellipk_alone(p)"),
    example=("ellipkm1(torch.tensor(1e-8))", "tensor(10.5966)"),
)  # fmt: skip

ellipe = function(
    "ellipe", lent("ellipe"),
    "The complete elliptic integral of the second kind E(m) (DLMF 19.2.8, m = k^2; derivative 19.4.2).",
    m=Input(
        "parameter, at most 1.", "(-inf, 1)", lambda m: ellipe_nth(m, 1),
        "dE/dm (DLMF 19.4.2, by integrals that do not cancel; `kernels/elliptic.c`).",
    ),
    returns=f"In the shape of the parameter; {NAN}", raises=THIRD,
    cuda_by_c=ours(FILE, "ellipe_alone(1 - (double)m)"),
    example=("ellipe(torch.tensor(0.5))", "tensor(1.3506)"),
)  # fmt: skip
