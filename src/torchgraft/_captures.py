"""Values that a function captures instead of taking them as arguments."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from . import _torch


def captured_with_grad(function: Callable[..., Any]) -> str | None:
    """The name of a captured tensor that requires grad, or of a module that has such a parameter; else None."""
    for name, value in captures(function):
        if isinstance(value, Tensor) and value.requires_grad:
            return name
        if isinstance(value, torch.nn.Module):
            for parameter_name, parameter in value.named_parameters():
                if parameter.requires_grad:
                    return f"{name}.{parameter_name}"
    return None


_LOOKING = frozenset({"detach", "__get__", "size", "dim", "stride", "is_floating_point", "is_complex", "numel"})
"""Torch functions that use no number of a tensor whose gradient is wanted; what is detached is constant on purpose."""


class CaptureWatch(torch.overrides.TorchFunctionMode):
    """Refuses tensors with a derivative that a kernel uses and was not given.

    A kernel runs below autograd and below all transforms. Its inputs have no derivative there, nor has what it makes of
    them, so that whatever has one was captured.

    Args:
        inputs: of the kernel.
        refuse: makes the error.
    """

    def __init__(self, inputs: Sequence[Tensor], refuse: Callable[[], Exception]) -> None:
        super().__init__()
        self._refuse = refuse
        self._known = {_torch.memory(tensor): tensor for tensor in inputs}  # Tensors that live keep their addresses.

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`, and look at its tensors."""
        if getattr(func, "__name__", "") not in _LOOKING:
            for value in _torch.pytree.tree_leaves((args, kwargs)):
                if isinstance(value, Tensor) and self._is_captured(value):
                    raise self._refuse()
        made = func(*args, **(kwargs or {}))
        for value in _torch.pytree.tree_leaves(made):
            if isinstance(value, Tensor):
                self._known[_torch.memory(value)] = value
        return made

    def _is_captured(self, tensor: Tensor) -> bool:
        differentiated = _torch.is_wrapped(tensor) or tensor.requires_grad or _torch.has_tangent(tensor)
        return differentiated and _torch.memory(tensor) not in self._known


def captures(function: Any) -> Iterator[tuple[str, Any]]:
    """Find the closure cells and globals that a function and its plain helper functions refer to."""
    return _captures(function, set())


def is_compiled(value: Any) -> bool:
    """Tell whether a value is a function that Numba compiles: it keeps the function of Python that was written."""
    return isinstance(getattr(value, "__dict__", {}).get("py_func"), types.FunctionType)


def named(function: Any) -> set[str]:
    """Find the globals and attributes that the code of a function and of its plain helper functions names."""
    functions = [function, *(value for _, value in captures(function))]
    return {name for f in functions if isinstance(f, types.FunctionType) for name in _names(f.__code__)}


def _captures(function: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if not isinstance(function, types.FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    found: list[tuple[str, Any]] = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # The cell is still empty.
            continue
    for name in _globals(function.__code__):
        if name in function.__globals__:
            found.append((name, function.__globals__[name]))
    for name, value in found:
        yield name, value
        if is_compiled(value):
            value = value.py_func
            yield name, value
        if isinstance(value, types.FunctionType) and value.__globals__ is function.__globals__:
            yield from _captures(value, seen)


@functools.lru_cache(maxsize=1024)
def _globals(code: types.CodeType) -> Sequence[str]:
    """List the names that code looks up in its module; those of attributes, which may be equal, are no captures."""
    own = [i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    inner = [name for c in code.co_consts if isinstance(c, types.CodeType) for name in _globals(c)]
    return list(dict.fromkeys(own + inner))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
