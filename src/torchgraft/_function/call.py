"""What is known about one call of a Function: its arguments, what it saved, and the checks of both."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from .. import _torch
from .._errors import ArgumentError, DerivativeError, KernelError, TorchgraftWarning
from .._spec.dtypes import is_inexact
from .context import take_constants
from .dialect import Dialect


class Call:
    """One call of a Function, as its backward pass needs to know it.

    Attributes:
        arguments: for each argument (shape, dtype, version) of a tensor that needs a gradient, False for another
            tensor, None for anything else.
        positional: how many arguments came by position.
        autocast: whether autocast was on in forward.
        intermediates: whether floating tensors were saved that are neither inputs nor outputs.
        attributes: tensors among the attributes of the context, with their versions.
        inputs: weak references to the tensors that need a gradient, where `intermediates` is true.
    """

    __slots__ = ("arguments", "attributes", "autocast", "inputs", "intermediates", "positional")

    def __init__(self, args: Sequence[Any], needs: Sequence[bool]) -> None:
        self.arguments: list[Any] = [
            ((arg.shape, arg.dtype, _torch.version(arg)) if need else False) if isinstance(arg, Tensor) else None
            for arg, need in zip(args, needs)  # noqa: B905 - `strict` costs 0.1 us here; both come from one call
        ]
        self.positional = len(args)
        self.autocast = _torch.any_autocast()
        self.intermediates = False
        self.attributes: Sequence[tuple[str, Tensor, int]] = ()
        self.inputs: Sequence[weakref.ref[Tensor]] = ()

    def check_forward(self, dialect: Dialect, ctx: Any, args: Sequence[Any], output: Any) -> None:
        """Check what forward did; note what the backward pass must know.

        Args:
            dialect: of the Function.
            ctx: its context after forward, with `to_save` as it was given.
            args: the arguments.
            output: what forward returned.
        """
        changed = self.changed(args)
        if changed:
            self.check_dirty(dialect, ctx, args, changed)
        self.check_saved(dialect, ctx, args, output)

    def changed(self, args: Sequence[Any]) -> list[int]:
        """Numbers of the arguments that need a gradient and have been changed in place."""
        return [i for i, known in enumerate(self.arguments) if known and _torch.version(args[i]) != known[2]]

    def check_dirty(self, dialect: Dialect, ctx: Any, args: Sequence[Any], changed: Sequence[int]) -> None:
        """Refuse a change in place that forward has not told."""
        for i in changed:
            if not any(args[i] is dirty for dirty in ctx.dirty_tensors or ()):
                raise self._not_marked(dialect, i)

    def check_saved(self, dialect: Dialect, ctx: Any, args: Sequence[Any], output: Any) -> None:
        """Look at what the context keeps."""
        state = vars(ctx)
        if len(state) > ("_graft_call" in state):
            self._look_at_attributes(dialect, state)
        saved = ctx.to_save
        if saved:
            self._look_at_saved(dialect, ctx, saved, args, output)

    def _not_marked(self, dialect: Dialect, position: int) -> KernelError:
        name = dialect.argument(position)
        return KernelError(
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

    def _look_at_attributes(self, dialect: Dialect, state: Mapping[str, Any]) -> None:
        found = [
            (name, item)
            for name, value in state.items()
            if not name.startswith("_graft")
            for item in (value if isinstance(value, (list, tuple)) else (value,))
            if isinstance(item, Tensor)
        ]
        if not found:
            return
        self.attributes = [(name, item, _torch.version(item)) for name, item in found]
        name = found[0][0]
        _warn_once(
            dialect,
            f"{dialect.name} keeps a tensor as ctx.{name}. It lives as long as the graph, hooks for saved tensors "
            f"(checkpointing, offloading) do not see it, and an output kept so is never freed.\n"
            f"  wrong:  ctx.{name} = {name}\n"
            f"  right:  ctx.save_for_backward({name})  and in backward  ({name},) = ctx.saved_tensors",
        )

    def _look_at_saved(self, dialect: Dialect, ctx: Any, saved: Any, args: Sequence[Any], output: Any) -> None:
        outputs = output if type(output) is tuple else (output,)
        constants: list[Tensor] | None = None
        for i, tensor in enumerate(saved):
            if tensor is None or any(tensor is arg for arg in args) or any(tensor is out for out in outputs):
                continue
            if not isinstance(tensor, Tensor):
                raise ArgumentError(
                    "save_for_backward takes tensors, and None in their places",
                    operator=dialect.name,
                    argument=f"save_for_backward[{i}]",
                    expected="a tensor",
                    got=f"{type(tensor).__name__} {tensor!r:.60}",
                    hint="wrong:  ctx.save_for_backward(x, scale)\nright:  ctx.save_for_backward(x); ctx.scale = scale",
                )
            constants = take_constants(ctx) if constants is None else constants
            if is_inexact(tensor.dtype) and not any(tensor is constant for constant in constants):
                self.intermediates = True
        if self.intermediates:
            self.inputs = [weakref.ref(arg) for arg, known in zip(args, self.arguments, strict=True) if known]
            if not _torch.is_once_differentiable(getattr(dialect.function, dialect.reverse, None)):
                _warn_once(
                    dialect,
                    f"{dialect.name} saves an intermediate result, whose own dependence on the inputs backward does not "
                    f"see: the first derivative is right, a second one is refused.\n"
                    f"  wrong:  square = x * x; ctx.save_for_backward(square)\n"
                    f"  right:  ctx.save_for_backward(x)  and  x * x  again in backward\n"
                    f"Or mark backward @once_differentiable if first derivatives are enough, or "
                    f"ctx.mark_constant(tensor) if it does not depend on the inputs.",
                )

    def check_attributes(self, dialect: Dialect) -> None:
        """Refuse a tensor kept as an attribute that has changed since: nothing else would notice."""
        for name, tensor, version in self.attributes:
            if _torch.version(tensor) != version:
                raise DerivativeError(
                    f"ctx.{name} has been changed in place since forward",
                    operator=dialect.name,
                    argument=name,
                    expected="the tensor as it was in forward",
                    got=f"version {version} in forward, {_torch.version(tensor)} now",
                    hint=f"ctx.save_for_backward({name}), and change a copy",
                )


_warned: weakref.WeakKeyDictionary[type[Any], set[str]] = weakref.WeakKeyDictionary()


def _warn_once(dialect: Dialect, text: str) -> None:
    """Warn once for each Function and text."""
    said = _warned.setdefault(dialect.function, set())
    if text not in said:
        said.add(text)
        warnings.warn(text, TorchgraftWarning, stacklevel=_user_level())


def _user_level() -> int:
    """How many frames above `_warn_once` the caller of the Function stands."""
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("torch", "torchgraft"):
        frame, level = frame.f_back, level + 1
    return level


