"""Memory that is not one's own: overwritten inputs and gradients, outputs that share memory, memory never freed."""

import numpy as np
import torch
from torch.autograd import Function

from .bug import Bug, function, normal
from .observe import backward_twice, freed, in_place, interleaved, on_new_memory


class Relu(Function):
    """In place, and says so."""

    @staticmethod
    def forward(ctx, x):
        x.clamp_(min=0)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x > 0)


class ReluUnmarked(Function):
    """In place, and does not say so."""

    @staticmethod
    def forward(ctx, x):
        x.clamp_(min=0)
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x > 0)


def with_its_input(relu, x):
    middle = 3 * x
    return relu.apply(middle) + middle


class ExpOnCtx(Function):
    """Keeps its output, and so itself."""

    @staticmethod
    def forward(ctx, x):
        ctx.out = x.exp()
        return ctx.out

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.out


class ExpSaved(Function):
    @staticmethod
    def forward(ctx, x):
        out = x.exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        return grad * out


class SigmoidInPlace(Function):
    """Its backward uses up what was saved, so that there is a first time only."""

    @staticmethod
    def forward(ctx, x):
        ctx.gate = x.detach().sigmoid()
        return ctx.gate.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return ctx.gate.mul_(1 - ctx.gate).mul_(grad)


HISTORY = []


class Remembers(Function):
    """Appends to a list, for debugging."""

    @staticmethod
    def forward(ctx, x):
        HISTORY.append(x)
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()


BUFFERS = {}


def buffer(like, name):
    """The same memory for every tensor of a shape."""
    key = (name, tuple(like.shape), like.dtype)
    if key not in BUFFERS:
        BUFFERS[key] = torch.empty_like(like, memory_format=torch.contiguous_format)
    return BUFFERS[key]


def shifted(x):
    """Through NumPy's views, of which torch knows nothing."""
    return torch.from_numpy(x.detach().numpy().reshape(x.shape))


def scaled_by_data(grad, x):
    x.data.mul_(2)
    return grad * x


def overwritten(grad, x):
    return grad.mul_(x.cos())


def doubled_by_data(x):
    x.data.mul_(2)
    return x.clone()


def steps(make):
    """Differences of neighbours, into memory that `make` gives: nothing is written into its first column."""

    def forward(x):
        out = make(x)
        out[:, 1:] = x[:, 1:] - x[:, :-1]
        return out

    def backward(grad, x):
        made = torch.zeros_like(x)
        made[:, 1:] += grad[:, 1:]
        made[:, :-1] -= grad[:, 1:]
        return made

    return function("Steps", forward, backward)


def head(make):
    """The first two columns, whose backward writes into theirs alone."""

    def backward(grad, x):
        made = make(x)
        made[:, :2] = grad
        return made

    return function("Head", lambda x: x[:, :2].clone(), backward)


def total(make):
    """A sum of rows, added to what `make` gives."""

    def forward(x):
        out = make(x[0])
        for row in x:
            out += row
        return out

    return function("Total", forward, lambda grad, x: grad.expand_as(x).clone())


SINE = {
    "right": function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos()),
    "truth": torch.sin,
    "inputs": normal((3, 4)),
}


def divided(excluded):
    """sin(x) / x, where NumPy leaves out what a mask excludes."""

    def forward(x):
        values = x.detach().numpy()
        return torch.from_numpy(np.divide(np.sin(values), values, out=excluded(values), where=values != 0))

    def backward(grad, x):
        safe = torch.where(x == 0, 1, x)
        return grad * torch.where(x == 0, 0, (safe.cos() - safe.sin() / safe) / safe)

    return function("Sinc", forward, backward, once=True)


def midpoint(halves):
    return function("Midpoint", lambda x, y: (x + y) / 2, lambda grad, x, y: halves(grad / 2))


def painted(mark):
    """Write the sine into a canvas, and return that."""

    class Painted(Function):
        @staticmethod
        def forward(ctx, canvas, x):
            ctx.save_for_backward(x)
            canvas.copy_(x.sin())
            mark(ctx, canvas)
            return canvas

        @staticmethod
        def backward(ctx, grad):
            return torch.zeros_like(grad), grad * ctx.saved_tensors[0].cos()

    return Painted.apply


def gradient_of_the_canvas(target, inputs):
    canvas, x = (value.clone() for value in inputs)
    target(canvas, x.requires_grad_())
    return torch.autograd.grad(canvas.sum(), x)[0] if canvas.requires_grad else None


def accumulated(target, inputs):
    """The gradients that two backwards leave in `.grad`."""
    leaves = [value.clone().requires_grad_() for value in inputs]
    for _ in range(2):
        target(*leaves).sum().backward()
    return [leaf.grad for leaf in leaves]


def on_dirty_memory(target, inputs):
    """Values at zero, in memory that held sevens."""
    kept = [np.full(inputs[0].shape, 7.0) for _ in range(50)]
    del kept
    return target(torch.zeros_like(inputs[0]))


BUGS = [
    Bug(
        name="mark_dirty_missing",
        wrong=ReluUnmarked.apply,
        right=function("Relu", lambda x: x.clamp(min=0), lambda grad, x: grad * (x > 0)),
        truth=torch.relu,
        inputs=normal((3, 4)),
        shown_by=in_place,
        expects={"mutat", "in place", "dirty", "overwrit", "input"},
        cause=("mark_dirty", "in place", "in-place", "overwrit", "chang", "mutat"),
        source="pytorch#133491, #184113",
    ),
    Bug(
        name="mark_dirty_missing_on_the_way",
        wrong=lambda x: with_its_input(ReluUnmarked, x),
        right=lambda x: with_its_input(Relu, x),
        truth=lambda x: 2 * (3 * x).relu(),
        inputs=normal((3, 4)),
        expects={"gradient", "mutat", "in place", "dirty", "overwrit", "input"},
        cause=("mark_dirty", "in place", "in-place", "< 0", "negative", "mutat"),
        source="an activation in place, whose input has another reader",
    ),
    Bug(
        name="input_written_by_data",
        wrong=function("Double", doubled_by_data, lambda grad, x: 2 * grad),
        right=function("Double", lambda x: 2 * x, lambda grad, x: 2 * grad),
        truth=lambda x: 2 * x,
        inputs=normal((3, 4)),
        shown_by=in_place,
        expects={"mutat", "in place", "dirty", "overwrit", "input"},
        cause=("in place", "in-place", "overwrit", "chang", "mutat", "mark_dirty"),
        source="axolotl#3892, pytorch#24413: raw pointers, which no version counter sees",
    ),
    Bug(
        name="upstream_overwritten",
        wrong=function("Sin", lambda x: x.sin(), overwritten),
        **SINE,
        shown_by=in_place,
        expects={"mutat", "in place", "overwrit", "grad", "upstream"},
        cause=("upstream", "in place", "in-place", "overwrit", "chang", "mutat"),
        source="apex#1430, Liger-Kernel#254 and #272: memory saved in backward",
    ),
    Bug(
        name="saved_overwritten",
        wrong=function("Square", lambda x: x * x, scaled_by_data),
        right=function("Square", lambda x: x * x, lambda grad, x: 2 * grad * x),
        truth=torch.square,
        inputs=normal((3, 4)),
        shown_by=in_place,
        expects={"mutat", "in place", "overwrit", "saved", "input"},
        cause=("saved", "in place", "in-place", "overwrit", "chang", "mutat"),
        source="pytorch#81417: saved tensors as scratch space",
    ),
    Bug(
        name="output_on_ctx",
        wrong=ExpOnCtx.apply,
        right=ExpSaved.apply,
        truth=torch.exp,
        inputs=normal((3, 4)),
        shown_by=freed,
        expects={"leak", "memory", "freed"},
        cause=("ctx", "cycle", "output", "leak"),
        source="pytorch#25340, #94990, and the forward-mode tutorial's ctx.result",
    ),
    Bug(
        name="never_freed",
        wrong=Remembers.apply,
        **SINE,
        shown_by=freed,
        expects={"leak", "memory", "freed"},
        cause=("leak", "kept", "held", "alive", "freed", "memory"),
        source="debugging lists, caches by id",
    ),
    Bug(
        name="shares_the_inputs_memory",
        wrong=function("Shift", shifted, lambda grad, x: grad.clone()),
        right=function("Shift", lambda x: x.clone(), lambda grad, x: grad.clone()),
        truth=torch.clone,
        inputs=normal((3, 4)),
        shown_by=in_place,
        expects={"alias", "share", "memory"},
        cause=("alias", "share", "same memory", "view"),
        source="pytorch#5871: np.ravel, np.real, np.reshape and np.asarray return views",
    ),
    Bug(
        name="output_in_a_buffer",
        wrong=function("Sin", lambda x: torch.sin(x, out=buffer(x, "out")), lambda grad, x: grad * x.cos()),
        **SINE,
        shown_by=interleaved,
        expects={"state", "alias", "memory", "buffer", "share", "call", "interleav", "overwrit"},
        cause=("buffer", "memory", "alias", "share", "state", "overwrit"),
        source="preallocated workspaces returned to the caller",
    ),
    Bug(
        name="gradient_in_a_buffer",
        wrong=function("Sin", lambda x: x.sin(), lambda g, x: torch.mul(g, x.cos(), out=buffer(x, "grad")), once=True),
        right=function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos(), once=True),
        truth=torch.sin,
        inputs=normal((3, 4)),
        shown_by=backward_twice,
        expects={"state", "alias", "memory", "buffer", "share", "call", "interleav", "overwrit", "linear", "determin"},
        cause=("buffer", "memory", "alias", "share", "state", "overwrit"),
        source="gradients in preallocated memory",
    ),
    Bug(
        name="used_up_in_backward",
        wrong=SigmoidInPlace.apply,
        right=function("Sigmoid", lambda x: x.sigmoid(), lambda g, x: g * x.sigmoid() * (1 - x.sigmoid()), once=True),
        truth=torch.sigmoid,
        inputs=normal((3, 4)),
        shown_by=backward_twice,
        expects={"state", "retain", "twice", "saved", "determin", "linear", "overwrit", "repeat", "call", "in place"},
        cause=("no argument", "in place", "in-place", "saved", "overwrit", "second", "state", "ctx", "chang"),
        source="retain_graph=True and a backward in place on ctx",
    ),
    Bug(
        name="output_never_written",
        wrong=steps(torch.empty_like),
        right=steps(torch.zeros_like),
        truth=lambda x: torch.nn.functional.pad(x.diff(), (1, 0)),
        inputs=normal((3, 4)),
        shown_by=on_new_memory,
        expects={"written"},
        cause=("never written",),
        source="the border of a stencil, in memory of torch.empty",
    ),
    Bug(
        name="gradient_never_written",
        wrong=head(torch.empty_like),
        right=head(torch.zeros_like),
        truth=lambda x: x[:, :2].clone(),
        inputs=normal((3, 4)),
        shown_by=on_new_memory,
        expects={"written", "gradient"},
        cause=("never written",),
        source="the backward of an index, in memory of torch.empty",
    ),
    Bug(
        name="added_to_new_memory",
        wrong=total(torch.empty_like),
        right=total(torch.zeros_like),
        truth=lambda x: x.sum(0),
        inputs=normal((3, 4)),
        shown_by=on_new_memory,
        expects={"written"},
        cause=("nobody has written",),
        source="C and CUDA kernels that add to outputs which nobody cleared",
    ),
    Bug(
        name="zeros_left_out",
        wrong=divided(np.empty_like),
        right=divided(np.ones_like),
        truth=lambda x: torch.sinc(x / torch.pi),
        inputs=normal((5,)),
        shown_by=on_dirty_memory,
        expects={"memory"},
        cause=("never written",),
        source="np.divide(out=np.empty_like(x), where=x != 0)",
    ),
    Bug(
        name="two_gradients_in_one_memory",
        wrong=midpoint(lambda half: (half.view(-1).view_as(half), half.view_as(half))),
        right=midpoint(lambda half: (half, half.clone())),
        truth=lambda x, y: (x + y) / 2,
        inputs=normal((2, 3), (2, 3)),
        shown_by=accumulated,
        expects={"add up"},
        cause=("views of one memory",),
        source="views of one buffer that are returned for two inputs, and gradients that are accumulated",
    ),
    Bug(
        name="canvas_that_is_not_marked",
        wrong=painted(lambda ctx, canvas: None),
        right=painted(lambda ctx, canvas: ctx.mark_dirty(canvas)),
        truth=lambda canvas, x: canvas.copy_(x.sin()),
        inputs=lambda: (torch.zeros(3, dtype=torch.float64), normal((3,))()[0].requires_grad_()),
        shown_by=gradient_of_the_canvas,
        expects={"written"},
        cause=("does not know",),
        source="buffers that a caller passes, in which a forward writes without mark_dirty",
    ),
]
