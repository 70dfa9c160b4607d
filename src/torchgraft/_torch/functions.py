"""`autograd.Function`: its parts that its public class does not hand out."""

from __future__ import annotations

import contextlib
import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any

import torch
from torch import _C, Tensor
from torch._functorch import autograd_function as _functorch_function
from torch.autograd.function import _SingleLevelFunction


class _NodeFunction(_SingleLevelFunction):
    if hasattr(torch.autograd.Function, "_compiled_autograd_key"):  # Compiled autograd asks for it.
        _compiled_autograd_key = staticmethod(torch.autograd.Function._compiled_autograd_key)


SingleLevelFunction: type[Any] = _NodeFunction
"""`autograd.Function` without its Python `apply`, which costs 1 us and refuses the ctx style under transforms."""

VmapInfo = _functorch_function.VmapInfo
vmapify: Callable[..., Any] = _functorch_function.vmapify_autograd_function
"""A class with `forward`, `setup_context`, `backward`, `jvp`, each under `vmap`; its last output are the axes."""

saved_tensors: Callable[[Any], tuple[Tensor | None, ...]] = _C._FunctionBase.saved_tensors.__get__  # type: ignore[attr-defined]
"""`ctx.saved_tensors` of an autograd node."""


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


def is_function_output(tensor: Tensor) -> bool:
    """Return True if an autograd Function made the tensor, with its own node."""
    return isinstance(tensor.grad_fn, torch.autograd.function.BackwardCFunction)


def is_within_apply(codes: Iterable[CodeType]) -> bool:
    """Return True if one of the codes that run is a method that a Function's `apply` has called.

    `apply` itself has no frame since torch 2.15, where it is written in C++.
    """
    running = set(codes)
    if running.isdisjoint(_WITHIN_APPLY):
        _WITHIN_APPLY.update(running & set(_codes_of_methods(torch.autograd.Function)))
    return not running.isdisjoint(_WITHIN_APPLY)


_WITHIN_APPLY = weakref.WeakSet[CodeType]()
"""Code of methods that was found among the classes, which takes a while to look through."""


def _codes_of_methods(parent: type[Any]) -> Iterator[CodeType]:
    for cls in parent.__subclasses__():
        for name in ("forward", "setup_context", "vmap", "jvp"):
            code = getattr(inspect.unwrap(getattr(cls, name)), "__code__", None)
            if code is not None:
                yield code
        yield from _codes_of_methods(cls)


_ONCE = torch.autograd.function.once_differentiable(lambda ctx: None).__code__


def is_once_differentiable(function: Any) -> bool:
    """Return True if a backward is wrapped by ``once_differentiable``, which refuses a second derivative by itself."""
    return getattr(function, "__code__", None) is _ONCE
