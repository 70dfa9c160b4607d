"""Values of special functions on CUDA at the points of `tests/scipy/test_ends.py`, beside references in many digits."""

import math
import sys

import torch

from torchgraft._build.cuda.device import CUDA, standing_in
from torchgraft.scipy import special
from torchgraft.scipy.special import hurwitz

from ..scipy.test_ends import FUNCTIONS, allowed, is_close

PUBLIC = {name: getattr(special, name) for name in special.__all__}
BESSEL = ("iv", "ive", "jv", "jve", "kv", "kve", "yv", "yve")
SPHERICAL = ("spherical_in", "spherical_jn", "spherical_kn", "spherical_yn")
BY_C = (
    "betaln", "boxcox", "chdtr", "chdtrc", "dawsn", "digamma", "ellipe", "ellipk", "ellipkm1", "erfi", "exp1", "expi",
    "expn", "gammainc", "gammaincc", "inv_boxcox", "owens_t", "pdtr", "spence", "stdtr", "stdtrit", *BESSEL, *SPHERICAL,
)  # fmt: skip
"""Functions whose values on the CPU are SciPy's, on CUDA our own."""

BY_ONE_TEXT = ("airy", "fresnel", "lambertw", "polygamma", "shichi", "sici")
"""Functions whose text in C serves both, or says under `__CUDACC__` what serves CUDA."""

SERVED = (*BY_C, *(name for name in BY_ONE_TEXT if name not in ("airy", "lambertw")))
CASES = [
    *((told["name"], label) for label, told in FUNCTIONS.items() if told["name"] in SERVED),
    ("riemann_zeta", "zeta (Riemann)"),
]
"""Names of functions, and labels of their points; `airy` and `lambertw` have tests of their own."""


def on_cuda(name):
    """The function in C of the values on CUDA."""
    kernels = (PUBLIC.get(name) or getattr(hurwitz, name))._record.kernels
    return (kernels.get("cuda") or kernels[None]).native


def inputs_of(label):
    """The arguments at all points."""
    points = [point for point, _, _ in FUNCTIONS[label]["rows"]]
    return [torch.tensor(column, dtype=torch.float64) for column in zip(*points, strict=True)]


def found(name, label, inputs):
    """All outputs at these arguments, on their device."""
    native = on_cuda(name)
    options = [FUNCTIONS[label]["keywords"].get("derivative", False)] if name in SPHERICAL else []
    results = [(inputs[0].shape, torch.float64)] * len(native.prototype.results)
    return native.run([*inputs, *options], [0] * len(inputs), 0, results, {})


def misses(label, outputs, slack=1):
    """Points where outputs are not right, though those of the CPU are, in `slack` times the documented error."""
    told = FUNCTIONS[label]
    points, origins, exact = zip(*told["rows"], strict=True)
    with standing_in(CUDA):  # Tensors on the CPU are on the CPU, also where something stands in for a device.
        on_cpu = PUBLIC[told["name"]](*inputs_of(label), **told["keywords"])
    missed = []
    for i, (made, others) in enumerate(zip(outputs, on_cpu if len(outputs) > 1 else [on_cpu], strict=True)):
        columns = points, origins, exact, made.tolist(), others.tolist()
        for point, origin, rows, value, other in zip(*columns, strict=True):
            known = rows is not None and rows[i][0] is not None and not (origin == "scipy" and math.isnan(rows[i][0]))
            is_normal = abs(value) >= sys.float_info.min  # SciPy's are 0 instead.
            if not known and not (origin == "number" and is_normal):
                continue  # It is not known that there is a value.
            most = allowed(label, origin) if known else 1e-11  # Two values of one accuracy, or one that is exact.
            if not is_close(value, rows[i][0] if known else other, slack * most):
                missed.append((point, value))
    return missed
