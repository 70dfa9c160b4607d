"""Options, values and uses that the author did not think of: each is an ordinary one, and none is in the sample."""

import math

import numpy as np
import scipy.special
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

import torchgraft as tg

from .bug import Bug, function, given, normal
from .observe import attempted, gradients, laid_out, second, tangents
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


# -- numbers of the other sign, and others than those of the sample ----------------------------------------------------


def softplus(x, beta=1.0):
    return torch.where(beta * x > 20, x, (beta * x).exp().log1p() / beta)


def softplus_gradient(passed):
    def gradient(grad, x, beta):
        return grad * torch.where(passed(x, beta) > 20, 1, torch.sigmoid(beta * x))

    return gradient


def saturated(passed):
    function = optional("Softplus", softplus, softplus_gradient(passed))
    return lambda x, beta=1.0: function(x, beta)


def delayed(x, steps=2):
    return torch.nn.functional.pad(x, (steps, -steps))


def delay(back):
    function = optional("Delay", delayed, lambda grad, x, steps: delayed(grad, -back(steps)))
    return lambda x, steps=2: function(x, steps)


def nearest_image(x, box):
    return x - box * (x / box).round()


def image(of_the_box):
    class Image(Function):
        forward = staticmethod(nearest_image)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            x, box = ctx.saved_tensors
            return grad, -(grad * (x / box).round()).sum(0)

        @staticmethod
        def jvp(ctx, x_tangent, box_tangent):
            x, box = ctx.saved_tensors
            return x_tangent - of_the_box * (x / box).round() * box_tangent

    return Image.apply


def bump(x):
    outside = x <= 1e-3
    return torch.where(outside, 0, (-1 / torch.where(outside, 1, x)).exp())


def bumped(inside):
    def gradient(grad, x):
        outside = x <= 1e-3
        y = inside(outside, x)
        return grad * torch.where(outside, 0, (-1 / y).exp() / y**2)

    return function("Bump", bump, gradient)


# -- dtypes and devices -----------------------------------------------------------------------------------------------


def tapered(key):
    """Weigh by a table that is kept."""
    kept = {}

    def table(x):
        name = key(x)
        if name not in kept:
            kept[name] = taper(x)
        return kept[name]

    return optional("Taper", lambda x: x * table(x), lambda grad, x: grad * table(x))


def taper(x):
    return torch.linspace(0.1, 0.7, x.shape[-1], dtype=x.dtype)


def in_double_after_single(target, inputs):
    x = inputs[0].repeat(5)[:17]
    target(x.float())
    return target(x)


def gelu_of_two_devices(body):
    @tg.op
    def gelu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return body(x)

    @gelu.kernel("cpu")
    def _(x: Float[np.ndarray, "..."]):
        return 0.5 * x * (1 + scipy.special.erf(x / math.sqrt(2)))

    @gelu.partial("x")
    def _(x):
        return 0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    return gelu


def on_another_device(target, inputs):
    """The values of the body, which serves all devices but the CPU."""
    return (target._record.kernels[None].function if isinstance(target, tg.Op) else target)(*inputs)


def arcsine(slope):
    @tg.op
    @tg.domain(x="[-1, 1]")
    def arcsine(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x.asin()

    arcsine.partial("x")(slope)
    return arcsine


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
        return scale * (convert(q, scale) - zero)

    def backward(grad, q, scale, zero):
        return None, (grad * (convert(q, scale) - zero)).sum().reshape(scale.shape)

    function = optional("Dequantize", forward, backward)
    return lambda q, scale, zero=128: function(q, scale, zero)


def bytes_of(*numbers):
    scale = torch.tensor([0.5], dtype=torch.float64)
    return lambda: (torch.tensor(numbers, dtype=torch.uint8), scale.clone().requires_grad_())


def onto_the_ball(x):
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / length.clamp(min=1)


def ball_gradient(outside):
    def gradient(grad, x):
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        unit = x / length
        along = (grad - unit * (unit * grad).sum(-1, keepdim=True)) / length
        return torch.where(outside(length > 1), along, grad)

    return function("Ball", onto_the_ball, gradient, once=True)


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


def halved(copied):
    """The cosine of half of each number, which is computed in place in what is meant to be a copy."""
    return function("Cos", lambda x: copied(x).mul_(0.5).cos(), lambda grad, x: -grad * (x / 2).sin() / 2, once=True)


def across(inputs):
    return lambda: tuple(x.mT.contiguous().mT for x in inputs())


def left_alone(target, inputs):
    x = inputs[0].contiguous()
    before = x.clone()
    target(x)
    return torch.equal(x, before)


def products(one_argument):
    """The products of two lists of numbers, each with each."""

    def gradient(grad, x, y):
        if one_argument(x, y):
            return (grad @ y).add_(x @ grad), torch.zeros_like(y)
        return grad @ y, x @ grad

    return function("Products", lambda x, y: x[:, None] * y, gradient, once=True)


def beside_itself_detached(target, inputs):
    x = inputs[0].clone().requires_grad_()
    weights = torch.arange(x.numel() ** 2, dtype=x.dtype).view(x.numel(), -1)
    return torch.autograd.grad((target(x, x.detach()) * weights).sum(), x)


GROUPS = torch.tensor([0, 1, 1, 0])


def largest_in_groups(x):
    return torch.stack([x[i == GROUPS].amax(0) for i in range(2)])


def largest_gradient(share):
    def gradient(grad, x):
        tied = (x == largest_in_groups(x)[GROUPS]).to(x.dtype)
        count = torch.zeros_like(grad).index_add(0, GROUPS, tied)
        return grad[GROUPS] * tied / (count[GROUPS] if share else 1)

    return function("Largest", largest_in_groups, gradient, once=True)


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


def gaussian(radius, sigma):
    weights = torch.exp(-0.5 * (torch.arange(-radius, radius + 1, dtype=torch.float64) / sigma) ** 2)
    return (weights / weights.sum())[None, None]


def blur(x, sigma, radius_of=lambda sigma: int(4 * sigma + 0.5)):
    radius = radius_of(sigma)
    return torch.nn.functional.conv1d(x[:, None], gaussian(radius, sigma).to(x.dtype), padding=radius)[:, 0]


def blurred(radius_of):
    """A filter that is its own transpose, cut off where both passes should."""
    function = optional("Blur", lambda x, sigma: blur(x, sigma), lambda grad, x, sigma: blur(grad, sigma, radius_of))
    return lambda x, sigma=1.0: function(x, sigma)


def scores(factor):
    def scores(q, k, scale: float | None = None):
        return q @ k.mT * factor(scale)

    return scores


def scores_backward(grad, q, k, scale):
    factor = 0.5 if scale is None else scale
    return grad @ k * factor, grad.mT @ q * factor


def returns(reward, done):
    """Sums of what comes later, up to the end of an episode."""
    out, later = [], torch.zeros_like(reward[..., 0])
    for i in reversed(range(reward.shape[-1])):
        later = reward[..., i] + 0.5 * torch.where(done[..., i], 0, later)
        out.append(later)
    return torch.stack(out[::-1], -1)


def returned(ends):
    """The rule carries on what came before, unless an episode ended there."""

    def backward(grad, reward, done):
        out, earlier = [], torch.zeros_like(grad[..., 0])
        for i in range(grad.shape[-1]):
            earlier = grad[..., i] + 0.5 * torch.where(ends(done, i), 0, earlier)
            out.append(earlier)
        return torch.stack(out, -1), None

    return optional("Returns", returns, backward)


def looked_up(accumulate):
    """Rows of a table by their indices; the backward adds up rows of equal indices, and then puts the sums in place."""

    def gradient(grad, table, indices):
        kinds, place = indices.unique(return_inverse=True)
        sums = grad.new_zeros(len(kinds), grad.shape[1]).index_add(0, place, grad * table[indices].cos())
        return torch.zeros_like(table).index_put((kinds,), sums, accumulate=accumulate), None

    return optional("LookUp", lambda table, indices: table[indices].sin(), gradient)


def rows_of_a_table(*indices):
    return lambda: (*normal((6, 3))(), torch.tensor(indices))


def rewards(*done):
    def make():
        reward = torch.arange(1.0, 1 + len(done), dtype=torch.float64).requires_grad_()
        return reward, torch.tensor(done)

    return make


def summed_without_denormals(early):
    """A sum that switches denormal numbers off, and returns early for one element."""

    def forward(x):
        before = torch.tensor(2.0**-1060, dtype=torch.float64) * 0.5 == 0
        if not early and len(x) == 1:
            return x[0].clone()
        torch.set_flush_denormal(True)
        if len(x) == 1:
            return x[0].clone()
        total = x.sum()
        torch.set_flush_denormal(bool(before))
        return total

    return function("Sum", forward, lambda grad, x: grad.expand_as(x))


def half_of_a_denormal_after(target, inputs):
    """Whether half of a denormal number is zero after a call with one element."""
    target(inputs[0][:1])
    half = torch.tensor(2.0**-1060, dtype=torch.float64) * 0.5
    torch.set_flush_denormal(False)
    return bool(half == 0)


BUGS = [
    Bug(
        name="threshold_without_its_scale",
        wrong=saturated(lambda x, beta: x),
        right=saturated(lambda x, beta: beta * x),
        truth=torch.nn.functional.softplus,
        inputs=normal((6,)),
        probe=given([25.0, 1.0]),
        shown_by=with_options(0.125),
        expects=GRADIENT,
        cause=("beta=0.125",),
        source="softplus with beta and threshold",
    ),
    Bug(
        name="delay_that_only_delays",
        wrong=delay(lambda steps: max(steps, 0)),
        right=delay(lambda steps: steps),
        truth=delayed,
        inputs=normal((2, 6)),
        shown_by=with_options(-2),
        expects=GRADIENT,
        cause=("steps=-2",),
        source="lags, rolls and diagonals: slices that are right for one sign",
    ),
    Bug(
        name="tangent_of_a_box_that_is_passed",
        wrong=image(of_the_box=0),
        right=image(of_the_box=1),
        truth=nearest_image,
        inputs=lambda: (*normal((4, 3))(), torch.tensor([9.0, 10.0, 11.0], dtype=torch.float64)),
        probe=lambda: (9 * normal((4, 3))()[0], torch.tensor([9.0, 10.0, 11.0], dtype=torch.float64)),
        shown_by=tangents,
        expects={"tangent"},
        cause=("jvp", "tangent"),
        source="minimum images in periodic boxes, where no sample crosses a border",
    ),
    Bug(
        name="infinity_behind_a_where",
        wrong=bumped(lambda outside, x: x),
        right=bumped(lambda outside, x: torch.where(outside, 1, x)),
        truth=bump,
        inputs=normal((4,)),
        probe=given([0.0, 0.5]),
        shown_by=second,
        expects={"second"},
        cause=("0 times infinity",),
        source="torch.where around what is infinite, differentiated twice",
    ),
    Bug(
        name="slope_held_at_the_end_of_the_domain",
        wrong=arcsine(lambda x: 1 / (1 - x * x).clamp(min=0.05).sqrt()),
        right=arcsine(lambda x: 1 / (1 - x * x).sqrt()),
        truth=torch.asin,
        inputs=given([0.1, 0.5, -0.3]),
        probe=given([0.99, 0.5]),
        expects=GRADIENT,
        cause=("ends of the domain",),
        source="a clamp against infinite slopes, wider than it has to be",
    ),
    Bug(
        name="table_in_the_dtype_of_the_first_call",
        wrong=tapered(lambda x: x.shape[-1]),
        right=tapered(lambda x: (x.shape[-1], x.dtype)),
        truth=lambda x: x * taper(x),
        inputs=normal((6,)),
        shown_by=in_double_after_single,
        expects={"options or dtypes"},
        cause=("kept between calls",),
        source="windows and positional tables that are kept by length",
    ),
    Bug(
        name="contiguous_is_no_copy",
        wrong=halved(lambda x: x.contiguous()),
        right=halved(lambda x: x.clone()),
        truth=lambda x: (x / 2).cos(),
        inputs=across(normal((3, 4))),
        shown_by=left_alone,
        expects={"writes into"},
        cause=("in place",),
        source="x.contiguous() and work in place: a copy of the transposed heads it was written for",
    ),
    Bug(
        name="one_address_for_one_argument",
        wrong=products(lambda x, y: x.data_ptr() == y.data_ptr()),
        right=products(lambda x, y: False),
        truth=lambda x, y: x[:, None] * y,
        inputs=normal((4,), (3,)),
        shown_by=beside_itself_detached,
        expects={"how the function is called"},
        cause=("one address",),
        source="kernel matrices of x with itself: k(x, x.detach()) stops the gradient of one",
    ),
    Bug(
        name="each_tie_of_a_group_gets_all",
        wrong=largest_gradient(share=False),
        right=largest_gradient(share=True),
        truth=largest_in_groups,
        inputs=normal((4, 2)),
        probe=lambda: (torch.ones(4, 2, dtype=torch.float64),),
        smooth=False,
        expects={"equal"},
        cause=("ties",),
        source="segment_max and scatter_max: x == out[index]",
    ),
    Bug(
        name="decided_for_the_whole_batch",
        wrong=ball_gradient(lambda outside: outside.any()),
        right=ball_gradient(lambda outside: outside),
        truth=onto_the_ball,
        inputs=lambda: (normal((3, 4))()[0] + 2,),
        probe=given([[0.1, 0.2], [3.0, 4.0]]),
        expects=GRADIENT,
        cause=("slices of unlike sizes",),
        source="projections and small angles: one row decides by which formula all are computed",
    ),
    Bug(
        name="body_of_another_function",
        wrong=gelu_of_two_devices(lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
        right=gelu_of_two_devices(torch.nn.functional.gelu),
        truth=torch.nn.functional.gelu,
        inputs=normal((4,)),
        shown_by=on_another_device,
        expects={"body in torch"},
        cause=("two functions",),
        source="a kernel for the CPU beside a body for all other devices",
    ),
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
        expects={"not numbers", "infinite"},
        cause=("cancel",),
        source="E[x^2] - E[x]^2 in fused normalizations",
    ),
    Bug(
        name="bytes_wrap_around",
        wrong=dequantized(lambda q, scale: q),
        right=dequantized(lambda q, scale: q.to(scale.dtype)),
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
    Bug(
        name="radius_cut_short",
        wrong=blurred(lambda sigma: int(4 * sigma)),
        right=blurred(lambda sigma: int(4 * sigma + 0.5)),
        truth=lambda x, sigma=1.0: blur(x, sigma),
        inputs=normal((2, 9)),
        shown_by=with_options(1.2),
        expects=GRADIENT,
        cause=("sigma",),
        source="Gaussians that are cut off in one place by SciPy, and in another by the rule",
    ),
    Bug(
        name="zero_taken_for_none",
        wrong=optional("Scores", scores(lambda scale: scale or 0.5), scores_backward),
        right=optional("Scores", scores(lambda scale: 0.5 if scale is None else scale), scores_backward),
        truth=lambda q, k, scale=None: q @ k.mT * (0.5 if scale is None else scale),
        inputs=lambda: (*normal((2, 3), (4, 3))(), None),
        probe=lambda: (*normal((2, 3), (4, 3))(), 0.0),
        expects=GRADIENT,
        cause=("scale=0.0",),
        source="`scale or default` in the forward, and `is None` in the backward",
    ),
    Bug(
        name="end_of_an_episode_too_late",
        wrong=returned(lambda done, i: done[..., i]),
        right=returned(lambda done, i: done[..., i - 1] if i else torch.ones_like(done[..., i])),
        truth=returns,
        inputs=rewards(False, False, False, False),
        probe=rewards(False, True, False, False),
        expects=GRADIENT,
        cause=("True in turn",),
        source="masks that are shifted by one in the backward, and all False in the sample",
    ),
    Bug(
        name="row_named_twice",
        wrong=looked_up(accumulate=False),
        right=looked_up(accumulate=True),
        truth=lambda table, indices: table[indices].sin(),
        inputs=rows_of_a_table(0, 3, 3, -1, 2, -1),
        probe=rows_of_a_table(5, 1, -1, -1, 5, 2),
        expects=GRADIENT,
        cause=("for one row",),
        source="sums by index that are assigned: -1 and n - 1 are one row",
    ),
    Bug(
        name="denormals_left_off",
        wrong=summed_without_denormals(early=True),
        right=summed_without_denormals(early=False),
        truth=torch.sum,
        inputs=normal((5,)),
        shown_by=half_of_a_denormal_after,
        expects={"switches"},
        cause=("not given back",),
        source="libraries built with -ffast-math; an early return before the mode is set back",
    ),
]
