"""Where a derivative gets lost: torch functions that take something to be differentiated and return it detached.

What they return is tainted, and so is every floating result that is computed from it: a comparison with a detached
tensor harms nothing, a product with it does.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._spec.dtypes import is_inexact
from .source import GENERATED

_PACKAGE = str(Path(__file__).parents[1])

_LIKE = frozenset({
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like",
    "new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided", "new", "resize_", "set_",
})  # fmt: skip
"""They look at the shape and dtype of a tensor alone."""

_AS = frozenset({"expand_as", "view_as", "reshape_as", "type_as", "to"})
"""They look at the shape or dtype alone of what they take besides the first."""

_DROP = frozenset({
    "detach", "detach_", "data", "item", "tolist", "numpy", "tensor", "__float__", "__complex__", "__array__",
})  # fmt: skip
"""They drop tangents, which are not seen from every level."""

_LEAVE = frozenset({"data_ptr", "untyped_storage", "storage", "__dlpack__", "share_memory_"})
"""They hand the memory to somebody whom autograd does not see."""


class _Taint(NamedTuple):
    """Why a tensor is tainted.

    Attributes:
        tensor: the tensor, kept so that no other one takes over its id.
        name: of the function that lost a derivative.
        quiet: grad mode was off there.
    """

    tensor: Tensor
    name: str
    quiet: bool


class Watch(torch.overrides.TorchFunctionMode):
    """Within, follows what is detached.

    Args:
        forgiven: tells the tensors that are constant on purpose.

    Attributes:
        left: the name of a function by which numbers left torch, where nobody can follow them; None while none did.
    """

    def __init__(self, forgiven: Callable[[], Iterable[Tensor]] = tuple) -> None:
        super().__init__()
        self.left: str | None = None
        self._forgiven = forgiven
        self._recording = torch.is_grad_enabled()  # else only tangents can be lost
        self._tainted: dict[int, _Taint] = {}
        self._aliases: dict[int, Tensor] = {}  # made by `.data` and `.detach()`: what is written there, others see
        self._memory: dict[int, _Taint] = {}  # what was written to, which views share
        self._levels: dict[int, tuple[Tensor, set[int]]] = {}  # with the tensor, so that no other one takes over its id
        self._bare: list[Tensor] = []  # what was read and has no derivative, wherever it comes from

    def lost(self, value: Any) -> str | None:
        """The name of the function that lost a derivative which `value` should have; None if there is none."""
        taint = self._taint(value)
        return taint.name if taint is not None else self.left

    def _taint(self, value: Any) -> _Taint | None:
        taint = self._tainted.get(id(value)) or (self._memory and self._memory.get(_torch.memory(value))) or None
        if taint is None or any(value is other for other in self._forgiven()):
            return None
        # A Function runs without grad mode, and gives its output a derivative of its own.
        return None if taint.quiet and _torch.is_function_output(value) else taint

    def look_for_aliases(self, sources: Callable[[], Iterable[Tensor]]) -> None:
        """Find what lies in the memory of a source and has no derivative: `Variable` and `Parameter` tell nobody.

        Args:
            sources: gives what is differentiated; asked only where there is something to find.
        """
        if not self._bare or self.left is not None:
            return
        differentiated = {_torch.memory(tensor) for tensor in sources() if self._levels_of(tensor)}
        if any(_torch.memory(tensor) in differentiated for tensor in self._bare):
            self.left = "another tensor on the same memory, as Variable(x) is"

    def hand_on(self, read: Iterable[Tensor], made: Sequence[Any]) -> None:
        """Taint what was made of tainted tensors by something that has a derivative of its own."""
        found = next((taint for taint in map(self._taint, read) if taint is not None), None)
        if found is None:
            return
        for value in _values(made):
            if isinstance(value, Tensor):
                self._tainted[id(value)] = found._replace(tensor=value)
            else:
                self.left = self.left or found.name

    def __torch_function__(
        self,
        func: Callable[..., Any],
        classes: Sequence[type[Any]],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func`, and look at what goes in and what comes out."""
        caller = sys._getframe(1)
        name = _name_of(func)
        if _is_ours(caller):
            result = func(*args, **(kwargs or {}))
            if name in _DROP and isinstance(result, Tensor):
                self._aliases[id(result)] = result
            if self._tainted:
                self.hand_on(_read(name, args, kwargs or {}), [result])
            return result
        read = _read(name, args, kwargs or {})
        levels = set[int]().union(*map(self._levels_of, read))
        recorded = _is_recorded(func, args, kwargs or {})
        inherited = next((taint for taint in map(self._taint, read) if taint is not None), None)
        result = func(*args, **(kwargs or {}))
        written = _written(func, name, args, kwargs or {})
        changed = [*written, *_values(result)]
        if changed and self._recording and torch.is_grad_enabled():
            known = self._tainted.keys() | self._aliases.keys()
            self._bare += (t for t in read if id(t) not in known and not self._levels_of(t))
        for value in changed:
            self._levels.pop(id(value), None)
        if name in _DROP:
            self._aliases.update((id(value), value) for value in changed if isinstance(value, Tensor))
        drops = name in _DROP or torch.is_inference_mode_enabled() or _is_foreign(func, caller)
        dropped = (drops or name in _LEAVE) and any(map(_torch.may_carry_tangent, read))
        if not levels and inherited is None and not dropped:
            return result
        if name in _LEAVE:
            self.left = self.left or (name if inherited is None else inherited.name)
        for value in changed:
            if not isinstance(value, Tensor):
                self.left = self.left or (name if inherited is None else inherited.name)
            elif inherited is not None or dropped or (levels - self._levels_of(value) and not recorded):
                found = inherited or _Taint(value, name, not torch.is_grad_enabled())
                self._tainted[id(value)] = found._replace(tensor=value)
                if any(value is tensor for tensor in written):
                    self._memory[_torch.memory(value)] = found
            elif id(value) in self._aliases and any(value is tensor for tensor in written):
                self._memory[_torch.memory(value)] = _Taint(value, name, False)
        return result

    def _levels_of(self, tensor: Tensor) -> set[int]:
        found = self._levels.get(id(tensor))
        if found is None:
            levels = _torch.recording_levels(tensor) if self._recording else set()
            found = self._levels[id(tensor)] = tensor, levels
        return found[1]


def hand_on(read: Sequence[Any], made: Sequence[Any]) -> None:
    """Tell whoever watches that something was made in a way that cannot be followed: at other transform levels."""
    for mode in _torch.function_modes():
        if isinstance(mode, Watch):
            mode.hand_on(_tensors(read), made)


def _is_ours(frame: types.FrameType) -> bool:
    """Whether the call of an operator or a Function is at work, which has a derivative of its own."""
    name = frame.f_code.co_filename
    return name.startswith(GENERATED) or (name.startswith(_PACKAGE) and "_examples" not in name)


def _is_recorded(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether this is a backward pass that autograd records: what it leaves without a derivative is constant."""
    return func is torch.autograd.grad and bool(kwargs.get("create_graph", args[4] if len(args) > 4 else False))


def _is_foreign(func: Any, caller: types.FrameType) -> bool:
    """Whether this is an operator that drops tangents without a word: somebody's kernel, and not one of ours."""
    return _torch.is_custom(func) and not (caller.f_back is not None and _is_ours(caller.f_back))


def _written(func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The tensors that a function writes into."""
    in_place = name == "__setitem__" or getattr(func, "__name__", "") == "__set__" or name.endswith("_")
    found = [*args[:1]] if (in_place and not name.endswith("__")) or name == "__setitem__" else []
    return [t for t in (*found, kwargs.get("out")) if isinstance(t, Tensor)]


def _read(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors whose values a function reads, as far as they can have a derivative."""
    if name in _LIKE:
        return []
    if name in _AS:
        args, kwargs = args[:1], {}
    return [t for t in _tensors((*args, *kwargs.values())) if is_inexact(t.dtype)]


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
