"""Quantiles and the logarithm of the normal distribution function, differentiable.

Values are SciPy's. Derivatives come from `kernels/normal.c`, which says how.
"""

import torch

from .docstrings import NAN
from .sources import lent, ours
from .table import Input, function

FILE = "normal.c"

# -- derivatives ----------------------------------------------------------------------------------------------------

# As a function of x alone, which it is where y belongs to x, it does not depend on y.
ndtri_by_y = function(
    "ndtri_by_y", ours(FILE, "ndtri_dy(x, y)"),
    "dx/dy where y is the distribution function at x: 1 / density, without the error of x.",
    x=lambda x, out: x * out, y=lambda y: y.new_zeros(()),
)  # fmt: skip

log_ndtr_by_x = function(
    "log_ndtr_by_x", ours(FILE, "log_ndtr_dx(x)"), "The density over the distribution function.",
    x=lambda x: log_ndtr_by_x_x(x),
)  # fmt: skip

log_ndtr_by_x_x = function(
    "log_ndtr_by_x_x", ours(FILE, "log_ndtr_dxx(x)"), "The derivative of that, -log_ndtr_by_x(x) excess(x).",
    x=lambda x, out: log_ndtr_by_x(x) * (excess(x) ** 2 - out - 1),
)  # fmt: skip

excess = function(
    "excess", ours(FILE, "log_ndtr_excess(x)"),
    "The excess of the density over the distribution function beyond -x.",
    x=lambda x: 1 + log_ndtr_by_x_x(x),
)  # fmt: skip

# -- functions ------------------------------------------------------------------------------------------------------

ndtri = function(
    "ndtri", lent("ndtri"),
    "The x at which the normal distribution function is y; derivatives by the implicit function theorem.",
    y=Input(
        "between 0 and 1.", "(0, 1)", lambda y, out: ndtri_by_y(out, y),
        "1 / density, by the implicit function theorem (`kernels/normal.c`).",
    ),
    returns=f"In the shape of `y`; -inf at 0, inf at 1, {NAN}",
    cuda_by_torch=torch.special.ndtri,
    example=("ndtri(torch.tensor(0.975))", "tensor(1.9600)"),
)  # fmt: skip

log_ndtr = function(
    "log_ndtr", lent("log_ndtr"),
    "The logarithm of the normal distribution function (DLMF 7.2.2; far out by 7.9.3).",
    x=Input(
        "any real number.", None, lambda x: log_ndtr_by_x(x),
        "The density over the distribution function, by definition (DLMF 7.2.2, 7.9.3; `kernels/normal.c`).",
    ),
    returns="In the shape of `x`.",
    cuda_by_torch=torch.special.log_ndtr,
    example=("log_ndtr(torch.tensor([-10.0, 0.0]))", "tensor([-53.2313,  -0.6931])"),
)  # fmt: skip
