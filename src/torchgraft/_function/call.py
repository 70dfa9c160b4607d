"""One call of a Function: its arguments, what it saved, and the checks of both."""

from __future__ import annotations

import sys
import types
import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from .. import _torch
from .._spec.dtypes import is_inexact
from ..errors import ArgumentError, DerivativeError, KernelError, TorchgraftWarning
from .context import take_constants
from .dialect import Dialect
from .nested import as_outputs, holds_tensors, leaves_in, tensors_in


def known(value: Any, needed: bool) -> Any:
    """Describe an argument for `Call.arguments`."""
    return (value.shape, value.dtype) if needed else type(value)


class Attribute(NamedTuple):
    """A tensor that must stay as it is, and is not kept alive here: backward may drop it to free its memory.

    Attributes:
        name: under which it is known.
        tensor: a weak reference to it.
        version: how often it had been written to after forward.
    """

    name: str
    tensor: weakref.ref[Tensor]
    version: int


class Call:
    """One call of a Function, as its backward pass needs to know it.

    Attributes:
        arguments: for each argument (shape, dtype) of a tensor that needs a gradient, else its type.
        positional: how many arguments came by position; None for all.
        autocast: whether autocast was on in forward.
        intermediates: whether what forward has computed out of autograd's sight was kept.
        attributes: tensors among the attributes of the context, and arguments whose memory is kept in other clothes.
        given: tensors and other things on the context that are no intermediate results.
        inputs: weak references to the tensors that need a gradient, where `intermediates` is true.
    """

    def __init__(self, arguments: Sequence[Any], positional: int | None = None) -> None:
        self.arguments = arguments
        self.positional = positional
        self.autocast = False
        self.intermediates = False
        self.attributes: list[Attribute] = []
        self.given: Sequence[Any] = ()
        self.inputs: Sequence[weakref.ref[Tensor]] = ()

    def look(self, dialect: Dialect, ctx: Any, args: Sequence[Any], output: Any, state: Mapping[str, Any]) -> None:
        """Note what forward kept on its context, and advise against what is costly or fragile.

        Args:
            dialect: of the Function.
            ctx: the context.
            args: the arguments.
            output: what forward returned.
            state: attributes that the context had before forward.
        """
        self.autocast = _torch.any_autocast()
        self.attributes = tensor_attributes(ctx)
        self.given = [*take_constants(ctx), *state.values()]
        known = {id(leaf) for leaf in tensors_in([*args, *self.given, *_differentiable(ctx, output)])}
        for i, tensor in enumerate(ctx.to_save or ()):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise _no_tensor(dialect, i, tensor)
        saved = [t for t in ctx.to_save or () if t is not None and id(t) not in known and is_inexact(t.dtype)]
        found = [t for t in tensors_in(attributes_of(ctx)) if id(t) not in known and _is_floating(t)]
        self.intermediates = bool(saved or found)
        if self.attributes:
            warn_once(dialect, _ATTRIBUTE, attribute=self.attributes[0].name.removeprefix("ctx."))
        self.attributes += _borrowed(dialect, args, [*saved, *found])
        if self.intermediates:
            self.inputs = [weakref.ref(a) for a, k in zip(args, self.arguments, strict=True) if type(k) is tuple]
        if saved and not dialect.once:
            warn_once(dialect, _INTERMEDIATE)


def _differentiable(ctx: Any, output: Any) -> list[Any]:
    """The outputs with a derivative; one that is marked to have none is an intermediate result like others."""
    inert = ctx.non_differentiable or ()
    return [out for out in as_outputs(output) if not any(out is other for other in inert)]


def _is_floating(value: Tensor | np.ndarray) -> bool:
    return is_inexact(value.dtype) if isinstance(value, Tensor) else value.dtype.kind in "fc"


def attributes_of(ctx: Any) -> dict[str, Any]:
    """Attributes that user code has put on a context."""
    return {name: value for name, value in vars(ctx).items() if not name.startswith("_graft")}


def tensor_attributes(ctx: Any) -> list[Attribute]:
    """The tensors among the attributes of a context, with their versions."""
    found = ((name, t) for name, value in attributes_of(ctx).items() for t in leaves_in(Tensor, value))
    return [Attribute(f"ctx.{name}", weakref.ref(tensor), _torch.version(tensor)) for name, tensor in found]


def _borrowed(dialect: Dialect, args: Sequence[Any], kept: Sequence[Tensor | np.ndarray]) -> list[Attribute]:
    """The arguments whose memory is kept as an array, or as ``x.data``: a change of these is counted elsewhere."""
    tensors = [(i, arg) for i, arg in enumerate(args) if isinstance(arg, Tensor)]
    return [
        Attribute(dialect.argument(i), weakref.ref(arg), _torch.version(arg))
        for i, arg in tensors
        if any(_torch.shares_memory(value, arg) for value in kept)
    ]


def check_attributes(dialect: Dialect, attributes: Sequence[Attribute]) -> None:
    """Refuse a tensor kept as an attribute that has changed since: nothing else would notice."""
    for name, reference, version in attributes:
        tensor = reference()
        if tensor is not None and _torch.version(tensor) != version:
            raise DerivativeError(
                f"{name} has been changed in place since forward",
                operator=dialect.name,
                argument=name.removeprefix("ctx."),
                expected="the tensor as it was in forward",
                got=f"version {version} in forward, {_torch.version(tensor)} now",
                hint=f"ctx.save_for_backward({name.removeprefix('ctx.')}), and change a copy",
            )


def _no_tensor(dialect: Dialect, position: int, value: Any) -> ArgumentError:
    return ArgumentError(
        "save_for_backward takes tensors, and None in their places",
        operator=dialect.name,
        argument=f"save_for_backward[{position}]",
        expected="a tensor",
        got=f"{type(value).__name__} {value!r:.60}",
        hint="wrong:  ctx.save_for_backward(x, scale)\nright:  ctx.save_for_backward(x); ctx.scale = scale",
    )


def check_dirty(dialect: Dialect, ctx: Any, args: Sequence[Any], changes: Sequence[Any]) -> None:
    """Refuse a change of an argument in place of which forward has not told."""
    for i, changed in enumerate(changes):
        if changed and not any(args[i] is dirty for dirty in ctx.dirty_tensors or ()):
            name = dialect.argument(i)
            raise KernelError(
                "was changed in place by forward, of which autograd knows nothing",
                operator=dialect.name,
                argument=name,
                expected="an input that stays as it is, or ctx.mark_dirty",
                got="an operation in place, unmarked",
                hint=f"""\
wrong:  {name}.mul_(2); return {name}
right:  {name}.mul_(2); ctx.mark_dirty({name}); return {name}
or:     return {name} * 2""",
            )


def check_output(dialect: Dialect, output: Any) -> None:
    """Refuse tensors inside of a list or a dictionary, which autograd would not see."""
    for item in as_outputs(output):
        if not isinstance(item, Tensor) and holds_tensors(item):
            raise KernelError(
                "forward returns tensors inside of something that autograd does not look into",
                operator=dialect.name,
                expected="a tensor, or a tuple of tensors and other things",
                got=type(item).__name__,
                hint="return tuple(tensors)",
            )


# -- advice ---------------------------------------------------------------------------------------------------------

_ATTRIBUTE = """\
{name} keeps a tensor as ctx.{attribute}. It lives as long as the graph, hooks for saved tensors (checkpointing,
offloading) do not see it, and an output that is kept so is never freed.
  wrong:  ctx.{attribute} = {attribute}
  right:  ctx.save_for_backward({attribute}), and in backward  ({attribute},) = ctx.saved_tensors"""

_INTERMEDIATE = """\
{name} keeps an intermediate result of forward, and backward does not see how that depends on the inputs: the first
derivative is right, a second one is refused.
  wrong:  square = x * x; ctx.save_for_backward(square)
  right:  ctx.save_for_backward(x), and  x * x  again in backward
Where first derivatives are enough, say so with @once_differentiable above backward; where the tensor does not depend
on the inputs, with ctx.mark_constant(tensor)."""

UNSUMMED = """\
{name}: backward returns a gradient of shape {got} for {argument} of shape {shape}. It is summed over the axes that
forward broadcast, as autograd does.
  wrong:  return grad_{argument}
  right:  return grad_{argument}.sum_to_size({shape})"""

_warned: weakref.WeakKeyDictionary[type[Any], set[str]] = weakref.WeakKeyDictionary()


def warn_once(dialect: Dialect, advice: str, **names: object) -> None:
    """Warn once for each Function and kind of advice."""
    said = _warned.setdefault(dialect.function, set())
    if advice not in said:
        said.add(advice)
        warnings.warn(advice.format(name=dialect.name, **names), TorchgraftWarning, stacklevel=_user_level())


def _package(frame: types.FrameType) -> str:
    """The package of a frame's code; generated code is in no module, and ours."""
    return str(frame.f_globals.get("__name__", "torchgraft")).partition(".")[0]


def _user_level() -> int:
    """Count the frames from `warn_once` up to the caller of the Function."""
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and _package(frame) in ("torch", "torchgraft"):
        frame, level = frame.f_back, level + 1
    return level
