"""Mixed precision: backward runs where autocast is off, with gradients of the dtype that forward returned."""

import torch
from torch.autograd import Function

from .bug import Bug, normal
from .observe import in_autocast

AMP = {"autocast", "amp", "dtype"}


def matmul(x, weight):
    return x @ weight


def product(widened):
    class Product(Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            if widened:
                grad = grad.to(x.dtype)
            return grad @ weight.mT, x.mT @ grad

    return Product.apply


class ScaledInAutocast(Function):
    """Divides in autocast, and asks again in backward, where it is off."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square() / 16 if torch.is_autocast_enabled("cpu") else x.square()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x / 8 if torch.is_autocast_enabled("cpu") else 2 * grad * x


class Unscaled(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


BUGS = [
    Bug(
        name="mixed_dtypes_in_backward",
        wrong=product(widened=False),
        right=product(widened=True),
        truth=matmul,
        inputs=normal((2, 3), (3, 4), dtype=torch.float32),
        shown_by=in_autocast,
        expects=AMP,
        cause=("autocast", "dtype", "bfloat16"),
        source="pytorch#87979, #132388: no custom_fwd",
        smooth=False,
    ),
    Bug(
        name="asks_for_autocast_in_backward",
        wrong=ScaledInAutocast.apply,
        right=Unscaled.apply,
        truth=torch.square,
        inputs=normal((3, 4), dtype=torch.float32),
        shown_by=in_autocast,
        expects=AMP,
        cause=("autocast", "factor", "16"),
        source="scaling against overflow within a layer",
        smooth=False,
    ),
]
