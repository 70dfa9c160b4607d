"""What can be checked, and how each kind is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import nn

from .. import _torch
from .._errors import ArgumentError
from .._function.function import Function
from .._op import Op

FUNCTIONS = (torch.autograd.Function, Function)

Kind = Literal["operator", "function", "library", "module", "callable"]


@dataclass(frozen=True)
class Target:
    """Something that is called with tensors and returns tensors.

    Attributes:
        name: for reports.
        kind: a torchgraft operator, an `autograd.Function`, a `torch.library` operator, a module, or any callable.
        function: what is called. A module's takes its parameters, a dictionary, as first argument.
        origin: what was given.
        parameters: names of the positional arguments, as far as they are known.
        constants: names of arguments that were declared to have no derivative.
        samples: functions of its author's that yield calls, as `Op.samples` takes them: of an operator those that were
            declared, of anything else the attribute ``samples``.
    """

    name: str
    kind: Kind
    function: Callable[..., Any]
    origin: Any
    parameters: tuple[str, ...] = ()
    constants: frozenset[str] = frozenset()
    samples: tuple[Callable[..., Any], ...] = ()

    @property
    def operator(self) -> Op | None:
        """The torchgraft operator, if it is one."""
        return self.origin if isinstance(self.origin, Op) else None

    def name_of(self, path: tuple[Any, ...]) -> str:
        """The name of an argument, from its place in ``(args, kwargs)``."""
        which, *rest = path
        if which.idx == 1:
            name = str(rest.pop(0).key)
        else:
            index = rest.pop(0).idx
            name = self.parameters[index] if index < len(self.parameters) else f"input {index}"
        if self.kind == "module" and which.idx == 0 and index == 0:
            return str(rest[0].key)
        return name + _torch.pytree.keystr(tuple(rest))


def make_target(origin: Any, *, name: str | None = None) -> Target:
    """The target that `origin` is.

    Raises:
        ArgumentError: it cannot be called.
    """
    return replace(_made(origin, name), samples=_samples(origin))


def _made(origin: Any, name: str | None) -> Target:
    if isinstance(origin, Op):
        record = origin._record
        names = tuple(p.name for p in record.signature.parameters)
        return Target(name or record.name, "operator", origin, origin, names, frozenset(record.nondifferentiable))
    if isinstance(origin, nn.Module):
        parameters = ("parameters", *_parameters(origin.forward))
        return Target(name or type(origin).__name__, "module", _functional(origin), origin, parameters)
    function = function_of(origin)
    if function is not None:
        origin = function.apply if origin is function else origin
        names = _parameters(function.forward)[contexts(function) :]
        return Target(name or function.__name__, "function", origin, origin, names)
    overload = _torch.overload_of(origin)
    if overload is not None:
        names = tuple(argument.name for argument in overload._schema.arguments)
        return Target(name or str(overload), "library", origin, overload, names)
    if not callable(origin):
        raise ArgumentError(
            "cannot be checked", argument="target", got=type(origin).__name__,
            expected="an operator, a Function's apply, a module, or a function on tensors",
        )  # fmt: skip
    return Target(name or _name(origin), "callable", origin, origin, _parameters(origin))


def function_of(origin: Any) -> Any:
    """The class of a Function, torch's or torchgraft's, or of its ``apply``; None for anything else."""
    owner = origin if isinstance(origin, type) else getattr(origin, "__self__", None)
    return owner if isinstance(owner, type) and issubclass(owner, FUNCTIONS) else None


def contexts(function: Any) -> int:
    """How many of the first parameters of a Function's `forward` are no arguments: 1, or 0 beside `setup_context`."""
    if issubclass(function, Function):
        return 0 if function._dialect.kind == "setup" else 1
    return 1 if function.setup_context is torch.autograd.Function.setup_context else 0


def _samples(origin: Any) -> tuple[Callable[..., Any], ...]:
    if isinstance(origin, Op):
        return tuple(origin._record.samples)
    found = getattr(function_of(origin) or origin, "samples", None)
    return (found,) if callable(found) else ()


def _functional(module: nn.Module) -> Callable[..., Any]:
    """A module as a function of its parameters; its buffers are what they were before each call."""

    def call(parameters: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        buffers = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
        return torch.func.functional_call(module, (parameters, buffers), args, kwargs)

    return call


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin that tells nothing
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in found if p.kind in positional)


def _name(function: Any) -> str:
    if isinstance(function, functools.partial):
        return _name(function.func)
    return getattr(function, "__name__", type(function).__name__)
