"""Owen's T function, twice differentiable in both arguments.

Values are SciPy's, but where it loses digits. Those, and derivatives, come from `kernels/owens.c`, which says how.
"""

from .docstrings import SHAPE
from .sources import ours
from .table import Input, function, refuse_order

FILE = "owens.c"
MOST = 2

owens_t_nth = function(
    "owens_t_nth", ours(FILE, "owens_t_derivative(h, a, i, j)"), "The derivative of order `i` in h and `j` in a.",
    h=lambda h, a, i, j: owens_t_nth(h, a, i + 1, j) if i + j < MOST else refuse_order("owens_t", "h", MOST),
    a=lambda h, a, i, j: owens_t_nth(h, a, i, j + 1) if i + j < MOST else refuse_order("owens_t", "a", MOST),
    i=int, j=int,
)  # fmt: skip

owens_t = function(
    "owens_t", ours(FILE, "owens_t_by_series(h, a) ? owens_t_series(h, a) : SCIPY(owens_t)"),
    "Owen's T function, P(X > h and 0 < Y < aX) of standard normal X and Y (Owen 1956).",
    h=Input(
        "any real number.", "real", lambda h, a: owens_t_nth(h, a, 1, 0),
        "-exp(-h^2 / 2) erf(a h / sqrt(2)) / (2 sqrt(2 pi)), by definition (Owen 1956; `kernels/owens.c`).",
    ),
    a=Input(
        "any real number.", "real", lambda h, a: owens_t_nth(h, a, 0, 1),
        "exp(-h^2 (1 + a^2) / 2) / (2 pi (1 + a^2)), by definition (Owen 1956; `kernels/owens.c`).",
    ),
    returns=f"{SHAPE}. Where abs(h) > 4 and abs(a) < 0.01 the value is ours: there SciPy's has lost some 1e-15 / "
    "abs(a) of it.",
    raises="a third derivative", cuda_by_c=ours(FILE, "owens_t_alone(h, a)"),
    example=("owens_t(torch.tensor(0.5), torch.tensor(2.0))", "tensor(0.1416)"),
)  # fmt: skip
