"""Compilers and tracers: who traces, and what they may look into."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

import torch
from torch import _C, Tensor
from torch.utils import _pytree

F = TypeVar("F", bound=Callable[..., Any])

DYNAMO = "torch._dynamo"
"""The module whose import takes a second."""

DYNAMO_KNOWS_FUNCTIONS = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) >= (2, 13)
"""Before, Dynamo lost the gradient of a Function that changes its inputs in place."""

is_tracing: Callable[[], bool] = _C._is_tracing


def tracing_to_graph() -> bool:
    """Whether a tracer is at work that wants to see into an operator, and not only fake tensors that find out shapes.

    The functional mode counts too: AOTAutograd traces twice, first without a graph, and must see the same both times.
    """
    from torch.fx.experimental.proxy_tensor import get_proxy_mode  # not imported by `import torch`

    functional = _C._get_dispatch_mode(_C._TorchDispatchModeKey.FUNCTIONAL)
    return functional is not None or get_proxy_mode() is not None


_frames = _C._dynamo.eval_frame
_set_strategy: Callable[[CodeType, Any], None] = _frames.set_code_exec_strategy
_SKIP = _frames._FrameExecStrategy(_frames._FrameAction.SKIP, _frames._FrameAction.SKIP)


def no_dynamo(function: F) -> F:
    """`function`, marked so that Dynamo looks neither into it nor into what it calls.

    A compiled function that is called inside a transform runs eagerly with Dynamo's hook still set, which would then
    compile the insides of kernels and rules one by one. The mark costs nothing at a call, unlike
    ``torch.compiler.disable``, which costs 1 us, and the import of Dynamo to those who never compile.
    """
    code = inspect.unwrap(getattr(function, "__func__", function)).__code__
    _set_strategy(code, _SKIP)
    return function


def graph_break() -> None:
    """Make Dynamo, which traces this, go on in eager code."""
    torch._dynamo.graph_break()


def fake_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `function` returns for fake tensors in the place of its tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # costs an import

    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        args, kwargs = _pytree.tree_map_only(Tensor, mode.from_tensor, (args, kwargs))
        return function(*args, **kwargs)
