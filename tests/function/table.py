"""Functions in every dialect, each written once, to be made of torch's base class and of torchgraft's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import torchgraft as tg

from ..functions import linear_function


@dataclass(frozen=True)
class Case:
    """A Function, what it must equal, and where it is evaluated.

    Attributes:
        name: of the case.
        make: the function of tensors made of a base class.
        plain: the same in plain torch.
        values: the arguments, all of which are differentiable.
        on_stock: whether torch's own base class can run it.
        order: up to which order backward can be differentiated.
        mapped: whether it can run under `vmap`.
        functional: whether what its backward does can run under `torch.func`.
        forward_mode: whether it has a `jvp`.
        compiled: whether Dynamo can take it into one graph.
    """

    name: str
    make: Callable[[type[Any]], Callable[..., Any]]
    plain: Callable[..., Any]
    values: tuple[Tensor, ...]
    on_stock: bool = True
    order: int = 3
    mapped: bool = True
    functional: bool = True
    forward_mode: bool = False
    compiled: bool = True

    def __repr__(self) -> str:
        return self.name

    def leaves(self) -> tuple[Tensor, ...]:
        """Fresh arguments that require grad."""
        return tuple(value.clone().requires_grad_() for value in self.values)


CASES: dict[str, Case] = {}

X = torch.tensor([1.5, -2.0, 0.5], dtype=torch.float64)
Y = torch.tensor([-0.5, 3.0, 2.0], dtype=torch.float64)
MATRIX = torch.tensor([[1.0, 2.0, -1.0], [0.5, -3.0, 4.0]], dtype=torch.float64)


def case(plain: Callable[..., Any], *values: Tensor, **facts: Any) -> Callable[[Any], Any]:
    """Put a Function into the table."""

    def add(make: Any) -> Any:
        name = make.__name__.strip("_")
        CASES[name] = Case(name, make, plain, values or (X,), **facts)
        return make

    return add


def some(**facts: Any) -> list[Case]:
    """The cases of which these facts hold."""
    return [c for c in CASES.values() if all(getattr(c, name) == value for name, value in facts.items())]


# -- forward with a context -------------------------------------------------------------------------------------------


def _coupled(base):
    """Its Jacobian is not diagonal, nor symmetric."""

    class Coupled(base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * (x * x).sum()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x * x).sum() + 2 * x * (grad * x).sum()

    return Coupled.apply


case(lambda x: x * (x * x).sum())(_coupled)


@case(lambda x: x * (x * x).sum(), torch.tensor(0.5, dtype=torch.float64))
def no_axes(base):
    return _coupled(base)


@case(lambda x: x * (x * x).sum(), torch.zeros(0, 3, dtype=torch.float64))
def empty(base):
    return _coupled(base)


@case(lambda x: x * (x * x).sum(), MATRIX.mT)
def transposed(base):
    return _coupled(base)


@case(lambda x: x * (x * x).sum(), torch.tensor([1.5, -2.0], dtype=torch.float16))
def half(base):
    return _coupled(base)


@case(torch.exp)
def saves_its_output(base):
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


@case(lambda x, w: x @ w, MATRIX, Y)
def needs_input_grad(base):
    class Product(base):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, w if ctx.needs_input_grad[0] else None)
            return x @ w

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            to_x = torch.outer(grad, w) if ctx.needs_input_grad[0] else None
            to_w = x.mT @ grad if ctx.needs_input_grad[1] else None
            return to_x, to_w

    return Product.apply


@case(lambda x, y: (x * y, (x - y).sum()), X, Y)
def several_outputs(base):
    class Both(base):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y, (x - y).sum()

        @staticmethod
        def backward(ctx, grad_product, grad_difference):
            x, y = ctx.saved_tensors
            return grad_product * y + grad_difference, grad_product * x - grad_difference

    return Both.apply


@case(lambda x, y: (x * y, (x - y).sum()), X, Y)
def undefined_gradients(base):
    class Both(base):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x, y)
            return x * y, (x - y).sum()

        @staticmethod
        def backward(ctx, grad_product, grad_difference):
            x, y = ctx.saved_tensors
            to_x, to_y = torch.zeros_like(x), torch.zeros_like(y)
            if grad_product is not None:
                to_x, to_y = to_x + grad_product * y, to_y + grad_product * x
            if grad_difference is not None:
                to_x, to_y = to_x + grad_difference, to_y - grad_difference
            return to_x, to_y

    return Both.apply


@case(lambda x: (x.sort().values, x.argsort(), None, x > 0), compiled=False)  # Dynamo wants tensors as outputs
def other_outputs(base):
    """Integers, None and bools beside a floating output."""

    class Sort(base):
        @staticmethod
        def forward(ctx, x):
            values, order = x.sort()
            positive = x > 0
            ctx.mark_non_differentiable(order, positive)
            ctx.save_for_backward(order)
            return values, order, None, positive

        @staticmethod
        def backward(ctx, grad, _order, _none, _positive):
            (order,) = ctx.saved_tensors
            return torch.zeros_like(grad).scatter(-1, order, grad)

    return Sort.apply


@case(lambda x: (x * 2, x.detach() * 3))
def inert_output(base):
    """A floating output that is marked as non-differentiable."""

    class Pair(base):
        @staticmethod
        def forward(ctx, x):
            inert = x * 3
            ctx.mark_non_differentiable(inert)
            return x * 2, inert

        @staticmethod
        def backward(ctx, grad, _inert):
            return grad * 2

    return Pair.apply


@case(lambda x, y: 3 * x * y, X, Y)
def other_arguments(base):
    """None, numbers, strings, lists and functions among the tensors."""

    class Odd(base):
        @staticmethod
        def forward(ctx, nothing, x, options, y, f):
            assert nothing is None
            assert f is abs
            ctx.save_for_backward(nothing, x, y)
            ctx.scale = options["scale"]
            return x * y * options["scale"]

        @staticmethod
        def backward(ctx, grad):
            nothing, x, y = ctx.saved_tensors
            assert nothing is None
            return None, grad * y * ctx.scale, None, grad * x * ctx.scale, None

    return lambda x, y: Odd.apply(None, x, {"scale": 3}, y, abs)


@case(lambda z: z * z * z.conj(), torch.tensor([1 + 2j, -0.5 + 1j], dtype=torch.complex128))
def complex_numbers(base):
    class Cubic(base):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z * z.conj()

        @staticmethod
        def backward(ctx, grad):
            (z,) = ctx.saved_tensors
            return grad.conj() * z * z + grad * (2 * z * z.conj()).conj()

    return Cubic.apply


@case(lambda x: x.mT, MATRIX)
def output_is_a_view(base):
    class Transpose(base):
        @staticmethod
        def forward(ctx, x):
            return x.mT

        @staticmethod
        def backward(ctx, grad):
            return grad.mT

    return Transpose.apply


@case(lambda x, y: (x * 1, x * y), X, Y)
def output_is_an_input(base):
    class Through(base):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x, x * y

        @staticmethod
        def backward(ctx, grad, grad_product):
            x, y = ctx.saved_tensors
            return grad + grad_product * y, grad_product * x

    return Through.apply


@case(lambda x: 2 * (x * 3), mapped=False)
def marks_dirty(base):
    class Double(base):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    return lambda x: Double.apply(x * 3)


@case(lambda x: 2 * x, compiled=False, on_stock=hasattr(torch.autograd.Function, "boxed_grads_call"))
def boxed_gradients(base):
    class Boxed(base):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grads):
            (grad,) = grads
            grads.clear()
            return 2 * grad

    return Boxed.apply


@case(lambda x: 2 * x)
def surplus_gradients(base):
    class Surplus(base):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad, None, None

    return Surplus.apply


@case(lambda x: 2 * x.detach() - x)
def reversed_gradient(base):
    """Not the derivative, and on purpose: that of domain adaptation."""

    class Reverse(base):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return -grad

    return Reverse.apply


@case(torch.relu, functional=False)  # torch before 2.15 has no rule for a mask under vmap
def documented_relu(base):
    """That of PyTorch's tutorial."""

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


@case(lambda x, w: torch.nn.functional.linear(x[None], w, w[:, 0]), X, MATRIX)
def documented_linear(base):
    Linear = linear_function(base)
    return lambda x, w: Linear.apply(x[None], w, w[:, 0])


@case(lambda x: 2 * x, on_stock=False)
def list_of_gradients(base):
    class Listed(base):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return [2 * grad]

    return Listed.apply


@case(lambda a, b: a * b * b, X, Y, compiled=False)
def backward_of_itself(base):
    class Product(base):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return Product.apply(grad, b), Product.apply(grad, a)

    return lambda a, b: Product.apply(Product.apply(a, b), b)


@case(lambda x: x.sin() ** 2, order=1, functional=False, compiled=False)
def graph_inside(base):
    """As activation checkpointing is written: forward again, with a graph of its own, in backward."""

    class Again(base):
        @staticmethod
        def forward(ctx, function, x):
            ctx.function = function
            ctx.save_for_backward(x)
            with torch.no_grad():
                return function(x)

        @staticmethod
        def backward(ctx, grad):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                out = ctx.function(x)
            return None, torch.autograd.grad(out, x, grad)[0]

    return lambda x: Again.apply(lambda x: x.sin() ** 2, x)


# -- how the methods are declared -------------------------------------------------------------------------------------


@case(torch.sin)
def class_methods(base):
    class Sin(base):
        sign = 1

        @classmethod
        def forward(cls, ctx, x):
            ctx.save_for_backward(x)
            return cls.sign * x.sin()

        @classmethod
        def backward(cls, ctx, grad):
            (x,) = ctx.saved_tensors
            return cls.sign * grad * x.cos()

    return Sin.apply


@case(torch.sin, compiled=False)
def methods_of_ctx(base):
    """Without the decorator, which torch has never asked for."""

    class Sin(base):
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x.cos()

    return Sin.apply


@case(torch.sin)
def backward_without_the_decorator(base):
    class Sin(base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x.cos()

    return Sin.apply


@case(torch.sin)
def named_vjp(base):
    class Sin(base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def vjp(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x.cos()

    return Sin.apply


@case(lambda x: 3 * x.sin(), compiled=False)
def inherited(base):
    class Sin(base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x.cos()

    class Tripled(Sin):
        @staticmethod
        def forward(ctx, x):
            return 3 * Sin.forward(ctx, x)

        @classmethod
        def backward(cls, ctx, grad):
            return 3 * super().backward(ctx, grad)

    return Tripled.apply


# -- forward beside setup_context -------------------------------------------------------------------------------------


def _power(base, facts=None):
    class Power(base):
        locals().update(facts or {})

        @staticmethod
        def forward(x, k=3):
            return x * (x**k).sum()

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.k = inputs
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x**ctx.k).sum() + ctx.k * x ** (ctx.k - 1) * (grad * x).sum(), None

        @staticmethod
        def jvp(ctx, tangent, _):
            (x,) = ctx.saved_tensors
            return tangent * (x**ctx.k).sum() + x * (ctx.k * x ** (ctx.k - 1) * tangent).sum()

    return Power


_PLAIN_POWER = lambda x: x * (x**3).sum()  # noqa: E731 - of three cases


@case(_PLAIN_POWER, forward_mode=True)
def setup(base):
    power = _power(base)
    return lambda x: power.apply(x, 3)


@case(_PLAIN_POWER, forward_mode=True)
def generated_vmap(base):
    power = _power(base, {"generate_vmap_rule": True})
    return lambda x: power.apply(x, 3)


@case(_PLAIN_POWER, forward_mode=True)
def written_vmap(base):
    """It sums over the first axis alone, so that a mapped one can stand behind it."""

    class Power(base):
        @staticmethod
        def forward(x, k):
            return x * (x**k).sum(0)

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.k = inputs
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x**ctx.k).sum(0) + ctx.k * x ** (ctx.k - 1) * (grad * x).sum(0), None

        @staticmethod
        def jvp(ctx, tangent, _):
            (x,) = ctx.saved_tensors
            return tangent * (x**ctx.k).sum(0) + x * (ctx.k * x ** (ctx.k - 1) * tangent).sum(0)

        @staticmethod
        def vmap(info, in_dims, x, k):
            assert x.shape[in_dims[0]] == info.batch_size
            return Power.apply(x.movedim(in_dims[0], x.dim() - 1), k), x.dim() - 1

    return lambda x: Power.apply(x, 3)


def _product_and_sum(base, facts=None):
    class Both(base):
        locals().update(facts or {})

        @staticmethod
        def forward(x, y):
            return x * y, x + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad_product, grad_sum):
            x, y = ctx.saved_tensors
            return grad_product * y + grad_sum, grad_product * x + grad_sum

        @staticmethod
        def jvp(ctx, to_x, to_y):
            x, y = ctx.saved_tensors
            return to_x * y + x * to_y, to_x + to_y

    return Both.apply


@case(lambda x, y: (x * y, x + y), X, Y, forward_mode=True)
def jvp_of_several(base):
    return _product_and_sum(base)


@case(lambda x, y: (x * y, x + y), X, Y, forward_mode=True)
def generated_vmap_of_several(base):
    return _product_and_sum(base, {"generate_vmap_rule": True})


@case(lambda x: x * (x * x).sum(), forward_mode=True)
def jvp_of_what_is_saved_for_backward(base):
    class Coupled(base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * (x * x).sum()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x * x).sum() + 2 * x * (grad * x).sum()

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return tangent * (x * x).sum() + 2 * x * (tangent * x).sum()

    return Coupled.apply


# -- methods of self, as before torch 0.2 -----------------------------------------------------------------------------


class Legacy(tg.Function):
    """x (x x).sum() times a constant that the instance holds."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def forward(self, x):
        assert "seen" not in vars(self), "a call sees what another one has kept"
        self.seen = True
        self.save_for_backward(x)
        return self.factor * x * self.norm(x)

    def norm(self, x):
        return (x * x).sum()

    def backward(self, grad):
        (x,) = self.saved_variables
        return self.factor * (grad * self.norm(x) + 2 * x * (grad * x).sum())


@case(lambda x: x * (x * x).sum(), on_stock=False, compiled=False)
def legacy_class(base):
    return Legacy.apply


@case(lambda x: 3 * x * (x * x).sum(), on_stock=False, compiled=False)
def legacy_instance(base):
    return Legacy(3.0)


@case(lambda x: 3 * x * (x * x).sum(), on_stock=False, compiled=False)
def legacy_instance_made_anew(base):
    return lambda x: Legacy(3.0)(x)


@case(lambda x, y: (x * y, (x * y).sum()), X, Y, on_stock=False, forward_mode=True, compiled=False)
def legacy_with_jvp(base):
    class Both(tg.Function):
        def forward(self, x, y):
            self.save_for_backward(x, y)
            return x * y, (x * y).sum()

        def backward(self, grad, grad_sum):
            x, y = self.saved_tensors
            return (grad + grad_sum) * y, (grad + grad_sum) * x

        def jvp(self, to_x, to_y):
            x, y = self.saved_tensors
            moved = to_x * y + x * to_y
            return moved, moved.sum()

    return Both()
