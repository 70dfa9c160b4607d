"""Every private torch name in use, each with what it is for and a fallback where one is possible.

Nothing else in the package touches a name of torch that starts with an underscore.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, TypeVar

import torch
from torch import _C, Tensor
from torch._functorch import autograd_function as _functorch_function
from torch._functorch import pyfunctorch as _pyfunctorch
from torch.autograd import forward_ad as forward_ad
from torch.autograd import profiler as profiler
from torch.autograd.function import _SingleLevelFunction
from torch.library import fallthrough_kernel as fallthrough_kernel
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

F = TypeVar("F", bound=Callable[..., Any])


class _NodeFunction(_SingleLevelFunction):
    if hasattr(torch.autograd.Function, "_compiled_autograd_key"):  # which compiled autograd asks for
        _compiled_autograd_key = staticmethod(torch.autograd.Function._compiled_autograd_key)


SingleLevelFunction: type[Any] = _NodeFunction
"""`autograd.Function` without its Python `apply`, which costs 1 us and refuses the ctx style under transforms."""


pytree = _pytree
"""Nested arguments as a flat list; the public functions do not tell the paths."""

PLAIN_TYPES = frozenset({Tensor, torch.nn.Parameter})

functorch_active: Callable[[], bool] = _C._are_functorch_transforms_active
storage_address: Callable[[Tensor], int] = _C._storage_address  # type: ignore[attr-defined]
storage_holders: Callable[[int], int] = _C._storage_Use_Count
set_grad_enabled: Callable[[bool], None] = _C._set_grad_enabled
forward_mode_enabled: Callable[[], bool] = _C._is_fwd_grad_enabled
dispatch_modes: Callable[[], int] = _C._len_torch_dispatch_stack
is_tracing: Callable[[], bool] = _C._is_tracing
below_autograd: Callable[[], contextlib.AbstractContextManager[None]] = _C._AutoDispatchBelowAutograd


def _any_autocast() -> bool:
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


any_autocast: Callable[[], bool] = getattr(_C, "_is_any_autocast_enabled", _any_autocast)

AUTOCAST_KEYS = tuple(
    key
    for key in ("AutocastCPU", "AutocastCUDA", "AutocastXPU", "AutocastMPS", "AutocastPrivateUse1")
    if hasattr(_C.DispatchKey, key)
)
"""The dispatch keys under which autocast reaches an operator, one for each device type."""


def _key_set(names: tuple[str, ...]) -> Any:
    keys = _C.DispatchKeySet(getattr(_C.DispatchKey, names[0]))
    for name in names[1:]:
        keys = keys | _C.DispatchKeySet(getattr(_C.DispatchKey, name))
    return keys


_AUTOCAST_SET = _key_set(AUTOCAST_KEYS)


def below_autocast() -> contextlib.AbstractContextManager[None]:
    """Within, the dispatcher passes every autocast key by."""
    guard: contextlib.AbstractContextManager[None] = _C._ExcludeDispatchKeyGuard(_AUTOCAST_SET)
    return guard


@contextlib.contextmanager
def autocast_off() -> Iterator[None]:
    """Within, autocast is off for every device type where it is on."""
    with contextlib.ExitStack() as stack:
        for device in ("cpu", "cuda", "xpu", "mps"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


@contextlib.contextmanager
def modes(grad: bool, forward: bool) -> Iterator[None]:
    """Within, grad mode and forward mode are as given."""
    with torch.set_grad_enabled(grad), forward_ad._set_fwd_grad_enabled(forward):
        yield


def redispatch_below_autograd(overload: Any, keyset: Any) -> Callable[..., Any]:
    """A call of `overload` that goes on below the autograd keys of `keyset`.

    ``Function.apply`` switches grad mode and forward mode off around `forward`. The transform levels further down must
    record all the same: with the modes off they would lose their derivatives without a word.
    """
    below = keyset & _C._after_autograd_keyset
    grad, forward = torch.is_grad_enabled(), forward_mode_enabled()

    def call(*args: Any) -> Any:
        with below_autograd():
            if not functorch_active():
                return overload.redispatch(below, *args)
            with modes(grad, forward):
                return overload.redispatch(below, *args)

    return call


@contextlib.contextmanager
def single_level() -> Iterator[None]:
    """Within, `SingleLevelFunction.apply` makes a node of the transform level at hand.

    An Autograd kernel runs inside one level, where this is what C++ operators do too; functorch itself does it
    for `autograd.Function` (torch/_functorch/autograd_function.py).
    """
    before = _C._functorch.get_single_level_autograd_function_allowed()
    _C._functorch.set_single_level_autograd_function_allowed(True)
    try:
        yield
    finally:
        _C._functorch.set_single_level_autograd_function_allowed(before)


def requires_grad_inside(tensor: Tensor) -> Tensor:
    """`tensor.requires_grad_()`, also inside a transform, which forbids it to user code."""
    before = _C._functorch.get_inplace_requires_grad_allowed()
    _C._functorch.set_inplace_requires_grad_allowed(True)
    try:
        return tensor.requires_grad_()
    finally:
        _C._functorch.set_inplace_requires_grad_allowed(before)


def unpack_dual(tensor: Tensor) -> tuple[Tensor, Tensor | None]:
    """Primal and tangent at the level at hand.

    `forward_ad.unpack_dual` refuses where no Python-level dual level is open, although inside a transform the
    level is the wrapper's own; level 0 is the only one that C++ knows.
    """
    primal, tangent = torch._VF._unpack_dual(tensor, level=0)
    return primal, tangent


def memory(tensor: Any) -> int:
    """What tensors that share memory have in common."""
    if not isinstance(tensor, Tensor):
        return id(tensor)
    while _C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _C._functorch.get_unwrapped(tensor)
    try:
        return storage_address(tensor)
    except NotImplementedError:  # batched by gradcheck's own vmap: there is no memory to ask for
        return id(tensor)


def shares_memory(value: Any, tensor: Tensor) -> bool:
    """Whether a tensor or an array lies in the memory of a tensor; False where there is none."""
    try:
        storage = tensor.untyped_storage()
        start = value.data_ptr() if isinstance(value, Tensor) else value.__array_interface__["data"][0]
        return 0 <= start - storage.data_ptr() < storage.nbytes()
    except (RuntimeError, NotImplementedError):
        return False


def borrows_storage(tensor: Any) -> bool:
    """Whether another tensor, or something outside of torch, has a hold on the memory of a plain tensor."""
    if type(tensor) not in PLAIN_TYPES:
        return False
    # In this order: asking for the storage makes it a Python object, which is one more holder from then on.
    return storage_holders(storage_address(tensor)) > 1 or borrows_memory(tensor)


def borrows_memory(tensor: Tensor) -> bool:
    """Whether the memory is not torch's own: an array's, or what another library lent."""
    return not tensor.untyped_storage().resizable()


def tracing_to_graph() -> bool:
    """Whether a tracer is at work that wants to see into an operator, and not only fake tensors that find out shapes.

    The functional mode counts too: AOTAutograd traces twice, first without a graph, and must see the same both times.
    """
    from torch.fx.experimental.proxy_tensor import get_proxy_mode  # not imported by `import torch`

    functional = _C._get_dispatch_mode(_C._TorchDispatchModeKey.FUNCTIONAL)
    return functional is not None or get_proxy_mode() is not None


def version(tensor: Tensor) -> int:
    """How often the tensor has been written to; 0 for an inference tensor, which does not count."""
    try:
        return tensor._version
    except RuntimeError:
        return 0


def is_view(tensor: Tensor) -> bool:
    """Whether the tensor is a view of another one."""
    return tensor._is_view()


COMPOSITE_IMPLICIT = _C.DispatchKey.CompositeImplicitAutograd


def make_dual(primal: Tensor, tangent: Tensor) -> Tensor:
    """The inverse of `unpack_dual`."""
    dual: Tensor = torch._VF._make_dual(primal, tangent, level=0)
    return dual


def engine_wants(node: Any, index: int) -> bool:
    """Whether the backward pass that is running will use the gradient of `node`'s input number `index`."""
    successor = node.next_functions[index][0]
    if successor is None:
        return False
    try:
        return bool(_C._will_engine_execute_node(successor))
    except (RuntimeError, AttributeError):  # outside a backward pass, or a leaf captured by `autograd.grad`
        return True


class _PlainGuards:
    """What Dynamo's `TensorGuards` checks, in Python: for a torch that does not have it."""

    def __init__(self, *tensors: Tensor, **_: Any) -> None:
        self.expected = [self._describe(tensor) for tensor in tensors]

    @staticmethod
    def _describe(tensor: Tensor) -> tuple[Any, ...]:
        return (
            type(tensor),
            tensor.shape,
            tensor.stride(),
            tensor.dtype,
            tensor.device,
            tensor.requires_grad and torch.is_grad_enabled(),
            tensor.is_conj(),
            tensor.is_neg(),
            tensor.is_inference(),
            torch.is_inference_mode_enabled(),
        )

    def check(self, *tensors: Any) -> bool:
        if any_autocast() or is_tracing() or functorch_active() or len(tensors) != len(self.expected):
            return False
        return all(
            isinstance(tensor, Tensor) and self._describe(tensor) == expected
            for tensor, expected in zip(tensors, self.expected, strict=True)
        )


def _tensor_guards() -> type[Any]:
    try:
        from torch._C._dynamo.guards import TensorGuards
    except ImportError:  # pragma: no cover
        return _PlainGuards
    return TensorGuards


_TensorGuards = _tensor_guards()


DYNAMO = "torch._dynamo"
"""The module whose import takes a second."""


def bare_operator(operator: Any) -> Callable[..., Any]:
    """An `OpOverload` as what its ``__call__`` calls, 0.3 us faster."""
    function: Callable[..., Any] = getattr(operator, "_op", operator)
    return function


class _Absent(Tensor):
    """The type of `ABSENT`; no user's tensor has it."""


ABSENT: Tensor = torch.empty(0).as_subclass(_Absent)
"""Stands for an optional tensor that was not passed, so that `plain_tensors` can compare all."""


def plain_tensors(*tensors: Tensor) -> Callable[..., bool]:
    """A function that tells whether tensors look exactly like these, in the global state at hand.

    One C call compares Python type, shape, strides, dtype, device, `requires_grad` and the dispatch keys, the
    thread's own included: a transform, a user's dispatch mode, autocast, `jit.trace`, inference mode, a conjugate
    view or a subclass all make it false; torch's own modes, of fake tensors above all, do not. It costs 0.13 us
    for one tensor and 0.07 us for each further one.
    """
    check: Callable[..., bool] = _TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    return check


class _Level(threading.local):
    depth = 0


_level = _Level()


def inside_level() -> bool:
    """Whether this thread is inside the processing of one transform level, where no further one can be pushed."""
    return _level.depth > 0


@contextlib.contextmanager
def level() -> Iterator[None]:
    """Marks the processing of one transform level."""
    _level.depth += 1
    try:
        yield
    finally:
        _level.depth -= 1


def tangents_possible() -> bool:
    """Whether a tensor can carry a tangent at all: some forward level is open, and not disabled."""
    return forward_mode_enabled() and (forward_ad._current_level >= 0 or functorch_active())


def in_dual_level() -> bool:
    """Whether a forward level of plain autograd is open."""
    return forward_ad._current_level >= 0


def any_tangent(values: Iterable[Any]) -> bool:
    """Whether a tensor among these has a tangent at the forward level of plain autograd."""
    return tangents_possible() and any(
        unpack_dual(value)[1] is not None for value in values if isinstance(value, Tensor)
    )


@contextlib.contextmanager
def outside_level() -> Iterator[None]:
    """Marks a kernel at the bottom, where all transform levels have been left."""
    before, _level.depth = _level.depth, 0
    try:
        yield
    finally:
        _level.depth = before


def is_direct(tensors: Iterable[Tensor]) -> bool:
    """Whether a call on these tensors may bypass the dispatcher: no transform, mode, subclass or lazy view is about."""
    return (
        not functorch_active()
        and dispatch_modes() == 0
        and not any_autocast()
        and forward_ad._current_level < 0
        and not profiler._is_profiler_enabled
        and not is_tracing()
        and all(
            type(tensor) in PLAIN_TYPES
            and not tensor.is_conj()
            and not tensor.is_neg()
            and not torch._is_zerotensor(tensor)
            and not tensor.is_meta
            and not is_legacy_batched(tensor)
            for tensor in tensors
        )
    )


def recording_levels(tensor: Tensor) -> set[int]:
    """The transform levels at which the tensor requires grad; 0 stands for plain autograd.

    ``requires_grad`` tells about the outermost wrapper alone.
    """
    functorch = _C._functorch
    levels: set[int] = set()
    while functorch.is_functorch_wrapped_tensor(tensor):
        level = functorch.maybe_get_level(tensor)
        if level > 0 and functorch.is_gradtrackingtensor(tensor) and tensor.requires_grad:  # below 0: it has ended
            levels.add(level)
        tensor = functorch.get_unwrapped(tensor)
    return levels | {0} if tensor.requires_grad else levels


def may_carry_tangent(tensor: Tensor) -> bool:
    """Whether the tensor belongs to a forward level; whether it has a tangent there is visible at that level alone."""
    functorch = _C._functorch
    if not functorch_active():
        with torch.inference_mode(False):  # where tangents are there, and cannot be seen
            return forward_ad._current_level >= 0 and unpack_dual(tensor)[1] is not None
    forward = {
        level.level() for level in functorch.get_interpreter_stack() if level.key() == functorch.TransformType.Jvp
    }
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.maybe_get_level(tensor) in forward:
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def is_custom(function: Any) -> bool:
    """Whether this is an operator that torch does not bring along, and cannot look into."""
    operator = getattr(function, "default", function) if isinstance(function, torch._ops.OpOverloadPacket) else function
    if not isinstance(operator, torch._ops.OpOverload) or operator.namespace in ("aten", "prim", "prims"):
        return False
    return not _C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd")


def plain_sample(tensor: Tensor) -> Tensor:
    """The data below all transform levels; of a mapped axis, the first sample."""
    functorch = _C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        mapped = functorch.is_batchedtensor(tensor)
        axis = functorch.maybe_get_bdim(tensor)
        tensor = functorch.get_unwrapped(tensor)
        if mapped:
            tensor = tensor.select(axis, 0)
    return tensor.detach()


is_legacy_batched: Callable[[Tensor], bool] = _C._functorch.is_legacy_batchedtensor
"""Whether ``autograd.grad(is_grads_batched=True)`` made the tensor: it maps by an older `vmap` than functorch's."""


def legacy_unwrap(tensors: Iterable[Tensor]) -> tuple[int, list[Tensor], list[int | None]]:
    """The level of the older `vmap` at hand, the tensors without it, and where their mapped axes are."""
    level = _C._vmapmode_increment_nesting() - 1
    _C._vmapmode_decrement_nesting()
    found = [(tensor, is_legacy_batched(tensor)) for tensor in tensors]
    plain = [torch._remove_batch_dim(tensor, level, 1, 0) if mapped else tensor for tensor, mapped in found]
    return level, plain, [0 if mapped else None for _, mapped in found]


def map_legacy(
    function: Callable[..., Sequence[Tensor | None]], tensors: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """`function` under `torch.vmap` in the place of the older `vmap` at hand, which has rules for few operators."""
    present = [tensor is not None for tensor in tensors]
    level, plain, dims = legacy_unwrap(tensor for tensor in tensors if tensor is not None)
    filled: list[bool] = []

    def compact(*given: Tensor) -> tuple[Tensor, ...]:
        rest = iter(given)
        results = function(*(next(rest) if there else None for there in present))
        filled[:] = [result is not None for result in results]
        return tuple(result for result in results if result is not None)

    mapped = iter(torch.vmap(compact, in_dims=tuple(dims))(*plain))
    return tuple(legacy_wrap(next(mapped), level) if there else None for there in filled)


def legacy_wrap(tensor: Tensor, level: int) -> Tensor:
    """The inverse of `legacy_unwrap` for a result whose mapped axis is the first.

    Contiguous, as the primal is: a tangent of another layout is copied by `as_strided`, which the older `vmap` lacks.
    """
    return torch._add_batch_dim(tensor.contiguous(), 0, level)


def no_dynamo(function: F) -> F:
    """`function`, marked so that Dynamo looks neither into it nor into what it calls.

    A compiled function that is called inside a transform runs eagerly with Dynamo's hook still set, which would then
    compile the insides of kernels and rules one by one. The mark costs nothing at a call, unlike
    ``torch.compiler.disable``, which costs 1 us, and the import of Dynamo to those who never compile.
    """
    code = inspect.unwrap(getattr(function, "__func__", function)).__code__
    _set_strategy(code, _SKIP)
    return function


_frames = _C._dynamo.eval_frame
_set_strategy: Callable[[CodeType, Any], None] = _frames.set_code_exec_strategy
_SKIP = _frames._FrameExecStrategy(_frames._FrameAction.SKIP, _frames._FrameAction.SKIP)


saved_tensors: Callable[[Any], tuple[Tensor | None, ...]] = _C._FunctionBase.saved_tensors.__get__  # type: ignore[attr-defined]
"""`ctx.saved_tensors` of an autograd node."""


def is_function_output(tensor: Tensor) -> bool:
    """Whether an autograd Function made the tensor, with a node of its own."""
    return isinstance(tensor.grad_fn, torch.autograd.function.BackwardCFunction)


_ONCE = torch.autograd.function.once_differentiable(lambda ctx: None).__code__


def is_once_differentiable(function: Any) -> bool:
    """Whether a backward is wrapped by ``once_differentiable``, which refuses a second derivative by itself."""
    return getattr(function, "__code__", None) is _ONCE


# -- the levels of torch.func, for what is no operator of the dispatcher -------------------------------------------


def current_level() -> Any:
    """The interpreter of the outermost transform level: its `key()` says of which kind, `lower()` goes below it."""
    return _pyfunctorch.retrieve_current_functorch_interpreter()


def unwrap_dead(value: Any) -> Any:
    """A tensor without the wrappers of transforms that have ended, which the dispatcher alone would see through."""
    return _C._functorch.unwrap_if_dead(value) if isinstance(value, Tensor) else value


def without_level(value: Any, level: int) -> Any:
    """A tensor as the levels below a differentiating one see it."""
    return _C._functorch._unwrap_for_grad(value, level) if isinstance(value, Tensor) else value


def with_level(value: Any, level: int) -> Any:
    """The inverse of `without_level`."""
    return _C._functorch._wrap_for_grad(value, level) if isinstance(value, Tensor) else value


def with_identity(outputs: Any, inner: Any, outer: Any, wrap: Callable[..., Any], *out_dims: Any) -> tuple[Any, ...]:
    """`outputs` wrapped for a level; one that is among the `inner` operands becomes the `outer` operand itself."""
    wrapped: tuple[Any, ...] = _functorch_function.wrap_outputs_maintaining_identity(
        outputs, inner, outer, wrap, *out_dims
    )
    return wrapped


def unwrap_batched(operands: tuple[Any, ...], level: int) -> tuple[tuple[Any, ...], tuple[int | None, ...]]:
    """The operands without a level's mapped axes, and where these are; what is no tensor has none."""
    pairs = [_C._functorch._unwrap_batched(o, level) if isinstance(o, Tensor) else (o, None) for o in operands]
    return tuple(inner for inner, _ in pairs), tuple(dim for _, dim in pairs)


def add_batch(tensor: Tensor, dim: int | None, level: int) -> Tensor:
    """A tensor whose axis `dim` a level maps over."""
    return tensor if dim is None else _C._functorch._add_batch_dim(tensor, dim, level)


VmapInfo = _functorch_function.VmapInfo
vmapify: Callable[..., Any] = _functorch_function.vmapify_autograd_function
"""A class with `forward`, `setup_context`, `backward`, `jvp`, each under `vmap`; its last output are the axes."""


def graph_break() -> None:
    """Make Dynamo, which traces this, go on in eager code."""
    torch._dynamo.graph_break()


DYNAMO_KNOWS_FUNCTIONS = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) >= (2, 13)
"""Before, Dynamo lost the gradient of a Function that changes its inputs in place."""


hooks_on_saved: Callable[[bool], Any] = _C._autograd._top_saved_tensors_default_hooks
"""Who packs and unpacks saved tensors (checkpointing, offloading), or None; its argument ignores disabled hooks."""


function_modes: Callable[[], list[Any]] = torch.overrides._get_current_function_mode_stack
"""The modes that see every call of a torch function, outermost first."""


class RandomWatch(TorchDispatchMode):
    """Within, notices operators that draw random numbers, also where a tracer only pretends to run them.

    Attributes:
        drawn: the name of the first one.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.drawn: str | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`."""
        if torch.Tag.nondeterministic_seeded in func.tags and self.drawn is None:
            self.drawn = func.__name__
        return func(*args, **(kwargs or {}))


def random_states() -> list[Tensor]:
    """The states of torch's generators."""
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]


def set_random_states(states: list[Tensor]) -> None:
    """Put the generators back."""
    cpu, *cuda = states
    torch.set_rng_state(cpu)
    if cuda:
        torch.cuda.set_rng_state_all(cuda)


def holds_numbers(tensor: Tensor) -> bool:
    """Whether there are numbers to look at, and not only a tracer's promise of some."""
    return type(tensor) in PLAIN_TYPES and not tensor.is_meta and dispatch_modes() == 0


def overload_of(function: Any) -> Any:
    """The `OpOverload` of what `torch.library` or `torch.ops` gave; None for anything else."""
    from torch._library.custom_ops import CustomOpDef

    if isinstance(function, CustomOpDef):
        return function._opoverload
    if isinstance(function, torch._ops.OpOverloadPacket):
        return getattr(function, function.overloads()[0])
    return function if isinstance(function, torch._ops.OpOverload) else None


def module_of(function: Any) -> str | None:
    """The module in which `torch.library.custom_op` was used; None where that is not known."""
    return getattr(getattr(function, "_init_fn", None), "__module__", None)


def register_fake(library: torch.library.Library, qualname: str, function: Callable[..., Any]) -> None:
    """`torch.library.register_fake`, without its search through all modules for the caller: 4 ms an operator."""
    try:
        holder = torch._library.simple_registry.singleton.find(qualname).fake_impl
        source = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
        library._registration_handles.append(holder.register(function, source, lib=library, allow_override=True))
    except (AttributeError, TypeError):
        torch.library.register_fake(qualname, function, lib=library)


# -- what is looked at when derivatives are checked -------------------------------------------------------------------


def nodes_in_graph(outputs: Iterable[Tensor]) -> list[Any]:
    """The autograd nodes that outputs depend on."""
    found: dict[Any, None] = {}
    waiting = [output.grad_fn for output in outputs]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found[node] = None
            waiting += [next_node for next_node, _ in node.next_functions]
    return list(found)


def refuses_backward(outputs: Iterable[Tensor]) -> bool:
    """Whether something that is marked with ``once_differentiable`` stands in the graph.

    Its node raises, and yet ``autograd.grad(..., allow_unused=True)`` goes around it and returns None.
    """
    return any(node.name().endswith(("::Error", "::DelayedError")) for node in nodes_in_graph(outputs))


def functions_in_graph(outputs: Iterable[Tensor]) -> list[Any]:
    """The classes of `autograd.Function` that took part in a forward pass."""
    classes = (getattr(type(node), "_forward_cls", None) for node in nodes_in_graph(outputs))
    return list(dict.fromkeys(cls for cls in classes if cls is not None))


def input_metadata(node: Any) -> list[tuple[tuple[int, ...], torch.dtype] | None]:
    """Shape and dtype of each tensor that a node of the graph took; None where it does not require grad."""
    edges = [(next_node, index) for next_node, index in node.next_functions]
    found = [None if next_node is None else next_node._input_metadata[index] for next_node, index in edges]
    return [None if data is None else (tuple(data.shape), data.dtype) for data in found]


def fake_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `function` returns for fake tensors in the place of its tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # costs an import

    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        args, kwargs = pytree.tree_map_only(Tensor, mode.from_tensor, (args, kwargs))
        return function(*args, **kwargs)


@contextlib.contextmanager
def quiet_vmap() -> Iterator[None]:
    """Within, `torch.vmap` does not print that it loops over an operator without a batching rule.

    Whether it did before cannot be asked: afterwards it does, which is the default.
    """
    warn: Callable[[bool], None] = _C._functorch._set_vmap_fallback_warning_enabled  # type: ignore[attr-defined]
    warn(False)
    try:
        yield
    finally:
        warn(True)


@contextlib.contextmanager
def quiet_compilers() -> Iterator[None]:
    """Within, compilers log nothing: what they cannot trace is said by what they raise."""
    names = ("_dynamo", "_inductor", "_functorch", "_subclasses", "export", "fx")
    loggers = [logging.getLogger(f"torch.{name}") for name in names]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
