"""Options, values and uses that the author did not think of: each is an ordinary one, and none is in the sample."""

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .bug import Bug, normal
from .observe import attempted, gradients, laid_out
from .state import used_elsewhere

GRADIENT = {"gradient"}


def optional(name, forward, backward):
    """A Function of tensors and options; its backward gets the gradient, the tensors and the options."""

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*(x for x in inputs if isinstance(x, Tensor)))
        ctx.options = [x for x in inputs if not isinstance(x, Tensor)]

    def run(ctx, grad):
        made = backward(grad, *ctx.saved_tensors, *ctx.options)
        return *(made if isinstance(made, tuple) else (made,)), *(None for _ in ctx.options)

    body = {"forward": forward, "setup_context": setup_context, "backward": once_differentiable(run)}
    return type(name, (Function,), {key: staticmethod(value) for key, value in body.items()}).apply


# -- axes -------------------------------------------------------------------------------------------------------------


def along(x, weight, dim):
    """A weight as it broadcasts along an axis of x."""
    return weight.view([-1 if i == dim % x.dim() else 1 for i in range(x.dim())])


def gained(x, weight, dim=1):
    if weight.numel() != x.shape[dim]:
        raise ValueError("the weight must have an element for each slice along dim")
    return x * along(x, weight, dim)


def gain_gradient(others):
    """The gradients of `gained`; the weight's is summed over axes that `others` chooses."""

    def gradient(grad, x, weight, dim):
        kept = [i for i in range(x.dim()) if i not in others(x, dim)]
        found = (grad * x).sum(others(x, dim)) if others(x, dim) else grad * x
        return grad * along(x, weight, dim), found if kept else found.expand(weight.shape)

    return gradient


def others_but_negative(x, dim):
    return [i for i in range(x.dim()) if i != dim]


def others_by_remainder(x, dim):
    return [i for i in range(x.dim()) if i != dim % x.dim()]


def others_but_last(x, dim):
    return list(range(x.dim() - 1))


def scaled_by(others):
    function = optional("Gain", gained, gain_gradient(others))
    return lambda x, weight, dim=1: function(x, weight, dim)


GAIN = {"right": scaled_by(others_by_remainder), "truth": gained, "expects": GRADIENT}


def with_options(*options, look=gradients):
    return lambda target, inputs: look(lambda *tensors: target(*tensors, *options), inputs)


def grouped(x, weight):
    return x * weight.repeat_interleave(len(x) // len(weight), 0)


def grouped_gradient(tiled):
    def gradient(grad, x, weight):
        parts, groups = grad * x, len(weight)
        shape = (-1, groups) if tiled else (groups, -1)
        found = parts.reshape(*shape, *x.shape[1:]).sum(0 if tiled else 1)
        return grad * weight.repeat_interleave(len(x) // groups, 0), found

    return gradient


# -- norms ------------------------------------------------------------------------------------------------------------


def norm(x, p=3.0):
    return x.abs().amax() if p == float("inf") else (x.abs() ** p).sum() ** (1 / p)


def norm_gradient(signed):
    def gradient(grad, x, p):
        if p == float("inf"):
            largest = (x.abs() == x.abs().amax()).to(x.dtype)
            return grad * largest / largest.sum() * (x.sign() if signed else 1)
        return grad * x.sign() * (x.abs() / norm(x, p).clamp(min=torch.finfo(x.dtype).tiny)) ** (p - 1)

    return gradient


def normed(signed):
    function = optional("Norm", norm, norm_gradient(signed))
    return lambda x, p=3.0: function(x, p)


# -- switches, and other uses -----------------------------------------------------------------------------------------


def sine_by_switch(back):
    sine = optional("Sine", lambda x: x.sin(), lambda grad, x: grad * x.cos())

    def function(x):
        before = torch.is_grad_enabled()
        out = sine(x)
        torch.set_grad_enabled(before if back else True)
        return out

    return function


def grad_mode_after(target, inputs):
    with torch.no_grad():
        target(*inputs)
        return torch.is_grad_enabled()


def positive(inputs):
    return lambda: tuple(x.abs() + 0.5 for x in inputs())


def log_or_zero(x):
    return torch.where(x > 0, torch.where(x > 0, x, 1).log(), 0)


def log_with_a_hook(x):
    valid = x.detach() > 0
    if x.requires_grad:
        x.register_hook(lambda grad: torch.where(valid, grad, 0))
    return torch.where(valid, x.log(), 0)


# -- numbers ----------------------------------------------------------------------------------------------------------


def variance(x):
    return (x - x.mean(-1, keepdim=True)).square().mean(-1)


def standardized(spread):
    def forward(x):
        return (x - x.mean(-1, keepdim=True)) / spread(x).sqrt()[..., None]

    def backward(grad, x):
        y = forward(x)
        centred = grad - grad.mean(-1, keepdim=True) - y * (grad * y).mean(-1, keepdim=True)
        return centred / spread(x).sqrt()[..., None]

    return optional("Standardize", forward, backward)


def large_in_float32(target, inputs):
    """Tell whether the values in float32 are about those in float64."""
    x = inputs[0].float() + 4096 * inputs[0].abs().max().float()
    return bool(((target(x) - target(x.double())).abs() < 0.1).all())


def dequantized(convert):
    def forward(q, scale, zero):
        return scale * (convert(q) - zero)

    def backward(grad, q, scale, zero):
        return None, (grad * (convert(q) - zero)).sum().reshape(scale.shape)

    function = optional("Dequantize", forward, backward)
    return lambda q, scale, zero=128: function(q, scale, zero)


def bytes_of(*numbers):
    scale = torch.tensor([0.5], dtype=torch.float64)
    return lambda: (torch.tensor(numbers, dtype=torch.uint8), scale.clone().requires_grad_())


# -- memory -----------------------------------------------------------------------------------------------------------


def running(flat):
    """The running sums of rows; the backward fills new memory row by row."""

    def backward(grad, x):
        made = flat(x)
        rows = made.reshape(-1, x.shape[-1])
        for row, part in zip(rows, grad.reshape(-1, x.shape[-1]), strict=True):
            row.copy_(part.flip(-1).cumsum(-1).flip(-1))
        return made

    return optional("Running", lambda x: x.cumsum(-1), backward)


def negated(write):
    def forward(x, inplace):
        return write(x) if inplace else -x

    function = optional("Negative", forward, lambda grad, x, inplace: -grad)
    return lambda x, inplace=False: function(x, inplace)


@attempted
def after_an_exp(target, inputs):
    """The gradient of an exponential whose result is given in place."""
    x = inputs[0].clone().requires_grad_()
    return torch.autograd.grad(target(x.exp(), True).sum(), x)


BUGS = [
    Bug(
        name="axis_counted_from_the_end",
        wrong=scaled_by(others_but_negative),
        **GAIN,
        inputs=normal((2, 4, 3), (4,)),
        shown_by=with_options(-2),
        cause=("dim=-2",),
        source="a dim that is compared with the places of axes, before it is made positive",
    ),
    Bug(
        name="channels_always_last",
        wrong=scaled_by(others_but_last),
        **GAIN,
        inputs=normal((3, 6), (6,)),
        probe=normal((6, 6), (6,)),
        shown_by=with_options(0),
        cause=("dim=0",),
        source="per-channel scales whose gradient is summed over all axes but the last",
    ),
    Bug(
        name="groups_tiled",
        wrong=optional("Grouped", grouped, grouped_gradient(tiled=True)),
        right=optional("Grouped", grouped, grouped_gradient(tiled=False)),
        truth=grouped,
        inputs=normal((2, 3), (1, 3)),
        probe=normal((4, 3), (2, 3)),
        expects=GRADIENT,
        cause=("twice as long",),
        source="heads that share keys: repeat_interleave in the forward, a reshape as of repeat in the backward",
    ),
    Bug(
        name="infinite_norm_without_sign",
        wrong=normed(signed=False),
        right=normed(signed=True),
        truth=norm,
        inputs=normal((6,)),
        shown_by=with_options(float("inf")),
        expects=GRADIENT,
        cause=("p=inf",),
        source="norms with a branch for each order",
    ),
    Bug(
        name="grad_mode_left_on",
        wrong=sine_by_switch(back=False),
        right=sine_by_switch(back=True),
        truth=torch.sin,
        inputs=normal((4,)),
        shown_by=grad_mode_after,
        expects={"switches"},
        cause=("not given back",),
        source="torch.set_grad_enabled(True) at the end of a solver",
    ),
    Bug(
        name="hook_where_it_is_zero",
        wrong=log_with_a_hook,
        right=log_or_zero,
        truth=log_or_zero,
        inputs=positive(normal((3, 4))),
        probe=normal((3, 4)),
        shown_by=used_elsewhere,
        expects={"how the function is called"},
        cause=("hook",),
        source="gradients made finite by a hook on the input",
    ),
    Bug(
        name="variance_by_the_mean_of_squares",
        wrong=standardized(lambda x: x.square().mean(-1) - x.mean(-1).square()),
        right=standardized(variance),
        truth=lambda x: (x - x.mean(-1, keepdim=True)) / variance(x).sqrt()[..., None],
        inputs=normal((3, 6)),
        shown_by=large_in_float32,
        expects={"not numbers"},
        cause=("cancel",),
        source="E[x^2] - E[x]^2 in fused normalizations",
    ),
    Bug(
        name="bytes_wrap_around",
        wrong=dequantized(lambda q: q),
        right=dequantized(lambda q: q.to(torch.float64)),
        truth=lambda q, scale, zero=128: scale * (q.to(torch.float64) - zero),
        inputs=bytes_of(200, 130, 255),
        probe=bytes_of(0, 3),
        smooth=False,
        expects={"wrap"},
        cause=("uint8",),
        source="a zero point that is subtracted from bytes",
    ),
    Bug(
        name="rows_of_a_copy",
        wrong=running(torch.zeros_like),
        right=running(lambda x: torch.zeros(x.shape, dtype=x.dtype)),
        truth=lambda x: x.cumsum(-1),
        inputs=normal((3, 7)),
        probe=normal((2, 3, 7)),
        shown_by=laid_out,
        expects={"how the function is called", "layout"},
        cause=("contiguous",),
        source="zeros_like keeps strides, and reshape then copies",
    ),
    Bug(
        name="in_place_unseen",
        wrong=negated(lambda x: x.data.neg_()),
        right=negated(lambda x: -x),
        truth=lambda x, inplace=False: -x,
        inputs=normal((4,)),
        shown_by=after_an_exp,
        expects={"writes into"},
        cause=("inplace=True", "in place"),
        source="inplace=True through .data, which version counters do not see",
    ),
]
