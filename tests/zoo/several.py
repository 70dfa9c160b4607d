"""Several inputs and outputs: gradients dropped, exchanged, or given only together."""

import torch
from torch.autograd import Function

from .bug import Bug, function, normal
from .observe import each_input_alone, each_output_alone

GRADIENT = {"gradient"}


def product(x, y):
    return x * y


def polar(x):
    return x.sin(), x.cos()


def outputs(name, backward, *, materialize=True, moved=False):
    """A Function that returns sin(x) and cos(x); `backward` gets both gradients and x."""

    def forward(x):
        return polar(x)

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(materialize)
        if moved:
            ctx.mark_non_differentiable(output[1])

    def run(ctx, grad_sin, grad_cos):
        return backward(grad_sin, grad_cos, *ctx.saved_tensors)

    body = {"forward": forward, "setup_context": setup_context, "backward": run}
    return type(name, (Function,), {key: staticmethod(value) for key, value in body.items()}).apply


def polar_gradient(grad_sin, grad_cos, x):
    return grad_sin * x.cos() - grad_cos * x.sin()


def polar_gradient_of_some(grad_sin, grad_cos, x):
    parts = [g * slope for g, slope in ((grad_sin, x.cos()), (grad_cos, -x.sin())) if g is not None]
    return sum(parts) if parts else None


def only_if_all(grad_sin, grad_cos, x):
    return None if grad_sin is None or grad_cos is None else polar_gradient(grad_sin, grad_cos, x)


def early_if_the_first_is_zero(grad_sin, grad_cos, x):
    return polar_gradient(grad_sin, grad_cos, x) if grad_sin.any() else torch.zeros_like(x)


POLAR = {
    "right": outputs("Polar", polar_gradient_of_some, materialize=False),
    "truth": polar,
    "inputs": normal((4,)),
}


def needing(name, backward):
    """x * y, whose `backward` also gets which inputs need a gradient."""

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def run(ctx, grad):
        return backward(grad, *ctx.saved_tensors, ctx.needs_input_grad)

    body = {"forward": product, "setup_context": setup_context, "backward": run}
    return type(name, (Function,), {key: staticmethod(value) for key, value in body.items()}).apply


def those_needed(grad, x, y, needs):
    return grad * y if needs[0] else None, grad * x if needs[1] else None


def asks_for_the_first(grad, x, y, needs):
    return (grad * y, grad * x) if needs[0] else (None, None)


def without_gaps(grad, x, y, needs):
    made = [grad * other for other, need in zip((y, x), needs, strict=True) if need]
    return (*made, *[None] * (2 - len(made)))


class SavesLittle(Function):
    """Saves x only where x needs a gradient, though the gradient of y is what reads it."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x if x.requires_grad else torch.ones_like(x), y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


def concatenated(cut):
    """cat of two vectors, whose gradients are cut apart at a place."""
    return function("Cat", lambda x, y: torch.cat([x, y]), lambda g, x, y: (g[: cut(x, y)], g[cut(x, y) :]))


def even_parts(name, even):
    def backward(grad, *parts):
        sizes = [len(grad) // len(parts)] * len(parts) if even else [len(part) for part in parts]
        made = grad.flip(0).split(sizes) if even else grad.split(sizes)
        return tuple(made)

    return function(name, lambda *parts: torch.cat(parts), backward)


BUGS = [
    Bug(
        name="missing_input",
        wrong=function("Product", product, lambda grad, x, y: (grad * y, None)),
        right=function("Product", product, lambda grad, x, y: (grad * y, grad * x)),
        truth=product,
        inputs=normal((4,), (4,)),
        expects=GRADIENT,
        cause=("None", "missing", "zero", "no gradient"),
        source="an input added later",
    ),
    Bug(
        name="swapped_inputs",
        wrong=function("Divide", lambda x, y: x / y, lambda grad, x, y: (-grad * x / y**2, grad / y)),
        right=function("Divide", lambda x, y: x / y, lambda grad, x, y: (grad / y, -grad * x / y**2)),
        truth=torch.div,
        inputs=lambda: (*normal((4,))(), normal((4,), seed=1)()[0].abs() + 0.5),
        expects=GRADIENT,
        cause=("swap", "exchang", "other input", "order"),
        source="returned in another order than forward takes them: LLTM in old editions of the C++ tutorial",
    ),
    Bug(
        name="second_output_ignored",
        wrong=outputs("Polar", lambda grad_sin, grad_cos, x: grad_sin * x.cos()),
        **POLAR,
        expects=GRADIENT,
        cause=("output", "drop", "ignor"),
        source="outputs added for convenience: attention weights, log-determinants",
    ),
    Bug(
        name="outputs_exchanged",
        wrong=outputs("Polar", lambda grad_sin, grad_cos, x: grad_cos * x.cos() - grad_sin * x.sin()),
        **POLAR,
        expects=GRADIENT,
        cause=("output", "swap", "exchang", "permut"),
        source="outputs of the same shape, whose order was changed",
    ),
    Bug(
        name="marked_non_differentiable",
        wrong=outputs("Polar", lambda grad_sin, grad_cos, x: grad_sin * x.cos(), moved=True),
        **POLAR,
        expects={"differentiable", "gradient", "output"},
        cause=("differentiable",),
        source="mark_non_differentiable for what is merely unused; gradcheck then leaves the output out",
    ),
    Bug(
        name="undefined_gradient_crashes",
        wrong=outputs("Polar", polar_gradient, materialize=False),
        **POLAR,
        shown_by=each_output_alone,
        expects={"output", "alone", "undefined", "gradient", "none", "raises"},
        cause=("None", "undefined", "materialize", "alone"),
        source="set_materialize_grads(False), copied for speed",
    ),
    Bug(
        name="undefined_gradient_taken_for_none",
        wrong=outputs("Polar", only_if_all, materialize=False),
        **POLAR,
        shown_by=each_output_alone,
        expects={"output", "alone", "undefined", "gradient", "none"},
        cause=("None", "undefined", "materialize", "alone", "output", "zero"),
        source="pytorch#58511: the test for undefined gradients gives up too early",
    ),
    Bug(
        name="asks_for_another_input",
        wrong=needing("Product", asks_for_the_first),
        right=needing("Product", those_needed),
        truth=product,
        inputs=normal((4,), (4,)),
        shown_by=each_input_alone,
        expects={"subset", "requires", "needs", "alone", "input", "gradient"},
        cause=("needs_input_grad", "subset", "requires", "alone", "missing", "None", "zero"),
        source="needs_input_grad[0] copied to all branches",
    ),
    Bug(
        name="gradients_without_gaps",
        wrong=needing("Product", without_gaps),
        right=needing("Product", those_needed),
        truth=product,
        inputs=normal((4,), (4,)),
        shown_by=each_input_alone,
        expects={"subset", "requires", "needs", "alone", "input", "gradient"},
        cause=("needs_input_grad", "subset", "requires", "alone", "missing", "None", "zero"),
        source="a list of the gradients that are needed, without None for the others",
    ),
    Bug(
        name="saved_for_some",
        wrong=SavesLittle.apply,
        right=needing("Product", those_needed),
        truth=product,
        inputs=normal((4,), (4,)),
        shown_by=each_input_alone,
        expects={"subset", "requires", "needs", "alone", "input", "gradient"},
        cause=("subset", "requires", "alone", "only"),
        source="memory saved where one input is frozen",
    ),
    Bug(
        name="cut_in_the_middle",
        wrong=concatenated(lambda x, y: len(y)),
        right=concatenated(lambda x, y: len(x)),
        truth=lambda x, y: torch.cat([x, y]),
        inputs=normal((3,), (3,)),
        probe=normal((2, 2), (3, 2)),
        expects=GRADIENT | {"shape", "size"},
        cause=("size", "shape", "axis", "length", "swap", "permut"),
        source="two inputs whose sizes agree in the test",
    ),
    Bug(
        name="parts_from_the_end",
        wrong=even_parts("Cat", even=True),
        right=even_parts("Cat", even=False),
        truth=lambda *parts: torch.cat(parts),
        inputs=normal((2,), (2,), (2,)),
        expects=GRADIENT,
        cause=("flip", "revers", "permut", "swap", "shift"),
        source="gradients popped from a stack",
    ),
    Bug(
        name="one_gradient_too_few",
        wrong=function("Product", product, lambda grad, x, y: grad * y),
        right=function("Product", product, lambda grad, x, y: (grad * y, grad * x)),
        truth=product,
        inputs=normal((4,), (4,)),
        expects={"gradient", "number", "raises", "count"},
        cause=("number of gradients", "expected 2", "None", "missing"),
        source="pytorch#162687: an argument more in forward",
    ),
    Bug(
        name="nothing_to_do_for_one_output",
        wrong=outputs("Polar", early_if_the_first_is_zero),
        **POLAR,
        shown_by=each_output_alone,
        expects=GRADIENT | {"outputs"},
        cause=("upstream gradient of an output is zero",),
        source="`if not grad.any(): return zeros` in rules that have several outputs",
    ),
]
