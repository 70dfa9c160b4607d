"""A watch for lost derivatives: torch functions that take something to be differentiated and return it detached.

What they return is tainted, and so is every floating result that is computed from it: a comparison with a detached
tensor harms nothing, a product with it does.
"""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._frames import is_of_torch, is_own
from .._spec.dtypes import is_inexact

_LIKE = frozenset({
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like",
    "new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided", "new", "resize_",
})  # fmt: skip
"""They look at the shape and dtype of a tensor alone."""

_AS = frozenset({"expand_as", "view_as", "reshape_as", "type_as", "to"})
"""They look at the shape or dtype alone of what they take besides the first."""

_DROP = frozenset({
    "detach", "detach_", "data", "item", "tolist", "numpy", "tensor", "new_tensor", "__float__", "__complex__",
    "__array__", "__deepcopy__", "__reduce_ex__",
})  # fmt: skip
"""They drop tangents, which are not seen from every level."""

_LEAVE = frozenset({"data_ptr", "untyped_storage", "storage", "__dlpack__", "share_memory_"})
"""They hand the memory to somebody whom autograd does not see; so does `view`, where its bits become integers."""

_ALIAS = "another tensor on the same memory, as Variable(x) and Parameter(x) are"


class _Taint(NamedTuple):
    """Why a tensor is tainted.

    Attributes:
        tensor: the tensor, kept so that no other one takes over its id.
        name: of the function that lost a derivative.
        inside: it ran in the forward of a Function or an operator, which has a derivative of its own.
        linear: what was lost hangs on a cotangent.
    """

    tensor: Tensor
    name: str
    inside: bool
    linear: bool = False


class Watch(torch.overrides.TorchFunctionMode):
    """Within, follows what is detached.

    Args:
        given: what the code within is given; what shares memory with it and was made by no function is an alias.
        forgiven: tells the tensors that are constant on purpose.
        linear: the cotangents among what is given, where it matters whether they are lost.

    Attributes:
        left: the name of a function by which numbers left torch, where nobody can follow them; None while none did.
    """

    def __init__(
        self,
        given: Iterable[Any] = (),
        forgiven: Callable[[], Iterable[Tensor]] = tuple,
        linear: Iterable[Tensor] = (),
    ) -> None:
        super().__init__()
        self.left: str | None = None
        self._left_linear = False  # They hang on a cotangent.
        self._forgiven = forgiven
        self._entered: types.FrameType | None = None
        self._recording = torch.is_grad_enabled()  # Without grad mode only tangents can be lost.
        self._turned_off = not self._recording  # By `no_grad`, where a Function's `apply` tells nobody.
        self._tangents = _torch.tangents_possible()
        self._tainted: dict[int, _Taint] = {}
        self._aliases: dict[int, Tensor] = {}  # Tensors by `.data` and `.detach()`: what is written there, others see.
        self._memory: dict[int, _Taint] = {}  # Memory that was written to, and that views share.
        # Given, read or made, with their memory; kept, so that no other one takes over an id.
        self._known: dict[int, tuple[Tensor, int]] = {}
        self._levels: dict[int, set[int]] = {}
        # By `_keys`: those to which a tangent may have been handed down, and those that hang on a cotangent.
        self._moving: set[int] = set()
        self._linear: set[int] = set().union(*map(_keys, linear))
        self._differentiated: dict[int, Tensor] = {}  # Known ones, one for each memory.
        self.know(given)

    def __enter__(self) -> Watch:
        self._entered = sys._getframe(1)
        WATCHES.add(id(self))
        return super().__enter__()  # type: ignore[no-any-return, no-untyped-call]

    def __exit__(self, *raised: Any) -> None:
        self._entered = None
        WATCHES.discard(id(self))
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    def know(self, values: Iterable[Any]) -> None:
        """Take tensors for what they say that they are."""
        for tensor in _tensors(values):
            if is_inexact(tensor.dtype) and id(tensor) not in self._known:
                self._look_at(tensor, self._has_tangent(tensor))

    def _know_results(self, values: Iterable[Any], read: Sequence[Tensor]) -> None:
        moving, linear = (_any_in(keys, read) for keys in (self._moving, self._linear))
        for value in values:
            if isinstance(value, Tensor):
                self._levels.pop(id(value), None)
                self._look_at(value, moving)
                if linear:
                    self._linear |= _keys(value)

    def _look_at(self, tensor: Tensor, moving: bool) -> None:
        memory = _torch.memory(tensor)
        for layer in (tensor, *_torch.wrapped_in(tensor)):
            self._known[id(layer)] = layer, memory
        if moving:
            self._moving |= _keys(tensor)
        if moving or self._levels_of(tensor):
            self._differentiated.setdefault(memory, tensor)

    def has_seen(self, value: Any) -> bool:
        """Return True if a value was given, read, or made by a function that was seen."""
        return id(value) in self._known

    def lost(self, value: Any) -> str | None:
        """The name of the function that lost a derivative which `value` should have; None if there is none."""
        if isinstance(value, Tensor):
            self._meet(value)
        taint = self._taint(value)
        return taint.name if taint is not None else self.left

    def lost_linear(self, value: Any) -> bool:
        """Return True if something that depends on a cotangent was lost."""
        taint = self._taint(value)
        return self._left_linear or (taint is not None and taint.linear)

    def _taint(self, value: Any) -> _Taint | None:
        if not self._tainted and not self._memory:
            return None
        layers = (value, *_torch.wrapped_in(value)) if isinstance(value, Tensor) else (value,)
        found = [(layer, self._tainted[id(layer)]) for layer in layers if id(layer) in self._tainted]
        if (shared := self._memory.get(_torch.memory(value))) is not None:
            found.append((value, shared))
        for layer, taint in found:
            # A Function runs without grad mode, and gives its output a derivative of its own.
            forgiven = taint.inside and _torch.is_function_output(layer)
            if not forgiven and not any(value is other for other in self._forgiven()):
                return taint
        return None

    def _mark(self, value: Tensor, taint: _Taint, read: Sequence[Tensor]) -> None:
        """Taint a tensor, and what transforms make of it: they wrap it, unwrap it and view it unseen."""
        self._tainted[id(value)] = taint._replace(tensor=value)
        if taint.inside:
            return
        kept = set[int]().union(*map(_keys, read))
        for layer in _torch.wrapped_in(value):
            if id(layer) not in kept:
                self._tainted[id(layer)] = taint._replace(tensor=layer)
        memory = _torch.memory(value)
        if memory not in kept:
            self._memory[memory] = taint._replace(tensor=value)

    def _meet(self, tensor: Tensor) -> None:
        """Taint a tensor that came into known memory unseen: `Variable`, `Parameter` and `set_` tell nobody."""
        if self._is_known(tensor) or not is_inexact(tensor.dtype):
            return
        if self._is_alias(tensor):
            # The memory may be a cotangent's: nobody remembers.
            self._mark(tensor, _Taint(tensor, _ALIAS, inside=False, linear=bool(self._linear)), [tensor])
        self._look_at(tensor, moving=False)

    def _is_alias(self, tensor: Tensor) -> bool:
        if tensor.grad_fn is not None or (not _torch.functorch_active() and self._has_tangent(tensor)):
            return False  # A Function returned one of its inputs.
        if any(map(self._is_known, _torch.wrapped_in(tensor))):
            return False  # A transform within has wrapped a known one.
        other = self._differentiated.get(_torch.memory(tensor))
        if other is None and _torch.borrows_plainly(tensor):
            other = next((t for t in self._differentiated.values() if _torch.shares_memory(tensor, t)), None)
        return other is not None and not _torch.is_same_leaf(tensor, other)

    def _is_known(self, tensor: Tensor) -> bool:
        known = self._known.get(id(tensor))
        return known is not None and known[1] == _torch.memory(tensor)

    def _has_tangent(self, tensor: Tensor) -> bool:
        return self._tangents and _torch.may_carry_tangent(tensor)

    def hand_on(self, read: Sequence[Tensor], made: Sequence[Any]) -> None:
        """Taint what was made of tainted tensors by something that has a derivative of its own."""
        found = self._inherited(read)
        if found is None:
            return
        for value in _values(made):
            if isinstance(value, Tensor):
                self._mark(value, found, read)
            else:
                self._leave(found, linear=False)

    def follow(self, name: str, read: Sequence[Tensor], made: Sequence[Any]) -> None:
        """Taint what an operator of that name made of tainted tensors, or without grad mode."""
        if self._inherited(read) is not None:
            self.hand_on(read, made)
        elif not torch.is_grad_enabled() and any(map(self._levels_of, read)):
            frame = next((frame for frame in _frames(sys._getframe(1)) if not is_between(frame)), None)
            taint = _Taint(read[0], name + _surroundings(), self._is_inside(frame), _any_in(self._linear, read))
            for value in _tensors(made):
                self._levels.pop(id(value), None)
                self._mark(value, taint, read)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        classes: Sequence[type[Any]],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func`, and look at what goes in and what comes out."""
        caller = sys._getframe(1)
        if func is _torch.set_grad_enabled:
            self._turn(caller, args[0])
            return func(*args)
        name = _name_of(func)
        if is_ours(caller):
            result = func(*args, **(kwargs or {}))
            read = _read(name, args, kwargs or {})
            self._know_results(_values(result), read)
            if name in _DROP and isinstance(result, Tensor):
                self._aliases[id(result)] = result
            if self._tainted:
                self.hand_on(read, [result])
            return result
        read = _read(name, args, kwargs or {})
        for tensor in read:
            self._meet(tensor)
        levels = set[int]().union(*map(self._levels_of, read))
        recorded = _is_recorded(func, args, kwargs or {})
        inherited = self._inherited(read)
        linear = _any_in(self._linear, read)
        result = func(*args, **(kwargs or {}))
        written = _written(func, name, args, kwargs or {})
        changed = [*written, *_values(result)]
        self._know_results(changed, read)
        if name in _DROP:
            self._aliases.update((id(value), value) for value in changed if isinstance(value, Tensor))
        drops = name in _DROP or torch.is_inference_mode_enabled() or _is_foreign(func, caller)
        leaves = name in _LEAVE or (name == "view" and not any(True for _ in _values(result)))
        dropped = (drops or leaves) and any(map(_torch.may_carry_tangent, read))
        if not levels and inherited is None and not dropped:
            return result
        found = inherited or _Taint(args[0] if args else result, name + _surroundings(), self._is_inside(caller))
        for value in changed:
            if not isinstance(value, Tensor):
                self._leave(found, linear)
                continue
            is_lost = dropped or bool(levels - self._handed_down(value, read) and not recorded)
            in_place = any(value is tensor for tensor in written)
            if is_lost or inherited is not None:
                taint = found._replace(tensor=value, linear=found.linear or (linear and is_lost))
                self._mark(value, taint, read)
                if in_place:
                    self._memory[_torch.memory(value)] = taint
            elif in_place and id(value) in self._aliases:
                self._memory[_torch.memory(value)] = _Taint(value, name, False)
        if leaves:
            self._leave(found, linear)
        return result

    def _turn(self, caller: types.FrameType, on: bool) -> None:
        """Note that grad mode is set, but for a forward, which has its own and gives it back."""
        if not self._runs_inside(caller):
            self._turned_off = not on and (self._turned_off or torch.is_grad_enabled())

    def _is_inside(self, frame: types.FrameType | None) -> bool:
        """Return True without grad mode in the forward of a Function or of an operator, which has turned it off."""
        return not (self._turned_off or torch.is_grad_enabled()) and self._runs_inside(frame)

    def _runs_inside(self, frame: types.FrameType | None) -> bool:
        frames = list(_frames(frame, self._entered))
        outside_ours = itertools.dropwhile(lambda each: not is_ours(each), frames)
        return not all(map(is_between, outside_ours)) or _torch.is_within_apply(each.f_code for each in frames)

    def _inherited(self, read: Iterable[Tensor]) -> _Taint | None:
        taints = [taint for taint in map(self._taint, read) if taint is not None]
        return taints[0]._replace(linear=any(taint.linear for taint in taints)) if taints else None

    def _leave(self, taint: _Taint, linear: bool) -> None:
        self.left = self.left or taint.name
        self._left_linear |= linear or taint.linear

    def _handed_down(self, value: Tensor, read: Sequence[Tensor]) -> set[int]:
        """The levels at which a result has a derivative, and hangs on what was read: a new leaf begins anew."""
        levels = self._levels_of(value)
        if value.requires_grad and value.grad_fn is None and not any(value is tensor for tensor in read):
            return levels - {max(levels, default=0)}
        return levels

    def _levels_of(self, tensor: Tensor) -> set[int]:
        found = self._levels.get(id(tensor))
        if found is None:
            found = self._levels[id(tensor)] = _torch.recording_levels(tensor) if self._recording else set()
        return found


WATCHES = set[int]()
"""Ids of those that watch: while there are some, operators tell them what they make."""


def hand_on(read: Sequence[Any], made: Sequence[Any]) -> None:
    """Tell whoever watches that something was made in a way that cannot be followed: at other transform levels."""
    for mode in _torch.function_modes():
        if isinstance(mode, Watch):
            mode.hand_on(list(_tensors(read)), made)


def tell(name: str, read: Sequence[Any], made: Sequence[Any]) -> None:
    """Tell whoever watches what a call of an operator of that name made."""
    for mode in _torch.function_modes():
        if isinstance(mode, Watch):
            mode.follow(name, [t for t in _tensors(read) if is_inexact(t.dtype)], made)


def is_ours(frame: types.FrameType) -> bool:
    """Return True if an operator or a Function is running, which has its own derivative."""
    return is_own(frame.f_code.co_filename)


def is_between(frame: types.FrameType) -> bool:
    """Return True for code of torch or of torchgraft, which stands between what users write."""
    return is_ours(frame) or is_of_torch(frame.f_code.co_filename)


def _frames(frame: types.FrameType | None, last: types.FrameType | None = None) -> Iterator[types.FrameType]:
    """Yield frames from the inside out, up to the last one, which is left out."""
    while frame is not None and frame is not last:
        yield frame
        frame = frame.f_back


def _is_recorded(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return True in a backward pass that autograd records: what it leaves without a derivative is constant."""
    return func is torch.autograd.grad and bool(kwargs.get("create_graph", args[4] if len(args) > 4 else False))


def _is_foreign(func: Any, caller: types.FrameType) -> bool:
    """Return True for an operator that drops tangents without a word: somebody's kernel, and not one of ours."""
    return _torch.is_custom(func) and not (caller.f_back is not None and is_ours(caller.f_back))


def _written(func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The tensors that a function writes into."""
    in_place = name == "__setitem__" or getattr(func, "__name__", "") == "__set__" or name.endswith("_")
    found = [*args[:1]] if (in_place and not name.endswith("__")) or name == "__setitem__" else []
    return [t for t in (*found, kwargs.get("out")) if isinstance(t, Tensor)]


def _surroundings() -> str:
    """Name what keeps torch from recording, for the error: `once_differentiable` runs backward under `no_grad`."""
    if torch.is_inference_mode_enabled():
        return " under inference_mode"
    return "" if torch.is_grad_enabled() else " under no_grad"


def _read(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors whose values a function reads, as far as they can have a derivative."""
    if name in _LIKE:
        return []
    if name in _AS:
        args, kwargs = args[:1], {}
    elif name == "new_tensor":
        args = args[1:]
    return [t for t in _tensors((*args, *kwargs.values())) if is_inexact(t.dtype)]


def _keys(tensor: Tensor) -> set[int]:
    """Ids by which a tensor is found again after a transform has wrapped it, unwrapped it or made a view of it."""
    return {_torch.memory(tensor), id(tensor), *map(id, _torch.wrapped_in(tensor))}


def _any_in(keys: set[int], tensors: Iterable[Tensor]) -> bool:
    return bool(keys) and any(keys.intersection(_keys(tensor)) for tensor in tensors)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _values(result: Any) -> Iterator[Any]:
    """Each value among the results that can have a derivative."""
    if isinstance(result, Tensor):
        if is_inexact(result.dtype):
            yield result
    elif isinstance(result, (list, tuple)) and not isinstance(result, torch.Size):
        for item in result:
            yield from _values(item)
    elif isinstance(result, (float, complex)) or (
        isinstance(result, (np.ndarray, np.generic)) and result.dtype.kind in "fc"
    ):
        yield result


def _name_of(func: Any) -> str:
    """The name of a function; ``data`` for the getter of ``Tensor.data``."""
    name = getattr(func, "__name__", str(func))
    return getattr(getattr(func, "__self__", None), "__name__", name) if name in ("__get__", "__set__") else name
