"""Right almost everywhere: wrong for some sizes, some elements or some values."""

import torch

from .bug import Bug, function, given, normal

GRADIENT = {"gradient"}


def cut(grad, stop):
    """A gradient whose elements from `stop` on nobody wrote."""
    return torch.cat([grad[:stop], torch.zeros_like(grad[stop:])])


def leaky(x):
    return torch.where(x < 0, 0.1 * x, x)


def difference(x):
    return x[1:] - x[:-1]


def difference_gradient(grad, x):
    edge = torch.zeros_like(x[:1])
    return torch.cat([edge, grad]) - torch.cat([grad, edge])


def largest(x):
    return x.amax(-1)


def largest_gradient(split):
    def gradient(grad, x):
        equal = (x == x.amax(-1, keepdim=True)).to(x.dtype)
        return grad[..., None] * (equal / equal.sum(-1, keepdim=True) if split else equal)

    return gradient


def length(x):
    return x.square().sum(-1).sqrt()


def length_gradient(grad, x):
    size = length(x)[..., None]
    return grad[..., None] * torch.where(size > 0, x / size.where(size > 0, torch.ones_like(size)), 0)


def hard_tanh(x):
    return x.clamp(-1, 1)


def sigmoid(x):
    return x.sigmoid()


def softplus(x):
    return x.clamp(min=0) + (-x.abs()).exp().log1p()


def sinc(x):
    return torch.sinc(x / torch.pi)


def sinc_gradient(bound):
    def gradient(grad, x):
        away = x.where(x.abs() > bound, torch.ones_like(x))
        near = 0 if bound > 1e-2 else -x / 3 + x**3 / 30 - x**5 / 840
        return grad * torch.where(x.abs() > bound, away.cos() / away - away.sin() / away**2, near)

    return gradient


def wrapped(grad, x):
    """Offsets as a signed byte counts them."""
    offsets = torch.arange(len(x)).to(torch.int8).long()
    return torch.zeros_like(x).index_add(0, offsets % len(x), grad * x.cos())


def first_sample_only(grad, x, weight):
    return grad * weight, (grad * x)[:1].sum(0)


def stable_gradient(grad, x):
    weights = (x - x.max()).exp()
    return grad[:, None] * weights / weights.sum(-1, keepdim=True)


BUGS = [
    Bug(
        name="negative_slope",
        wrong=function("Leaky", leaky, lambda grad, x: torch.where(x < 0, 0.01 * grad, grad)),
        right=function("Leaky", leaky, lambda grad, x: torch.where(x < 0, 0.1 * grad, grad)),
        truth=leaky,
        inputs=normal((3, 4)),
        expects=GRADIENT,
        cause=("< 0", "negative"),
        source="the default slope in backward, the argument in forward",
    ),
    Bug(
        name="outside_the_bounds",
        wrong=function("HardTanh", hard_tanh, lambda grad, x: grad * (x > -1)),
        right=function("HardTanh", hard_tanh, lambda grad, x: grad * (x.abs() < 1)),
        truth=hard_tanh,
        inputs=given([-2.0, -0.5, 0.25, 0.75, 1.5, 3.0]),
        expects=GRADIENT,
        cause=("x >", "> 1", "> 0.75", "above", "large", "element"),
        source="one of two bounds forgotten",
    ),
    Bug(
        name="threshold_too_low",
        wrong=function("Softplus", softplus, lambda grad, x: grad * torch.where(x > 2, 1.0, x.sigmoid())),
        right=function("Softplus", softplus, lambda grad, x: grad * x.sigmoid()),
        truth=lambda x: torch.nn.functional.softplus(x, threshold=1e3),
        inputs=given([-2.0, -0.5, 0.5, 1.5, 3.0, 4.0]),
        expects=GRADIENT,
        cause=("x >", "> 1.5", "> 2", "above", "large", "element"),
        source="shortcuts for large arguments, tuned in half precision",
    ),
    Bug(
        name="near_zero",
        wrong=function("Sinc", sinc, sinc_gradient(0.5)),
        right=function("Sinc", sinc, sinc_gradient(1e-3)),
        truth=sinc,
        inputs=given([-2.0, -0.375, -0.125, 0.25, 1.0, 3.0]),
        expects=GRADIENT,
        cause=("|x|", "near 0", "small", "close to", "zero", "element"),
        source="a guard against 0 / 0 that is too wide",
    ),
    Bug(
        name="nan_at_zero",
        wrong=function("Length", length, lambda grad, x: grad[..., None] * x / length(x)[..., None], once=True),
        right=function("Length", length, length_gradient, once=True),
        truth=lambda x: torch.linalg.vector_norm(x, dim=-1),
        inputs=given([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [0.25, 1.0, -1.0]]),
        expects=GRADIENT | {"nan", "finite"},
        cause=("nan", "NaN", "finite", "0 / 0"),
        source="norms of vectors that are zero: the first step of many a training",
        smooth=False,
    ),
    Bug(
        name="nan_far_out",
        wrong=function(
            "Sigmoid", lambda x: x.sigmoid(), lambda g, x: g * (-x).exp() / (1 + (-x).exp()) ** 2, once=True
        ),
        right=function("Sigmoid", sigmoid, lambda g, x: g * x.sigmoid() * (-x).sigmoid(), once=True),
        truth=torch.sigmoid,
        inputs=given([-800.0, -1.0, 0.5, 2.0]),
        expects=GRADIENT | {"nan", "finite"},
        cause=("nan", "NaN", "finite", "overflow"),
        source="inf / inf",
    ),
    Bug(
        name="last_index",
        wrong=function("Diff", difference, lambda g, x: cut(difference_gradient(g, x), len(x) - 1)),
        right=function("Diff", difference, difference_gradient),
        truth=torch.diff,
        inputs=normal((6,)),
        expects=GRADIENT,
        cause=("last",),
        source="stencils: a loop that ends one step early",
    ),
    Bug(
        name="first_index",
        wrong=function("Diff", difference, lambda g, x: difference_gradient(g, x) * (torch.arange(len(x)) > 0)),
        right=function("Diff", difference, difference_gradient),
        truth=torch.diff,
        inputs=normal((6,)),
        expects=GRADIENT,
        cause=("first",),
        source="stencils: a loop that begins one step late",
    ),
    Bug(
        name="one_of_two_thousand",
        wrong=function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos() * (torch.arange(len(x)) != 1234)),
        right=function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos()),
        truth=torch.sin,
        inputs=normal((2000,)),
        expects=GRADIENT,
        cause=("element", "1234", "index", "zero"),
        source="races and bounds of hand-written kernels",
    ),
    Bug(
        name="ties",
        wrong=function("Max", largest, largest_gradient(split=False), once=True),
        right=function("Max", largest, largest_gradient(split=True), once=True),
        truth=largest,
        inputs=given([[1.0, 3.0, 3.0, 0.5], [2.0, -1.0, 2.0, 2.0]]),
        expects=GRADIENT | {"ties", "tie"},
        cause=("tie", "equal"),
        source="(x == max) * grad: pooling layers from scratch; chainer#8519",
        smooth=False,
    ),
    Bug(
        name="ties_unseen",
        wrong=function("Max", largest, largest_gradient(split=False), once=True),
        right=function("Max", largest, largest_gradient(split=True), once=True),
        truth=largest,
        inputs=normal((2, 4)),
        probe=given([[1.0, 3.0, 3.0, 0.5], [2.0, -1.0, 2.0, 2.0]]),
        expects=GRADIENT | {"ties", "tie"},
        cause=("tie", "equal"),
        source="the same, checked with random inputs",
        smooth=False,
    ),
    Bug(
        name="batch_of_one",
        wrong=function("Scale", lambda x: 3 * x, lambda grad, x: grad.clone() if len(x) == 1 else 3 * grad),
        right=function("Scale", lambda x: 3 * x, lambda grad, x: 3 * grad),
        truth=lambda x: 3 * x,
        inputs=normal((3, 4)),
        probe=normal((1, 4)),
        expects=GRADIENT | {"batch", "size", "shape"},
        cause=("batch", "size 1", "1/3", "factor"),
        source="a fast path for single samples",
    ),
    Bug(
        name="batches_of_more_than_one",
        wrong=function("Gain", lambda x, weight: x * weight, first_sample_only),
        right=function("Gain", lambda x, weight: x * weight, lambda g, x, w: (g * w, (g * x).sum_to_size(w.shape))),
        truth=lambda x, weight: x * weight,
        inputs=normal((1, 4), (4,)),
        probe=normal((3, 4), (4,)),
        expects=GRADIENT | {"batch", "size", "shape"},
        cause=("batch", "row", "first", "reduc", "sum", "zero"),
        source="examples written with a batch of one",
    ),
    Bug(
        name="no_samples",
        wrong=function("LogSumExp", lambda x: x.logsumexp(-1), stable_gradient),
        right=function("LogSumExp", lambda x: x.logsumexp(-1), lambda grad, x: grad[:, None] * x.softmax(-1)),
        truth=lambda x: x.logsumexp(-1),
        inputs=normal((3, 4)),
        probe=normal((0, 4)),
        expects={"batch", "size", "empty", "raises", "gradient"},
        cause=("empty", "no elements", "no samples", "size 0", "batch 0", "0 samples", "numel"),
        source="a maximum over everything: the last, empty batch of a distributed epoch",
    ),
    Bug(
        name="tile_tail",
        wrong=function("Square", lambda x: x * x, lambda grad, x: cut(2 * grad * x, len(x) // 4 * 4)),
        right=function("Square", lambda x: x * x, lambda grad, x: 2 * grad * x),
        truth=torch.square,
        inputs=normal((6,)),
        expects=GRADIENT,
        cause=("last", "tail", "zero", "element", "index"),
        source="vectorised loops without a remainder",
    ),
    Bug(
        name="beyond_one_block",
        wrong=function("Square", lambda x: x * x, lambda grad, x: cut(2 * grad * x, 16)),
        right=function("Square", lambda x: x * x, lambda grad, x: 2 * grad * x),
        truth=torch.square,
        inputs=normal((20,)),
        expects=GRADIENT,
        cause=("16", "zero", "element", "index", "last"),
        source="a kernel launched with one block",
    ),
    Bug(
        name="offset_overflow",
        wrong=function("Sin", lambda x: x.sin(), wrapped),
        right=function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos()),
        truth=torch.sin,
        inputs=normal((150,)),
        expects=GRADIENT,
        cause=("tail", "128", "element", "zero", "permut", "index", "entries"),
        source="flash-linear-attention#1080, megablocks#185: 32-bit offsets above 2**31; here 8 bits, 2**7",
    ),
]
