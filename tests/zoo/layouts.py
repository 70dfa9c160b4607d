"""Memory layouts: what kernels that read memory make of strides, offsets and expanded axes."""

import torch

from .bug import Bug, function, normal
from .observe import laid_out

LAYOUT = {"layout", "stride", "contiguous", "expanded", "transposed", "offset", "memory"}
CAUSE = ("stride", "contiguous", "layout", "expanded", "transposed", "memory")


def as_memory(x):
    """What a kernel sees that takes a pointer for contiguous data."""
    return x.as_strided(x.shape, torch.empty(x.shape, device="meta").stride())


def from_the_start(x):
    """What a kernel sees that takes the storage for the tensor."""
    return x.as_strided(x.shape, x.stride(), 0)


def dense(x):
    """Checks that there are no gaps, which is not enough: channels may come last."""
    return (
        as_memory(x)
        if x.is_contiguous() or (x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last))
        else x
    )


def one_value_if_expanded(grad, x):
    return (grad.reshape(-1)[:1] if 0 in grad.stride() and grad.numel() else grad) * x.cos()


SINE = {
    "right": function("Sin", lambda x: x.sin(), lambda grad, x: grad * x.cos()),
    "truth": torch.sin,
    "inputs": normal((3, 4)),
    "shown_by": laid_out,
}

BUGS = [
    Bug(
        name="input_taken_for_contiguous",
        wrong=function("Sin", lambda x: as_memory(x).sin(), lambda grad, x: grad * as_memory(x).cos(), once=True),
        **SINE,
        expects=LAYOUT,
        cause=CAUSE,
        source="pytorch#69997: data_ptr() without contiguous()",
    ),
    Bug(
        name="upstream_taken_for_contiguous",
        wrong=function("Sin", lambda x: x.sin(), lambda grad, x: as_memory(grad) * x.cos(), once=True),
        **SINE,
        expects=LAYOUT,
        cause=CAUSE,
        source="flash-attention#355, mmcv#737, apex#1601",
    ),
    Bug(
        name="offset_ignored",
        wrong=function("Sin", lambda x: from_the_start(x).sin(), lambda grad, x: grad * x.cos()),
        **SINE,
        expects=LAYOUT | {"gradient", "value"},
        cause=(*CAUSE, "offset"),
        source="storage().data_ptr(): slices begin within their memory",
    ),
    Bug(
        name="channels_last",
        wrong=function("Sin", lambda x: dense(x).sin(), lambda grad, x: grad * dense(x).cos(), once=True),
        **(SINE | {"inputs": normal((2, 3, 4, 5))}),
        expects=LAYOUT | {"channels"},
        cause=(*CAUSE, "channels"),
        source="pytorch#137979, #133639: compilers change strides too",
    ),
    Bug(
        name="view_of_upstream",
        wrong=function("Sin", lambda x: x.sin(), lambda grad, x: (grad.view(-1) * x.reshape(-1).cos()).view(x.shape)),
        **SINE,
        expects=LAYOUT | {"raises", "gradient"},
        cause=(*CAUSE, "view"),
        source="view for reshape: an error that comes with the first transpose after the layer",
    ),
    Bug(
        name="expanded_along_one_axis",
        wrong=function("Sin", lambda x: x.sin(), one_value_if_expanded),
        **SINE,
        expects=LAYOUT,
        cause=CAUSE,
        source="a shortcut for loss.sum().backward()",
    ),
]
