"""A Function as Dynamo sees it: torch's own class around the same methods, traced, with guards, into the graph.

Under a transform Dynamo would drop the derivative that was written by hand, without a word on some versions of torch;
there, and where methods take ``self``, the graph is broken and the Function runs as it does in eager code. So it does
where the gradients are not what they should be: the error is then that of eager code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .dialect import Dialect


def make_traced(dialect: Dialect) -> Callable[..., Any]:
    """Make the function that `apply` calls while Dynamo traces."""
    function, reverse, boxed = dialect.function, dialect.reverse, dialect.boxed  # Dynamo knows classes, not Dialects.

    set_up = dialect.kind == "setup"

    def forward(*args: Any, **kwargs: Any) -> Any:
        return function.forward(*args, **kwargs)

    def forward_with_context(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._graft_arguments = [(a.shape, a.dtype) if isinstance(a, Tensor) else None for a in args]
        return function.forward(ctx, *args, **kwargs)

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx._graft_arguments = [(a.shape, a.dtype) if isinstance(a, Tensor) else None for a in inputs]
        function.setup_context(ctx, inputs, output)

    def backward(ctx: Any, *grads: Any) -> Any:
        written = getattr(function, reverse)
        result = written(ctx, list(grads)) if boxed else written(ctx, *grads)
        several = result if isinstance(result, (tuple, list)) else (result,)
        for known in ctx._graft_arguments[len(several) :]:
            if known is not None:
                _torch.graph_break()
        for known, grad in zip(ctx._graft_arguments, several):  # noqa: B905 - Dynamo does not trace `strict`
            if grad is not None and (known is None or grad.shape != known[0] or grad.dtype != known[1]):
                _torch.graph_break()
        return (*several, *[None] * (len(ctx._graft_arguments) - len(several)))

    body: dict[str, Any] = {"backward": staticmethod(backward), "__module__": function.__module__}
    body["forward"] = staticmethod(forward if set_up else forward_with_context)
    if set_up:
        body["setup_context"] = staticmethod(setup_context)

    @_torch.no_dynamo
    def eager(*args: Any, **kwargs: Any) -> Any:
        return function.apply(*args, **kwargs)

    body["apply"] = staticmethod(eager)  # Dynamo may give up tracing, and the checks must stay.
    twin: Any = type(dialect.name, (torch.autograd.Function,), body)
    names, defaults = dialect.positional()
    traceable = dialect.kind != "instance" and _torch.DYNAMO_KNOWS_FUNCTIONS

    def traced(*args: Any, **kwargs: Any) -> Any:
        if kwargs or (set_up and len(args) < len(names)):
            args = (*args, *[kwargs.pop(name) if name in kwargs else defaults[name] for name in names[len(args) :]])
        if not traceable or _torch.functorch_active() or _torch.forward_ad._current_level >= 0:
            _torch.graph_break()
            return eager(*args, **kwargs)
        return twin.apply(*args, **kwargs)

    return traced
