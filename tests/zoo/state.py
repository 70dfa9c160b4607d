"""State: results that depend on earlier calls, on other threads, on chance, or on tensors that nobody passed."""

import time

import numpy as np
import torch
from torch.autograd import Function

from .bug import Bug, function, normal
from .observe import backward_twice, in_threads, interleaved, repeated, values

STATE = {"state", "call", "interleav"}
CHANCE = {"determin", "random", "repeat", "reentran", "inconclusive"}
SCRATCH = {}


class ReluOfLastMask(Function):
    """Its mask is the last call's."""

    @staticmethod
    def forward(ctx, x):
        ReluOfLastMask.mask = x > 0
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        return grad * ReluOfLastMask.mask


class SumsUp(Function):
    """Adds to what it returned the last time."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.total = torch.zeros_like(x)
        return x.sin()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        ctx.total = ctx.total + grad * x.cos()
        return ctx.total


class DrawsAgain(Function):
    """Draws one mask in forward and another in backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * (torch.rand_like(x) < 0.5)

    @staticmethod
    def backward(ctx, grad):
        return grad * (torch.rand_like(grad) < 0.5)


class KeepsItsDraw(Function):
    @staticmethod
    def forward(ctx, x):
        mask = torch.rand_like(x) < 0.5
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask


def noisy(x):
    return x.sin() + 1e-9 * torch.from_numpy(np.random.default_rng().standard_normal(x.shape))


def in_any_order(terms):
    """A sum as atomics take it, some of whose terms are large and cancel."""
    large = torch.full_like(terms.reshape(-1), 1e8)
    every = torch.cat([terms.reshape(-1), large, -large])
    order = torch.from_numpy(np.random.default_rng().permutation(every.numel()))
    return every[order].cumsum(0)[-1:].sum()


def scaled(reduce):
    return function("Scale", lambda x, s: x * s, lambda grad, x, s: (grad * s, reduce(grad * x)), once=True)


def scratch(x):
    """exp(x) + x in two steps, the first into memory that all threads share."""
    memory = SCRATCH.setdefault((tuple(x.shape), x.dtype), torch.empty_like(x))
    memory.copy_(x.exp())
    time.sleep(1e-3)  # as a kernel does that gives other threads their turn
    return memory + x


def quick_without_grad(x):
    return torch.sin(x) if torch.is_grad_enabled() else x - x**3 / 6


def slope_of_the_first(grad, x):
    return grad * SCRATCH.setdefault(("slope", tuple(x.shape)), x.detach().cos())


def masks_agree(target, inputs):
    """Whether forward and backward have the same zeros."""
    (x,) = inputs
    x = x.clone().requires_grad_()
    out = target(x)
    (slope,) = torch.autograd.grad(out.sum(), x)
    return torch.equal(out == 0, slope == 0)


def phases(source):
    """Cosines with random phases, which are the same in each call."""

    def shifted(x):
        return x + torch.randn(x.shape[-1], generator=source().manual_seed(0), dtype=x.dtype)

    return function("Phases", lambda x: shifted(x).cos(), lambda grad, x: -grad * shifted(x).sin())


def drawn_after_a_call(target, inputs):
    """Numbers that somebody else draws after a call."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        target(*inputs)
        return torch.rand(3)


WEIGHT = normal((4,), seed=5)()[0].requires_grad_()
SINE = {
    "right": function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos()),
    "truth": torch.sin,
    "inputs": normal((5,)),
}


GAIN_OF_ONE = function("Gain", lambda x: x * WEIGHT, lambda grad, x: grad * WEIGHT)
GAIN_OF_BOTH = function("Gain", lambda x, weight: x * weight, lambda grad, x, weight: (grad * weight, grad * x))


def gradient_of_the_weight(target, inputs):
    out = target(*inputs)
    return torch.autograd.grad(out.sum(), WEIGHT, allow_unused=True)[0] if out.requires_grad else None


def weights_of(size, width):
    places = torch.arange(size, dtype=torch.float64)
    return torch.softmax(-((places[:, None] - places) ** 2) / (2 * width**2), 0)


def smoothed(key):
    """A smoothing whose weights are kept in a table by a key of size and width."""
    table = {}

    def smooth(x, width=1.0):
        kept = key(x.shape[-1], width)
        if kept not in table:
            table[kept] = weights_of(x.shape[-1], width)
        return x @ table[kept].to(x.dtype)

    return smooth


def two_widths(target, inputs):
    return [target(*inputs, width) for width in (1.0, 3.0)]


def two_widths_nearby(target, inputs):
    return [target(*inputs, width) for width in (1.0, 1.002)]


def two_widths_of_a_radius(target, inputs):
    return [target(inputs[0], 4, width) for width in (1.0, 3.0)]


def blurred(key):
    """A filter of a radius and a width, whose weights are kept in a table by a key of both."""
    table = {}

    def blur(x, radius=2, width=1.0):
        if radius < 0:
            raise ValueError("the radius must not be negative")
        kept = key(radius, width)
        if kept not in table:
            table[kept] = weights_of(2 * radius + 1, width)[radius]
        windows = torch.nn.functional.pad(x, (radius, radius)).unfold(-1, 2 * radius + 1, 1)
        return windows @ table[kept].to(x.dtype)

    return blur


def onto_a_grid(key):
    """Smoothing of samples at irregular times onto three points; the weights are kept by a key of the times."""
    table = {}

    def smooth(x, times):
        kept = key(times)
        if kept not in table:
            points = torch.linspace(0, 1, 3, dtype=times.dtype)[:, None]
            table[kept] = torch.softmax(-((points - times) ** 2), -1)
        return x @ table[kept].mT.to(x.dtype)

    return smooth


def bytes_of(times):
    return times.dtype, times.numpy().tobytes()


def smoothed_onto_a_grid(x, times):
    points = torch.linspace(0, 1, 3, dtype=times.dtype)[:, None]
    return x @ torch.softmax(-((points - times) ** 2), -1).mT


def times(*numbers):
    def make():
        return torch.arange(1.0, 1 + len(numbers), dtype=torch.float64).requires_grad_(), torch.tensor(numbers).double()

    return make


def at_other_times(target, inputs):
    """Calls whose times are others between the first and the last, in the same memory."""
    x, at = inputs[0].detach(), inputs[1].clone()
    made = [target(x, at)]
    for factor in (0.5, 1.75):
        at[1:-1] *= factor
        made.append(target(x, at))
    return made


ON_A_GRID = {
    "right": onto_a_grid(bytes_of),
    "truth": smoothed_onto_a_grid,
    "inputs": times(0.0, 0.25, 0.5, 1.0),
    "shown_by": at_other_times,
    "expects": STATE,
    "cause": ("by an argument's memory", "made for others"),
}


def symmetric(x):
    half = (x + x.mT) / 2
    return half @ half


def hooked(x):
    if x.requires_grad:
        x.register_hook(lambda grad: (grad + grad.mT) / 2)
    return x


def used_elsewhere(target, inputs):
    """The gradient of an input of the call and of another function."""
    x = inputs[0].clone().requires_grad_()
    return torch.autograd.grad(target(x).sum() + x[0, 1], x)


BUGS = [
    Bug(
        name="last_calls_mask",
        wrong=ReluOfLastMask.apply,
        right=function("Relu", lambda x: x.clamp(min=0), lambda grad, x: grad * (x > 0)),
        truth=torch.relu,
        inputs=normal((5,)),
        shown_by=interleaved,
        expects=STATE | {"gradient"},
        cause=("state", "call", "earlier", "last", "other"),
        source="attributes of the class, or of the module, in the place of ctx",
    ),
    Bug(
        name="sums_up",
        wrong=SumsUp.apply,
        **(SINE | {"right": function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos(), once=True)}),
        shown_by=backward_twice,
        expects=STATE | {"linear", "twice", "retain", "determin", "repeat", "gradient"},
        cause=("no argument", "state", "call", "second", "accumul", "linear", "differ"),
        source="+= on ctx",
    ),
    Bug(
        name="draws_again",
        wrong=DrawsAgain.apply,
        right=KeepsItsDraw.apply,
        truth=torch.nn.functional.dropout,
        inputs=normal((40,)),
        shown_by=masks_agree,
        expects=CHANCE | {"gradient", "linear"},
        cause=("random", "mask", "determin", "draw", "differ", "noise"),
        source="dropout without its mask",
        smooth=False,
    ),
    Bug(
        name="noise_in_forward",
        wrong=function("Sin", noisy, lambda grad, x: grad * x.cos()),
        **SINE,
        shown_by=repeated,
        expects=CHANCE,
        cause=("no argument", "random", "determin", "noise", "differ"),
        source="generators that nobody seeds",
    ),
    Bug(
        name="sums_in_any_order",
        wrong=scaled(in_any_order),
        right=scaled(torch.sum),
        truth=torch.mul,
        inputs=normal((300,), ()),
        shown_by=repeated,
        expects=CHANCE | {"digits", "gradient"},
        cause=("no argument", "random", "determin", "noise", "differ", "order", "digits"),
        source="atomic additions of terms that cancel",
    ),
    Bug(
        name="captured_tensor",
        wrong=GAIN_OF_ONE,
        right=lambda x: GAIN_OF_BOTH(x, WEIGHT),
        truth=lambda x: x * WEIGHT,
        inputs=normal((4,)),
        shown_by=gradient_of_the_weight,
        expects={"captur", "argument", "undeclared", "closure", "global"},
        cause=("captur", "argument", "closure", "global"),
        source="the note on torch.func: tensors from outside of a Function get no gradient",
    ),
    Bug(
        name="shared_scratch",
        wrong=function("Sum", scratch, lambda grad, x: grad * (x.exp() + 1)),
        right=function("Sum", lambda x: x.exp() + x, lambda grad, x: grad * (x.exp() + 1)),
        truth=lambda x: x.exp() + x,
        inputs=normal((5,)),
        shown_by=in_threads,
        expects={"thread", "race", "reentran", "state"},
        cause=("global", "thread", "race", "share"),
        source="global workspaces; DataParallel and backward's own threads",
    ),
    Bug(
        name="quick_without_grad",
        wrong=quick_without_grad,
        right=torch.sin,
        truth=torch.sin,
        inputs=normal((5,)),
        shown_by=values,
        expects={"grad mode", "no_grad", "gradient", "value", "state", "mode", "reference"},
        cause=("gradient is wanted", "no_grad", "grad mode", "mode"),
        source="approximations for inference",
    ),
    Bug(
        name="table_of_the_first_width",
        wrong=smoothed(lambda size, width: size),
        right=smoothed(lambda size, width: (size, width)),
        truth=lambda x, width=1.0: x @ weights_of(x.shape[-1], width),
        inputs=normal((2, 6)),
        shown_by=two_widths,
        expects=STATE,
        cause=("state", "call", "cache", "table", "kept"),
        source="tables that are kept by size, and depend on an option too",
    ),
    Bug(
        name="table_of_the_first_width_of_a_radius",
        wrong=blurred(lambda radius, width: radius),
        right=blurred(lambda radius, width: (radius, width)),
        truth=lambda x, radius=2, width=1.0: blurred(lambda *key: key)(x, radius, width),
        inputs=lambda: (*normal((2, 6))(), 2, 1.0),
        shown_by=two_widths_of_a_radius,
        expects=STATE,
        cause=("state", "call", "cache", "table", "kept"),
        source="filters that are kept by one of their options",
    ),
    Bug(
        name="table_of_a_width_in_words",
        wrong=smoothed(lambda size, width: (size, f"{width:.2f}")),
        right=smoothed(lambda size, width: (size, width)),
        truth=lambda x, width=1.0: x @ weights_of(x.shape[-1], width),
        inputs=normal((2, 6)),
        shown_by=two_widths_nearby,
        expects=STATE,
        cause=("state", "call", "cache", "table", "kept"),
        source="tables that are kept by numbers as they are printed",
    ),
    Bug(
        name="table_told_by_its_ends",
        wrong=onto_a_grid(lambda times: (times.dtype, len(times), float(times[0]), float(times[-1]))),
        **ON_A_GRID,
        source="interpolation matrices kept by the number and the ends of the samples",
    ),
    Bug(
        name="table_told_by_its_memory",
        wrong=onto_a_grid(lambda times: (times.data_ptr(), len(times))),
        **ON_A_GRID,
        source="caches by id() or data_ptr()",
    ),
    Bug(
        name="hook_on_the_input",
        wrong=lambda x: symmetric(hooked(x)),
        right=symmetric,
        truth=symmetric,
        inputs=normal((3, 3)),
        shown_by=used_elsewhere,
        expects={"how the function is called"},
        cause=("hook", "all its uses"),
        source="x.register_hook in a forward: it sees the sum of all uses",
    ),
    Bug(
        name="slope_of_the_first",
        wrong=function("Sin", lambda x: x.sin(), slope_of_the_first, once=True),
        **(SINE | {"right": function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos(), once=True)}),
        shown_by=interleaved,
        expects=STATE | {"gradient"},
        cause=("state", "call", "cache", "element"),
        source="caches by shape",
    ),
    Bug(
        name="generator_set_by_the_forward",
        wrong=phases(lambda: torch.default_generator),
        right=phases(torch.Generator),
        truth=lambda x: (x + torch.randn(3, generator=torch.Generator().manual_seed(0), dtype=x.dtype)).cos(),
        inputs=normal((2, 3)),
        shown_by=drawn_after_a_call,
        expects={"generator", "randomness"},
        cause=("this seed",),
        source="torch.manual_seed in a forward, so that random features are the same in each call",
    ),
]
