"""The autograd node of a Function in eager code: forward and backward as they were written, and the checks of both.

The hot path. It enters torch below the Python `apply` of `torch.autograd.Function`, and gives back what that costs
(and the 20 us of ``setup_context``) to pay for the checks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._errors import RuleError
from .call import Call
from .context import node_context_class
from .dialect import Dialect
from .gradients import settle
from .guard import guarded, node_inputs


class Extras(threading.local):
    """What the next call on this thread gets besides its operands: state of an instance, arguments by keyword.

    Operands of a node are its arguments one by one, as `ctx.needs_input_grad` numbers them.
    """

    state: Mapping[str, Any] = {}
    keywords: Mapping[str, Any] = {}
    positional: int | None = None

    def take(self) -> tuple[Mapping[str, Any], Mapping[str, Any], int | None]:
        """Hand them out, once: a call inside of forward has its own."""
        taken = self.state, self.keywords, self.positional
        vars(self).clear()
        return taken


def make_node(dialect: Dialect, extras: Extras | None = None) -> Callable[..., Any]:
    """`apply` of a Function's node.

    Args:
        dialect: of the Function.
        extras: where its calls find what they get besides their operands.
    """
    run = dialect.run

    def forward(ctx: Any, *args: Any) -> Any:
        call = ctx._graft_call = Call(args, ctx.needs_input_grad)
        output = run(ctx, args, {})
        call.check_forward(dialect, ctx, args, output)
        return output

    def forward_with_extras(ctx: Any, *args: Any) -> Any:
        assert extras is not None
        state, keywords, positional = extras.take()
        vars(ctx).update(state)
        call = ctx._graft_call = Call(args, ctx.needs_input_grad)
        if positional is not None:
            call.positional = positional
        output = run(ctx, args, keywords)
        call.check_forward(dialect, ctx, args, output)
        return output

    def backward(ctx: Any, *grads: Any) -> Any:
        call: Call = ctx._graft_call
        return pull(dialect, ctx, call, grads, lambda: node_inputs(dialect, ctx, call))

    base = _torch.SingleLevelFunction
    body: dict[str, Any] = {
        "forward": staticmethod(_torch.no_dynamo(forward if extras is None else forward_with_extras)),
        "backward": staticmethod(_torch.no_dynamo(backward)),
        "__module__": dialect.function.__module__,
    }
    for name in ("clear_saved_tensors_on_access", "symbolic"):
        if hasattr(dialect.function, name):
            body[name] = getattr(dialect.function, name)
    node = type(dialect.name, (base,), body)
    node._backward_cls = node_context_class(dialect, node._backward_cls)  # type: ignore[attr-defined]
    apply: Callable[..., Any] = node.apply  # type: ignore[attr-defined]
    return apply


def pull(
    dialect: Dialect, ctx: Any, call: Call, grads: tuple[Any, ...], inputs: Callable[[], Sequence[Tensor]]
) -> tuple[Any, ...]:
    """The gradients, checked; while a graph is recorded, connected to what they depend on, or to a refusal."""

    def run() -> tuple[Any, ...]:
        before = [None if grad is None else _torch.version(grad) for grad in grads]
        if call.attributes:
            call.check_attributes(dialect)
        result = settle(dialect, call, dialect.pull(ctx, grads))
        for grad, version in zip(grads, before, strict=True):
            if grad is not None and _torch.version(grad) != version:
                raise _overwritten(dialect, "the gradient that it was given", "grad = grad.clone()")
        read = vars(ctx).pop("_graft_read", None)
        if read is not None:
            for tensor, version in zip(*read, strict=True):
                if tensor is not None and _torch.version(tensor) != version:
                    raise _overwritten(dialect, "a saved tensor", "x = x.clone()")
        return result

    if not torch.is_grad_enabled():
        return run()
    label = f"{dialect.name}.{dialect.reverse}"
    return guarded(label, call, ctx, run, grads, inputs)


def _overwritten(dialect: Dialect, what: str, remedy: str) -> RuleError:
    return RuleError(
        f"backward changed {what} in place, which others read too",
        operator=f"{dialect.name}.{dialect.reverse}",
        expected="new tensors",
        got="an operation in place",
        hint=f"change a copy: {remedy}",
    )
