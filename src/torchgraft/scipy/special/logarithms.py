"""Products with logarithms, and the power transform of Box and Cox, differentiable in all arguments.

Values are SciPy's, but where those of `inv_boxcox` have lost digits. Those, and derivatives whose closed forms lose
digits, come from `kernels/boxcox.c`, which says how.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .docstrings import BROADCAST
from .sources import lent, ours
from .table import Input, function, second_of

FILE = "boxcox.c"

# -- derivatives ----------------------------------------------------------------------------------------------------

quotient = function(
    "quotient", ours(None, "x == 0 && y >= 0 ? 0 : x / y"), "The quotient x / y, and 0 where x is 0.",
    x=lambda y: 1 / y,
    y=lambda x, y: -quotient(quotient(x, y), y),
)  # fmt: skip


def _bent(x: Tensor, lmbda: Tensor, n: int) -> Any:
    """The derivative of `boxcox_by_x` in x, by the rule for products."""
    slope = (lmbda - 1) * boxcox_by_x(x, lmbda - 1, n)
    return slope + n * boxcox_by_x(x, lmbda - 1, n - 1) if n else slope


boxcox_by_x = function(
    "boxcox_by_x", ours(FILE, "boxcox_dx(x, lmbda, n)"),
    "The n-th derivative of x^(lmbda - 1) in lmbda: of the transform's slope in x.",
    x=_bent, lmbda=lambda x, lmbda, n: boxcox_by_x(x, lmbda, n + 1), n=int,
)  # fmt: skip

boxcox_by_lmbda = function(
    "boxcox_by_lmbda", ours(FILE, "boxcox_dk(x, lmbda, n)"), "The n-th derivative of the transform in lmbda.",
    x=lambda x, lmbda, n: boxcox_by_x(x, lmbda, n),
    lmbda=lambda x, lmbda, n: boxcox_by_lmbda(x, lmbda, n + 1),
    n=int,
)  # fmt: skip


def _mixed(y: Tensor, lmbda: Tensor) -> Any:
    """The second derivative of `inv_boxcox` in y and lmbda."""
    return (inv_boxcox_by_lmbda(y, lmbda) - inv_boxcox_by_y(y, lmbda) * y) / (1 + lmbda * y)


inv_boxcox_by_y = function(
    "inv_boxcox_by_y", ours(FILE, "inv_boxcox_dy(y, lmbda)"), "(1 + lmbda y)^(1/lmbda - 1).",
    y=lambda y, lmbda, out: out * (1 - lmbda) / (1 + lmbda * y), lmbda=_mixed,
)  # fmt: skip

inv_boxcox_by_lmbda = function(
    "inv_boxcox_by_lmbda", ours(FILE, "inv_boxcox_dk(y, lmbda)"),
    "The derivative of (1 + lmbda y)^(1/lmbda) in lmbda.",
    y=_mixed, lmbda=second_of("inv_boxcox"),
)  # fmt: skip

# -- functions ------------------------------------------------------------------------------------------------------

xlogy = function(
    "xlogy", lent("xlogy"), "The product x log(y), and 0 where x is 0.",
    x=Input("any real number.", None, lambda y: y.log(), "The derivative log(y), by definition."),
    y=Input(
        "a positive number; where `x` is 0, any.", "positive", lambda x, y: quotient(x, y),
        "The quotient x / y (DLMF 4.7.1), and 0 where x is 0.",
    ),
    returns=BROADCAST,
    cuda_by_torch=torch.special.xlogy,
    example=("xlogy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 3.0]))", "tensor([0.0000, 2.1972])"),
)  # fmt: skip

xlog1py = function(
    "xlog1py", lent("xlog1py"), "The product x log(1 + y), and 0 where x is 0.",
    x=Input("any real number.", None, lambda y: y.log1p(), "log(1 + y), by definition."),
    y=Input(
        "a number above -1; where `x` is 0, any.", "(-1, inf)", lambda x, y: quotient(x, 1 + y),
        "The quotient x / (1 + y) (DLMF 4.7.1), and 0 where x is 0.",
    ),
    returns=BROADCAST,
    cuda_by_torch=torch.special.xlog1py,
    example=("xlog1py(torch.tensor([0.0, 2.0]), torch.tensor([-1.0, 3.0]))", "tensor([0.0000, 2.7726])"),
)  # fmt: skip

boxcox = function(
    "boxcox", ours(FILE, "boxcox_value(x, lmbda, SCIPY(boxcox))"),
    "The power transform (x^lmbda - 1) / lmbda, and log(x) where lmbda is 0 (Box and Cox 1964).",
    x=Input(
        "a number that is not negative.", "positive", lambda x, lmbda: boxcox_by_x(x, lmbda, 0),
        "x^(lmbda - 1), by definition (`kernels/boxcox.c`).",
    ),
    lmbda=Input(
        "the power, any real number.", None, lambda x, lmbda: boxcox_by_lmbda(x, lmbda, 1),
        "The derivative of log(x) times the integral of x^(lmbda s) over [0, 1], by definition (`kernels/boxcox.c`).",
    ),
    returns=BROADCAST,
    cuda_by_c=ours(FILE, "boxcox_alone(x, lmbda)"),
    example=("boxcox(torch.tensor(2.0), torch.tensor([0.0, 0.5]))", "tensor([0.6931, 0.8284])"),
)  # fmt: skip

inv_boxcox = function(
    "inv_boxcox", ours(FILE, "inv_boxcox_value(y, lmbda, SCIPY(inv_boxcox))"),
    "The inverse of the power transform, (1 + lmbda y)^(1/lmbda), and exp(y) where lmbda is 0.",
    y=Input(
        "a number for which 1 + lmbda y is not negative.", "[-0.9, 2]", lambda y, lmbda: inv_boxcox_by_y(y, lmbda),
        "(1 + lmbda y)^(1 / lmbda - 1), by definition (`kernels/boxcox.c`).",
    ),
    lmbda=Input(
        "the power, any real number.", "(-0.45, 1]", lambda y, lmbda: inv_boxcox_by_lmbda(y, lmbda),
        "The derivative of exp(log(1 + lmbda y) / lmbda), by definition (`kernels/boxcox.c`).",
    ),
    returns=BROADCAST, raises="a second derivative in `lmbda`",
    cuda_by_c=ours(FILE, "inv_boxcox_alone(y, lmbda)"),
    example=("inv_boxcox(torch.tensor(2.0), torch.tensor([0.0, 0.5]))", "tensor([7.3891, 4.0000])"),
)  # fmt: skip
