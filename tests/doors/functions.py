"""Functions in every dialect, each written once and made of both bases: torch's and torchgraft's."""

import numpy as np
import torch
from torch.autograd.function import once_differentiable

import torchgraft as tg


def exp(base):
    class Exp(base):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad):
            (result,) = ctx.saved_tensors
            return grad * result

    return Exp.apply


def power(base):
    class Power(base):
        @staticmethod
        def forward(x, k=3):
            return x**k

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.k = inputs
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * ctx.k * x ** (ctx.k - 1), None

        @staticmethod
        def jvp(ctx, tangent, _):
            (x,) = ctx.saved_tensors
            return tangent * ctx.k * x ** (ctx.k - 1)

    return Power.apply


def relu(base):
    class MyReLU(base):
        @staticmethod
        def forward(ctx, input):
            ctx.save_for_backward(input)
            return input.clamp(min=0)

        @staticmethod
        def backward(ctx, grad_output):
            (input,) = ctx.saved_tensors
            grad_input = grad_output.clone()
            grad_input[input < 0] = 0
            return grad_input

    return MyReLU.apply


def linear(base):
    """That of PyTorch's documentation."""

    class LinearFunction(base):
        @staticmethod
        def forward(ctx, input, weight, bias=None):
            ctx.save_for_backward(input, weight, bias)
            output = input.mm(weight.t())
            if bias is not None:
                output += bias.unsqueeze(0).expand_as(output)
            return output

        @staticmethod
        def backward(ctx, grad_output):
            input, weight, bias = ctx.saved_tensors
            grad_input = grad_weight = grad_bias = None
            if ctx.needs_input_grad[0]:
                grad_input = grad_output.mm(weight)
            if ctx.needs_input_grad[1]:
                grad_weight = grad_output.t().mm(input)
            if bias is not None and ctx.needs_input_grad[2]:
                grad_bias = grad_output.sum(0)
            return grad_input, grad_weight, grad_bias

    return lambda x: LinearFunction.apply(x[None], torch.stack([x, 2 * x]), x[:2].clone())


def several(base):
    class Several(base):
        @staticmethod
        def forward(ctx, x, scales, label):
            order = x.argsort()
            ctx.mark_non_differentiable(order)
            ctx.set_materialize_grads(False)
            ctx.scales, ctx.shape, ctx.label = scales, x.shape, label
            return x * scales[0], x.sum() * scales[1], order, None

        @staticmethod
        def backward(ctx, grad, grad_sum, _order, _none):
            total = torch.zeros(ctx.shape, dtype=torch.float64)
            if grad is not None:
                total = total + grad * ctx.scales[0]
            if grad_sum is not None:
                total = total + (grad_sum * ctx.scales[1]).expand(ctx.shape)
            return total, None, None

    def call(x):
        scaled, total, order, none = Several.apply(x, [2.0, 3.0], "label")
        assert none is None
        assert not order.requires_grad
        return scaled.square() + total.square() + order * 0

    return call


def in_place(base):
    class Double(base):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    return lambda x: Double.apply(x * x)


def reverse_gradient(base):
    class Reverse(base):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return -grad, None, None  # more than there are arguments

    return Reverse.apply


def same_object(base):
    class Same(base):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return [3 * grad]  # a list, which torch takes for one gradient too

    return Same.apply if base is tg.Function else lambda x: x.view_as(x) * 3 - x.detach() * 2


def vjp(base):
    class Named(base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def vjp(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x.cos()

    return Named.apply


def nested(base):
    class Product(base):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return Product.apply(grad, b), Product.apply(grad, a)

    return lambda x: Product.apply(Product.apply(x, x), x)


def mapped(base):
    class Mapped(base):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, weight):
            return x * weight, x + weight

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad_product, grad_sum):
            x, weight = ctx.saved_tensors
            return grad_product * weight + grad_sum, grad_product * x + grad_sum

        @staticmethod
        def jvp(ctx, x_tangent, weight_tangent):
            x, weight = ctx.saved_tensors
            return x_tangent * weight + x * weight_tangent, x_tangent + weight_tangent

    def call(x):
        product, total = Mapped.apply(x, x.detach() + 1)
        return product * total

    return call


def numpy_sort(base):
    """That of the functorch documentation, with a vmap rule of its own."""

    class NumpySort(base):
        @staticmethod
        def forward(x, dim):
            array = x.detach().numpy()
            order = np.argsort(array, axis=dim)
            return torch.from_numpy(np.take_along_axis(array, order, dim)), torch.from_numpy(order)

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, order = output
            ctx.mark_non_differentiable(order)
            ctx.save_for_backward(order)
            ctx.dim = inputs[1]

        @staticmethod
        def backward(ctx, grad, _):
            (order,) = ctx.saved_tensors
            return torch.zeros_like(grad).scatter(ctx.dim, order, grad), None

        @staticmethod
        def vmap(info, in_dims, x, dim):
            x = x.movedim(in_dims[0], 0)
            return NumpySort.apply(x, dim if dim < 0 else dim + 1), (0, 0)

    return lambda x: NumpySort.apply(x, -1)[0].square()


def instance():
    """As before PyTorch 0.2; only torchgraft runs it."""

    class Scale(tg.Function):
        def __init__(self, factor=2.0):
            self.factor = factor

        def forward(self, x):
            self.calls = getattr(self, "calls", 0) + 1
            assert self.calls == 1, "a call sees what another one has kept"
            self.save_for_backward(x)
            return self.square(x) * self.factor

        def square(self, x):
            return x * x

        def backward(self, grad):
            (x,) = self.saved_variables
            assert self.needs_input_grad == (True,)
            return 2 * x * grad * self.factor

    return Scale


@once_differentiable
def once(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x * grad


BOTH = {
    f.__name__: f
    for f in (
        exp,
        power,
        relu,
        linear,
        several,
        in_place,
        reverse_gradient,
        same_object,
        vjp,
        nested,
        mapped,
        numpy_sort,
    )
}
PLAIN = {
    "exp": torch.exp,
    "power": lambda x: x**3,
    "relu": torch.relu,
    "linear": lambda x: torch.nn.functional.linear(x[None], torch.stack([x, 2 * x]), x[:2]),
    "several": lambda x: (2 * x).square() + (3 * x.sum()).square(),
    "in_place": lambda x: 2 * x * x,
    "reverse_gradient": lambda x: 2 * x.detach() - x,
    "same_object": lambda x: 3 * x - 2 * x.detach(),
    "vjp": torch.sin,
    "nested": lambda x: x**3,
    "mapped": lambda x: x * (x.detach() + 1) * (x + x.detach() + 1),
    "numpy_sort": lambda x: x.sort().values.square(),
}
