"""Dialects in which Functions are written, and how each part of one is run.

*Context*: ``forward(ctx, ...)``. *Setup*: ``forward(...)`` beside ``setup_context(ctx, inputs, output)``. *Instance*:
methods with ``self`` in the place of ``ctx``, as PyTorch had them before 0.2.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from .. import _torch
from ..errors import ArgumentError, DeclarationError, DerivativeError

Kind = Literal["context", "setup", "instance"]

_VARIADIC = inspect.Parameter.VAR_POSITIONAL
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ROOTS = frozenset(torch.autograd.Function.__mro__)
_ABSENT = torch.autograd.Function.backward


class Dialect:
    """The dialect of one Function.

    Its parts are looked up at every call, so that one which is replaced later is the one that runs; one that is added
    after the class statement comes too late to change how the class is read.

    Attributes:
        function: the class.
        name: its name.
        kind: the dialect.
        constructible: whether an instance can be made without arguments.
        signature: of `forward` without the context; None where Python cannot tell.
        boxed: whether backward takes the cotangents as one list.
        arity: how many arguments `forward` takes by position; None where that varies.
    """

    def __init__(self, function: type[Any]) -> None:
        self.function = function
        self.name = function.__name__
        self.kind = _kind(function)
        self.signature = _signature(function, self.kind)
        positions = [p.kind for p in self.signature.parameters.values()] if self.signature else [_VARIADIC]
        self.arity = None if _VARIADIC in positions else sum(kind in _POSITIONAL for kind in positions)
        self.constructible = _takes_nothing(function.__init__)
        self.reverse = "vjp" if defines(function, "vjp") else "backward"
        self.boxed = getattr(function, "boxed_grads_call", False)

    def run(self, ctx: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Forward, and what sets up the context."""
        if self.kind != "setup":
            return self.function.forward(ctx, *args, **keywords)
        output = self.function.forward(*args, **keywords)
        self.function.setup_context(ctx, tuple(args), output)
        return output

    def pull(self, ctx: Any, grads: Sequence[Any]) -> Any:
        """The gradients of the arguments."""
        reverse = getattr(self.function, self.reverse, None)
        if reverse is None or reverse is _ABSENT:
            raise DeclarationError(
                "has no backward", operator=self.name, expected="def backward(ctx, *grads)", got="forward alone"
            )
        return reverse(ctx, list(grads)) if self.boxed else reverse(ctx, *grads)

    @property
    def once(self) -> bool:
        """True if backward says that it cannot be differentiated."""
        return _torch.is_once_differentiable(getattr(self.function, self.reverse, None))

    def check_jvp(self) -> None:
        """Refuse forward mode of a Function that has no `jvp`."""
        if not defines(self.function, "jvp"):
            raise DerivativeError(
                "has no jvp, which forward mode needs",
                operator=self.name,
                expected="def jvp(ctx, *tangents)",
                got="forward mode",
                hint="add one; or declare an operator of it (tg.adopt), which derives forward mode from backward",
            )

    def bind(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """All arguments by position, the defaults among them, and those that `forward` takes by keyword alone.

        A tensor that came by keyword would otherwise get no gradient, without a word.
        """
        if self.signature is None:
            return tuple(args), dict(keywords)
        try:
            bound = self.signature.bind(*args, **keywords)
        except TypeError as error:
            raise ArgumentError(
                f"is called with other arguments than its forward takes: {error}",
                operator=self.name,
                expected=f"forward{self.signature}",
                got=f"{len(args)} by position" + (f", and {', '.join(keywords)} by name" if keywords else ""),
            ) from error
        bound.apply_defaults()
        for name, value in bound.kwargs.items():
            if isinstance(value, Tensor):
                raise ArgumentError(
                    "a tensor that forward takes by keyword alone would get no gradient",
                    operator=self.name,
                    argument=name,
                    expected="a parameter before the *",
                    got=f"forward{self.signature}",
                    hint=f"take '*' out of the parameters of {self.name}.forward",
                )
        return bound.args, bound.kwargs

    def positional(self) -> tuple[list[str], dict[str, Any]]:
        """The arguments that forward takes by position, and their defaults."""
        found = [p for p in (self.signature.parameters.values() if self.signature else ()) if p.kind in _POSITIONAL]
        return [p.name for p in found], {p.name: p.default for p in found if p.default is not p.empty}

    def argument(self, position: int) -> str:
        """The name of an argument, for messages."""
        names, _ = self.positional()
        return names[position] if position < len(names) else str(position)


def _bases(function: type[Any]) -> list[type[Any]]:
    """Base classes that somebody wrote, in the order in which names are looked up."""
    return [base for base in function.__mro__ if base not in _ROOTS]


def _has(base: type[Any], name: str) -> bool:
    """Return True if a class has its own `name`, and not torch's stand-in: ``jvp = torch.autograd.Function.jvp``."""
    value = vars(base).get(name)
    return value is not None and getattr(value, "__func__", value) is not getattr(torch.autograd.Function, name, None)


def defines(function: type[Any], name: str) -> bool:
    """Return True if the class, or one that it derives from, has its own `name`."""
    found = next((base for base in _bases(function) if name in vars(base)), None)
    return found is not None and _has(found, name)


def _takes_nothing(constructor: Callable[..., Any]) -> bool:
    try:
        inspect.signature(constructor).bind(None)
    except TypeError:
        return False
    except ValueError:  # It is written in C.
        return True
    return True


def _written(function: type[Any], name: str) -> Any:
    return next((vars(base)[name] for base in _bases(function) if name in vars(base)), None)


def _kind(function: type[Any]) -> Kind:
    if defines(function, "setup_context"):
        return "setup"
    if issubclass(function, torch.autograd.Function):  # There, `self` is only another name for `ctx`.
        return "context"
    return "instance" if inspect.isfunction(_written(function, "forward")) else "context"


def _signature(function: type[Any], kind: Kind) -> inspect.Signature | None:
    forward: Callable[..., Any] | None = getattr(function, "forward", None)
    if forward is None:
        return None
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):  # It is compiled code.
        return None
    parameters = list(signature.parameters.values())
    if kind != "setup" and parameters and parameters[0].kind in _POSITIONAL:
        parameters = parameters[1:]
    return signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
