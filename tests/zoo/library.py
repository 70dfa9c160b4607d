"""torch.library: what is registered beside a kernel, and has to agree with it."""

import numpy as np
import torch
from torch import Tensor
from torch.library import Library, custom_op

from .bug import Bug, normal
from .observe import fake, gradients, in_place, mapped, registered

FAKE = {"fake", "meta", "opcheck", "compile", "aot", "export"}
LIBRARY = Library("zoo", "FRAGMENT")  # as long as it lives, so do its registrations


def operator(name, kernel, like=torch.empty_like, backward=None, setup_context=None, vmap=None):
    """An operator of one tensor: its kernel, what it returns for fake tensors, its derivative."""

    def run(x: Tensor) -> Tensor:
        return kernel(x)

    made = custom_op(f"zoo::{name}", run, mutates_args=())
    made.register_fake(like)
    if backward is not None:
        made.register_autograd(backward, setup_context=setup_context or save_input)
    if vmap is not None:
        made.register_vmap(vmap)
    return made


def save_input(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def save_output(ctx, inputs, output):
    ctx.save_for_backward(output)


def sine(name, **changes):
    rules = {"kernel": torch.sin, "backward": lambda ctx, grad: grad * ctx.saved_tensors[0].cos()}
    return operator(name, **(rules | changes))


def twice(name, **changes):
    rules = {"kernel": lambda x: 2 * x.contiguous(), "backward": lambda ctx, grad: 2 * grad}
    rules["like"] = lambda x: torch.empty_like(x, memory_format=torch.contiguous_format)
    return operator(name, **(rules | changes))


def total(name, like):
    def backward(ctx, grad):
        return grad.unsqueeze(-1).expand_as(ctx.saved_tensors[0])

    return operator(name, lambda x: x.sum(-1), like, backward)


def centered_in_place(x):
    x.sub_(1)
    return 2 * x


def low_level(name, kernel, key="CPU"):
    """An operator by define and impl."""
    LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    LIBRARY.impl(name, kernel, key)
    torch.library.register_fake(f"zoo::{name}", torch.empty_like, lib=LIBRARY)
    return getattr(torch.ops.zoo, name)


def differentiable_sine(name):
    made = low_level(name, torch.sin)
    torch.library.register_autograd(
        f"zoo::{name}", lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=save_input, lib=LIBRARY
    )
    return made


class SineWithGraph(torch.autograd.Function):
    """Right where it is called; registered at a backend's key, compilers do not see that there is a graph."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()


def total_shape(x):
    return x.new_empty(x.shape[:-1])


SINE = sine("sine")
TWICE = twice("twice")
TOTAL = total("total", total_shape)

BUGS = [
    Bug(
        name="fake_shape",
        wrong=total("total_kept", lambda x: x.new_empty((*x.shape[:-1], 1))),
        right=TOTAL,
        truth=lambda x: x.sum(-1),
        inputs=normal((2, 3)),
        shown_by=fake,
        expects=FAKE,
        cause=("shape", "fake"),
        source="keepdim in one of two places",
    ),
    Bug(
        name="fake_hard_coded",
        wrong=total("total_of_two", lambda x: x.new_empty((2,))),
        right=TOTAL,
        truth=lambda x: x.sum(-1),
        inputs=normal((2, 3)),
        shown_by=fake,
        expects=FAKE,
        cause=("shape", "hard", "size", "fake"),
        source="TileOPs#648: shapes of the configuration that was benchmarked",
    ),
    Bug(
        name="fake_dtype",
        wrong=total("total_in_float32", lambda x: torch.empty(x.shape[:-1], device=x.device)),
        right=TOTAL,
        truth=lambda x: x.sum(-1),
        inputs=normal((2, 3)),
        shown_by=fake,
        expects=FAKE,
        cause=("dtype", "float32"),
        source="torch.empty without a dtype",
    ),
    Bug(
        name="fake_strides",
        wrong=twice("twice_by_columns", kernel=lambda x: (2 * x.mT.contiguous()).mT),
        right=TWICE,
        truth=lambda x: 2 * x,
        inputs=normal((2, 3)),
        shown_by=fake,
        expects=FAKE,
        cause=("stride", "layout"),
        source="pytorch#149732, #182328: Inductor asserts the strides that the fake kernel told",
    ),
    Bug(
        name="undeclared_mutation",
        wrong=operator("centered_in_place", centered_in_place, backward=lambda ctx, grad: 2 * grad),
        right=operator("centered", lambda x: 2 * (x - 1), backward=lambda ctx, grad: 2 * grad),
        truth=lambda x: 2 * (x - 1),
        inputs=normal((2, 3)),
        shown_by=in_place,
        expects={"mutat", "in place", "opcheck", "schema", "overwrit", "input"},
        cause=("mutat", "in place", "in-place", "overwrit", "chang"),
        source="pytorch#129372, #130487: mutates_args left empty",
    ),
    Bug(
        name="input_returned",
        wrong=operator("kept", lambda x: x, backward=lambda ctx, grad: grad),
        right=operator("copied", lambda x: x.clone(), backward=lambda ctx, grad: grad),
        truth=torch.clone,
        inputs=normal((2, 3)),
        shown_by=in_place,
        expects={"alias", "opcheck", "schema", "share", "raises"},
        cause=("alias", "share", "same memory", "returns", "view"),
        source="pytorch#73604, #180620; mamba#651: the case where there is nothing to do",
    ),
    Bug(
        name="view_returned",
        wrong=operator(
            "flat_view",
            lambda x: x.view(-1),
            lambda x: x.new_empty(x.numel()),
            lambda ctx, grad: grad.view(ctx.saved_tensors[0].shape),
        ),
        right=operator(
            "flat_copy",
            lambda x: x.flatten().clone(),
            lambda x: x.new_empty(x.numel()),
            lambda ctx, grad: grad.reshape(ctx.saved_tensors[0].shape),
        ),
        truth=lambda x: x.flatten().clone(),
        inputs=normal((2, 3)),
        shown_by=in_place,
        expects={"alias", "opcheck", "schema", "share", "raises"},
        cause=("alias", "share", "same memory", "returns", "view"),
        source="pytorch#14707: reshape returns a view where it can",
    ),
    Bug(
        name="no_derivative",
        wrong=low_level("sine_underived", lambda x: torch.from_numpy(np.sin(x.detach().numpy()))),
        right=differentiable_sine("sine_derived"),
        truth=torch.sin,
        inputs=normal((4,)),
        shown_by=gradients,
        expects={"gradient", "autograd", "derivative", "differentiable", "requires", "opcheck"},
        cause=("autograd", "no derivative", "registered", "None", "zero", "no gradient", "requires"),
        source="pytorch#104481, #196859: a warning, then a gradient of None",
    ),
    Bug(
        name="autograd_below_autograd",
        wrong=low_level("sine_below", SineWithGraph.apply),
        right=differentiable_sine("sine_above"),
        truth=SINE,
        inputs=normal((4,)),
        shown_by=registered,
        expects={"gradient", "autograd", "derivative", "differentiable", "requires", "opcheck"},
        cause=("autograd", "no derivative", "registered", "None", "zero", "no gradient", "requires"),
        source="a Function registered for the CPU key",
    ),
    Bug(
        name="library_formula",
        wrong=sine("sine_flat", backward=lambda ctx, grad: grad * ctx.saved_tensors[0].sin()),
        right=SINE,
        truth=torch.sin,
        inputs=normal((4,)),
        expects={"gradient"},
        cause=("factor", "sin", "tan", "element", "entries"),
        source="opcheck compares eager with compiled code, which share the formula",
    ),
    Bug(
        name="output_saved_for_input",
        wrong=sine("sine_of_output", setup_context=save_output),
        right=SINE,
        truth=torch.sin,
        inputs=normal((4,)),
        expects={"gradient"},
        cause=("output", "input", "saved", "element", "entries"),
        source="setup_context that keeps the wrong one of two tensors",
    ),
    Bug(
        name="library_vmap",
        wrong=sine("sine_batched_wrong", vmap=lambda info, in_dims, x: (torch.sin(x), 0)),
        right=sine("sine_batched", vmap=lambda info, in_dims, x: (torch.sin(x), in_dims[0])),
        truth=torch.sin,
        inputs=normal((3,)),
        shown_by=mapped(1),
        expects={"vmap", "batch"},
        cause=("in_dims", "axis", "batch", "vmap", "transpos"),
        source="a batch axis that is not the first",
    ),
]
