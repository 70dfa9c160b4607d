"""Compilers and tracers: who traces, and what they may look into."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NoReturn, TypeVar

import torch
from torch import _C, Tensor
from torch.autograd import forward_ad
from torch.utils import _pytree

F = TypeVar("F", bound=Callable[..., Any])

DYNAMO = "torch._dynamo"
"""The module whose import takes a second."""

DYNAMO_KNOWS_FUNCTIONS = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) >= (2, 13)
"""Before, Dynamo lost the gradient of a Function that changes its inputs in place."""

is_tracing: Callable[[], bool] = _C._is_tracing


def tracing_to_graph() -> bool:
    """Tell whether a tracer is at work, and not only fake tensors that find out shapes."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode  # `import torch` does not import it.

    return tracing_final_graph() or get_proxy_mode() is not None


def fake_mode_of(values: Sequence[Any]) -> Any:
    """Return the mode that makes fake tensors, where one is active or has made one of the values; else None."""
    return torch._guards.detect_fake_mode(values)


def tracing_final_graph() -> bool:
    """Tell whether AOTAutograd traces, whose graph holds its derivatives and is never differentiated again.

    A graph of bare `make_fx` may be differentiated. AOTAutograd traces twice, first without a proxy mode, and must see
    the same both times; its functional mode is there both times.
    """
    return _C._get_dispatch_mode(_C._TorchDispatchModeKey.FUNCTIONAL) is not None


def without_derivative(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Make tensors of the same values, whose derivatives with respect to `inputs` torch refuses, by ATen alone.

    ``aten.copy(self, src)`` has the values of `src`, the shape and dtype of `self`, and no derivative. `self` is made
    of the inputs: in the eyes of autograd, the outputs may not hang on them.
    """
    inputs = [x for x in inputs if _is_floating(x)]
    return [torch.ops.aten.copy(_like(o, inputs), o) if inputs and _is_floating(o) else o for o in outputs]


def _is_floating(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _like(output: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """A tensor in the shape and dtype of an output that hangs on all inputs; its values are of no meaning."""
    if len(inputs) == 1 and (inputs[0].shape, inputs[0].dtype) == (output.shape, output.dtype):
        return inputs[0]
    real = (x if output.is_complex() or not x.is_complex() else torch.view_as_real(x.resolve_conj()) for x in inputs)
    return sum(x.sum().to(output.dtype) for x in real).expand(output.shape)  # type: ignore[union-attr]


def vmap_escapes_tracer() -> bool:
    """Tell whether a tracer takes what `torch.vmap` wraps for constants.

    The tracer of ``torch.export`` works above the dispatcher, and so above `vmap`. A torch function mode shows it what
    `vmap` does, but not in a backward pass, as ``torch.autograd.grad`` is called with the mode taken off.
    """
    if torch._ops._get_dispatch_mode_pre_dispatch(_C._TorchDispatchModeKey.PROXY) is None:
        return False
    from torch._export.utils import _maybe_find_pre_dispatch_tf_mode_for_export as mode_that_shows

    return mode_that_shows() is None


def tangents_from_outside() -> bool:
    """Tell whether the graph that is being traced may be run on tensors that carry tangents.

    The tensors that Dynamo traces with carry no tangents of a forward level around the compiled function. That the
    graph is not run within another level than this one is up to `guard_forward_level`.
    """
    if forward_ad._current_level < 0:
        return False
    try:
        from torch._dynamo.symbolic_convert import InstructionTranslator

        level: int = InstructionTranslator.current_tx().output.dual_level
    except (ImportError, AttributeError):  # Another tracer says nothing of it.
        return True
    return level >= 0


def guard_forward_level() -> None:
    """Have Dynamo, where it traces this, compile again as soon as another forward level is open around the function."""
    from torch._guards import TracingContext

    if TracingContext.try_get() is None:
        return
    from torch._dynamo.guards import install_guard
    from torch._dynamo.variables.ctx_manager import DualLevelContextManager

    install_guard(DualLevelContextManager._guards_singleton)


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


def trace_anew_after(action: Callable[[Any], None]) -> None:
    """Have Dynamo, which traces this, call a function, which ends in `trace_anew`."""
    from torch._dynamo.comptime import comptime

    comptime(action)


def trace_anew(why: str) -> NoReturn:
    """Have Dynamo, which calls this while it traces, forget its trace and begin again."""
    from torch._dynamo.exc import UnspecializeRestartAnalysis

    raise UnspecializeRestartAnalysis(restart_reason=why)


def graph_break() -> None:
    """Make Dynamo, which traces this, go on in eager code."""
    torch._dynamo.graph_break()


def disabled(function: F, why: str) -> F:
    """`function`, at which Dynamo breaks the graph, or says why it cannot: `torch.compiler.disable` without its import.

    Dynamo itself knows such functions by these attributes.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    function._torchdynamo_disable_msg = why  # type: ignore[attr-defined]
    return no_dynamo(function)


def fake_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, symbols: bool = False
) -> Any:
    """Call `function` with fake tensors in the place of its tensors; with symbols for sizes that hang on numbers."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # It costs the import of a compiler.

    shapes = None
    if symbols:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        shapes = ShapeEnv()
    with FakeTensorMode(allow_non_fake_inputs=True, shape_env=shapes, static_shapes=True) as mode, torch.no_grad():
        args, kwargs = _pytree.tree_map_only(Tensor, mode.from_tensor, (args, kwargs))
        return function(*args, **kwargs)


def checkpointed(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in torch's reentrant checkpoint, without the import of its compiler."""
    from torch.utils.checkpoint import checkpoint

    return getattr(checkpoint, "__wrapped__", checkpoint)(function, *args, use_reentrant=True)


def promise(condition: Any) -> None:
    """Tell tracers of a condition that every call will keep; their programs assert it."""
    torch._check(condition)


def new_size(mode: Any, operator: Any) -> torch.SymInt | None:
    """Make a symbol for a size that hangs on values, of at least 0; None where fake tensors know no symbols.

    Raises:
        DynamicOutputShapeException: the user has not switched them on, so that Dynamo breaks the graph here.
    """
    if mode is None or mode.shape_env is None:
        return None
    from torch._library.fake_impl import FakeImplCtx  # `torch.library.get_ctx` gives one in a fake kernel alone.

    size: torch.SymInt = FakeImplCtx(mode, operator).new_dynamic_size()
    return size
