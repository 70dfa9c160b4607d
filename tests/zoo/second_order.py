"""First derivatives that are right, and second ones that are not, without a word."""

import numpy as np
import torch
from torch.autograd import Function

from .bug import Bug, function, given, normal
from .observe import second

SECOND = {"double", "second", "twice", "higher", "once", "gradgrad"}


class SinhOfIntermediates(Function):
    @staticmethod
    def forward(ctx, x):
        up, down = x.exp(), (-x).exp()
        ctx.save_for_backward(up, down)
        return (up - down) / 2

    @staticmethod
    def backward(ctx, grad):
        up, down = ctx.saved_tensors
        return grad * (up + down) / 2


class SinhOfAttributes(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.up, ctx.down = x.exp(), (-x).exp()
        return (ctx.up - ctx.down) / 2

    @staticmethod
    def backward(ctx, grad):
        return grad * (ctx.up + ctx.down) / 2


class LengthAsNumber(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.norm()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x / x.norm().item()


class CubeGradient(Function):
    """The gradient of x**3 as a Function of its own, with a derivative by hand."""

    @staticmethod
    def forward(ctx, grad, x):
        ctx.save_for_backward(grad, x)
        return 3 * grad * x**2

    @staticmethod
    def backward(ctx, outer):
        grad, x = ctx.saved_tensors
        return 3 * outer * x**2, 6 * outer * grad * x


class CubeGradientOfHalf(CubeGradient):
    @staticmethod
    def backward(ctx, outer):
        grad, x = ctx.saved_tensors
        return 3 * outer * x**2, 3 * outer * grad * x


def in_numpy(grad, x):
    return torch.from_numpy(grad.detach().numpy() * np.cos(x.detach().numpy()))


def product(x, y):
    return x * y


SINH = {"right": function("Sinh", lambda x: x.sinh(), lambda grad, x: grad * x.cosh()), "truth": torch.sinh}
SINE = function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos())
PRODUCT = function("Product", product, lambda grad, x, y: (grad * y, grad * x))


class Halves(Function):
    """The cubes of halves."""

    kept = staticmethod(lambda x: x)

    @classmethod
    def forward(cls, ctx, x):
        ctx.save_for_backward(cls.kept(x))
        return (x.contiguous() / 2) ** 3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 / 8 * x**2


class HalvesOfACopy(Halves):
    kept = staticmethod(torch.Tensor.contiguous)


def second_of_a_transpose(target, inputs):
    return second(target, tuple(x.mT.contiguous().mT for x in inputs))


BUGS = [
    Bug(
        name="saved_intermediates",
        wrong=SinhOfIntermediates.apply,
        **SINH,
        inputs=normal((4,)),
        shown_by=second,
        expects=SECOND,
        cause=("intermediate", "saved", "once_differentiable", "second", "graph"),
        source="pytorch#58509, #104040, #76185: what forward computes has no graph",
    ),
    Bug(
        name="intermediates_on_ctx",
        wrong=SinhOfAttributes.apply,
        **SINH,
        inputs=normal((4,)),
        shown_by=second,
        expects=SECOND,
        cause=("intermediate", "saved", "once_differentiable", "second", "ctx", "graph"),
        source="the same, as attributes",
    ),
    Bug(
        name="detached_by_data",
        wrong=function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.data.cos()),
        right=SINE,
        truth=torch.sin,
        inputs=normal((4,)),
        shown_by=second,
        expects=SECOND,
        cause=("detach", ".data", "once_differentiable", "second", "graph", "zero"),
        source=".data in backward, from the days of Variable",
    ),
    Bug(
        name="once_differentiable_missing",
        wrong=function("Sin", lambda x: x.sin(), in_numpy),
        right=function("Sin", lambda x: x.sin(), in_numpy, once=True),
        truth=function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos(), once=True),
        inputs=normal((4,)),
        shown_by=second,
        expects=SECOND,
        cause=("detach", "numpy", "NumPy", "once_differentiable", "second", "graph"),
        source="pytorch#60312: backward in NumPy or a raw kernel",
    ),
    Bug(
        name="second_dropped_for_one_input",
        wrong=function("Product", product, lambda grad, x, y: (grad * y.detach(), grad * x)),
        right=PRODUCT,
        truth=product,
        inputs=normal((4,), (4,)),
        shown_by=second,
        expects=SECOND,
        cause=("detach", "once_differentiable", "second", "graph", "zero", "missing"),
        source="a detach() for memory, in one of two branches; gradgradcheck leaves it out",
    ),
    Bug(
        name="number_for_tensor",
        wrong=LengthAsNumber.apply,
        right=function(
            "Length", lambda x: x.norm(), lambda grad, x: grad * x / x.norm().clamp(min=torch.finfo(x.dtype).tiny)
        ),
        truth=torch.linalg.vector_norm,
        inputs=given([1.0, -2.0, 0.5]),
        shown_by=second,
        expects=SECOND,
        cause=("term", "constant", "item", "number", "detach", "once_differentiable", "second", "graph"),
        source=".item() and float() make constants",
    ),
    Bug(
        name="second_by_hand",
        wrong=function("Cube", lambda x: x**3, lambda grad, x: CubeGradientOfHalf.apply(grad, x)),
        right=function("Cube", lambda x: x**3, lambda grad, x: CubeGradient.apply(grad, x)),
        truth=lambda x: x**3,
        inputs=normal((4,)),
        shown_by=second,
        expects=SECOND,
        cause=("1/2", "half", "0.5"),
        source="the double backward tutorial's last form, with a slip",
    ),
    Bug(
        name="upstream_detached",
        wrong=function("Sin", lambda x: x.sin(), lambda grad, x: grad.detach() * x.cos()),
        right=SINE,
        truth=torch.sin,
        inputs=normal((4,)),
        shown_by=second,
        expects=SECOND,
        cause=("detach", "upstream", "once_differentiable", "second", "graph", "zero", "missing"),
        source="grad_output.detach() or .data at the top of backward",
    ),
    Bug(
        name="contiguous_copy_saved",
        wrong=HalvesOfACopy.apply,
        right=Halves.apply,
        truth=lambda x: (x / 2) ** 3,
        inputs=normal((3, 2)),
        shown_by=second_of_a_transpose,
        expects=SECOND,
        cause=("another layout",),
        source="x = x.contiguous() at the top of forward, and then saved",
    ),
    Bug(
        name="power_of_a_magnitude",
        wrong=function("Square", lambda x: x.abs() ** 2, lambda grad, x: grad * 2 * x.sign() * x.abs()),
        right=function("Square", lambda x: x.abs() ** 2, lambda grad, x: grad * 2 * x),
        truth=lambda x: x**2,
        inputs=normal((4,)),
        probe=given([0.0, 1.0, -2.0, 0.0]),
        shown_by=second,
        expects=SECOND,
        cause=("zeros",),
        source="penalties |x|^p: sign(x) |x|^(p-1) is flat at 0 for autograd",
    ),
]
