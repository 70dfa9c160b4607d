"""Forward mode and vmap: rules beside backward, which nothing ties to it."""

from typing import ClassVar

import torch
from torch.autograd import Function

from .bug import Bug, normal
from .observe import mapped, tangents

JVP = {"jvp", "forward", "tangent"}
VMAP = {"vmap", "batch"}


def product(x, y):
    return x * y


def modal(name, forward, backward, jvp=None, vmap=None):
    """A Function with rules for both modes, which get forward's tensors, and for vmap, which gets `apply`."""

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    def run(ctx, grad):
        return backward(grad, *ctx.saved_tensors)

    def push(ctx, *directions):
        return jvp(directions, *ctx.saved_tensors)

    def batched(info, in_dims, *args):
        return vmap(made.apply, in_dims, *args)

    body = {"forward": forward, "setup_context": setup_context, "backward": run}
    body |= ({"jvp": push} if jvp else {}) | ({"vmap": batched} if vmap else {})
    made = type(name, (Function,), {key: staticmethod(value) for key, value in body.items()})
    return made.apply


def cos(jvp):
    return modal("Cos", lambda x: x.cos(), lambda grad, x: -grad * x.sin(), jvp)


def multiply(jvp):
    return modal("Product", product, lambda grad, x, y: (grad * y, grad * x), jvp)


class StaleTangent(Function):
    """Keeps its direction from the first call of forward mode for all the others."""

    kept: ClassVar[dict[tuple[int, ...], torch.Tensor]] = {}

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()

    @classmethod
    def slope(cls, x):
        return cls.kept.setdefault(tuple(x.shape), x.detach().cos().clone())

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent * StaleTangent.slope(x)


def stale(target, inputs):
    """Forward mode twice, at different points."""
    return [tangents(target, tuple(k * x for x in inputs)) for k in (1, 2)]


def cumsum(vmap):
    return modal("Cumsum", lambda x: x.cumsum(0), lambda grad, x: grad.flip(0).cumsum(0).flip(0), vmap=vmap)


def cumsum_of_samples(apply, in_dims, x):
    if x.dim() == 1:  # a sample is one number
        return apply(x.unsqueeze(0)).squeeze(0), 0
    return apply(x.movedim(in_dims[0], -1)), x.dim() - 1


def share(vmap):
    """x / sum(x), of one sample."""

    def backward(grad, x):
        return grad / x.sum() - (grad * x).sum() / x.sum() ** 2

    return modal("Share", lambda x: x / x.sum(), backward, vmap=vmap)


def share_of_samples(apply, in_dims, x):
    return torch.stack([apply(sample) for sample in x.unbind(in_dims[0])]), 0


def scale(vmap):
    """A vector times a number."""
    return modal("Scale", product, lambda grad, x, s: (grad * s, (grad * x).sum_to_size(s.shape)), vmap=vmap)


def scale_of_samples(apply, in_dims, x, s):
    x, s = (t if d is None else t.movedim(d, -1) for t, d in zip((x, s), in_dims, strict=True))
    out = x.unsqueeze(-1) * s if in_dims[0] is None else x * s
    return out, out.dim() - 1


def scale_batches_forgotten(apply, in_dims, x, s):
    return apply(x if in_dims[0] is None else x.movedim(in_dims[0], 0), s), 0


def sine(vmap):
    return modal("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos(), vmap=vmap)


BUGS = [
    Bug(
        name="jvp_sign",
        wrong=cos(lambda tangents, x: tangents[0] * x.sin()),
        right=cos(lambda tangents, x: -tangents[0] * x.sin()),
        truth=torch.cos,
        inputs=normal((4,)),
        shown_by=tangents,
        expects=JVP,
        cause=("sign",),
        source="two rules for one derivative",
    ),
    Bug(
        name="jvp_drops_an_input",
        wrong=multiply(lambda tangents, x, y: tangents[0] * y),
        right=multiply(lambda tangents, x, y: tangents[0] * y + tangents[1] * x),
        truth=product,
        inputs=normal((4,), (4,)),
        shown_by=tangents,
        expects=JVP,
        cause=("missing", "drop", "zero", "tangent"),
        source="one term of the product rule",
    ),
    Bug(
        name="jvp_is_the_vjp",
        wrong=modal(
            "Cumsum",
            lambda x: x.cumsum(0),
            lambda g, x: g.flip(0).cumsum(0).flip(0),
            lambda tangents, x: tangents[0].flip(0).cumsum(0).flip(0),
        ),
        right=modal(
            "Cumsum",
            lambda x: x.cumsum(0),
            lambda g, x: g.flip(0).cumsum(0).flip(0),
            lambda tangents, x: tangents[0].cumsum(0),
        ),
        truth=lambda x: x.cumsum(0),
        inputs=normal((4,)),
        shown_by=tangents,
        expects=JVP,
        cause=("transpos", "flip", "revers", "vjp", "backward"),
        source="backward's formula copied into jvp",
    ),
    Bug(
        name="stale_tangent",
        wrong=StaleTangent.apply,
        right=modal("Sin", lambda x: x.sin(), lambda g, x: g * x.cos(), lambda tangents, x: tangents[0] * x.cos()),
        truth=torch.sin,
        inputs=normal((4,)),
        shown_by=stale,
        expects=JVP | {"state"},
        cause=("stale", "state", "call", "tangent", "element"),
        source="derivatives cached by shape",
    ),
    Bug(
        name="vmap_over_the_wrong_axis",
        wrong=cumsum(lambda apply, in_dims, x: (apply(x.movedim(in_dims[0], 0)), 0)),
        right=cumsum(cumsum_of_samples),
        truth=lambda x: x.cumsum(0),
        inputs=normal((3,)),
        shown_by=mapped(0),
        expects=VMAP,
        cause=("axis", "batch", "vmap", "sample"),
        source="dim counts the axes of a sample, and there is one more",
    ),
    Bug(
        name="vmap_mixes_samples",
        wrong=share(lambda apply, in_dims, x: (apply(x), in_dims[0])),
        right=share(share_of_samples),
        truth=lambda x: x / x.sum(),
        inputs=lambda: (normal((4,))()[0].abs() + 0.5,),
        shown_by=mapped(0),
        expects=VMAP,
        cause=("mix", "batch", "sample", "vmap", "axis"),
        source="a reduction over everything, batched as if it were elementwise",
    ),
    Bug(
        name="vmap_ignores_in_dims",
        wrong=sine(lambda apply, in_dims, x: (apply(x), 0)),
        right=sine(lambda apply, in_dims, x: (apply(x), in_dims[0])),
        truth=torch.sin,
        inputs=normal((3,)),
        shown_by=mapped(1),
        expects=VMAP,
        cause=("in_dims", "axis", "batch", "vmap", "transpos"),
        source="rules tried with in_dims=0 alone",
    ),
    Bug(
        name="vmap_of_the_second_argument",
        wrong=scale(scale_batches_forgotten),
        right=scale(scale_of_samples),
        truth=product,
        inputs=normal((3,), ()),
        shown_by=mapped((None, 0)),
        expects=VMAP,
        cause=("in_dims", "axis", "batch", "vmap", "broadcast", "unbatched"),
        source="rules tried with all arguments batched",
    ),
]
