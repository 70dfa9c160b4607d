"""The Airy functions, differentiable to any order.

Values are SciPy's from -10 to 100, beyond which it loses digits. What is ours comes from `kernels/airy.c`, which says
how.
"""

from .sources import whole
from .table import Input, function

FILE = "airy.c"

airy_nth = function(
    "airy_nth", whole(FILE), "The derivatives of order `n` of Ai, Ai', Bi and Bi' (DLMF 9.2.1, differentiated).",
    z=lambda z, n: airy_nth(z, n + 1), n=int, outputs=4,
)  # fmt: skip

airy = function(
    "airy", whole(FILE), "The Airy functions Ai and Bi and their derivatives (DLMF 9.2).",
    z=Input(
        "any real number.", "real", lambda z: airy_nth(z, 1),
        "Ai', z Ai, Bi' and z Bi (DLMF 9.2.1; `kernels/airy.c`).",
    ),
    outputs=4, returns="Ai(z), Ai'(z), Bi(z) and Bi'(z), each in the shape of the argument; NaN below -1e18 "
    "(on CUDA, -1e12), where the phase is not known.",
    example=("airy(torch.tensor(1.0))", "(tensor(0.1353), tensor(-0.1591), tensor(1.2074), tensor(0.9324))"),
)  # fmt: skip
