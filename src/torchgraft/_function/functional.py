"""A Function of any dialect in the one form that transforms understand: forward without a context, and `setup_context`.

At each transform level a call has other tensors and a context of its own. Where the dialect has `setup_context`, it is
run for each; else forward runs once with a recorder, and what that has recorded is said again with each level's
tensors. Intermediate results travel between the levels as further outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .. import _torch
from ..errors import DerivativeError, UnsupportedError
from .asked import Answering, has_derivative
from .call import Call, check_dirty, check_output, known
from .context import Recorder, recorder_class
from .dialect import Dialect
from .guard import guarded
from .nested import as_outputs, map_leaves
from .node import pull


class Carried:
    """State that a call hands from level to level beside tensors; the last of its operands.

    Attributes:
        state: attributes of the context before forward: those of an instance.
        keywords: arguments that forward takes by keyword alone.
        positional: how many arguments came by position.
        needs: which arguments have a derivative at some level.
        autocast: whether autocast was on.
        single: whether forward returned one thing, and not a tuple.
        count: how many things forward returned.
        told: what forward told its context, tensors as `_Place`.
        changes: for each argument, whether forward changed it in place.
        intermediates: whether what forward has computed and saved could have a derivative.
    """

    def __init__(
        self, args: Sequence[Any], state: Mapping[str, Any], keywords: Mapping[str, Any], positional: int
    ) -> None:
        self.state = state
        self.keywords = keywords
        self.positional = positional
        self.needs = tuple(isinstance(arg, Tensor) and has_derivative(arg) for arg in args)
        self.autocast = _torch.any_autocast()
        self.single = True
        self.count = 1
        self.told: dict[str, Any] = {}
        self.intermediates = False
        self.changes: list[bool] = []


@dataclass(frozen=True)
class _Place:
    """The place of a tensor at any level: among ``inputs``, ``outputs`` or ``hidden``, and its number there."""

    group: str
    number: int


class _Kept:
    """State of the node of one level: a context without its tensors, and how these are arranged.

    Attributes:
        recorder: the context.
        call: the call.
        count: the number of outputs.
        reverse: how many tensors are kept for backward.
        forward: how many are kept for jvp.
        dirty: whether inputs were changed in place.
        stale: whether an output, or what forward has computed, is kept without the tangent that it would have.
    """

    def __init__(self, recorder: Recorder, call: Call, outputs: Sequence[Any]) -> None:
        self.recorder = recorder
        self.call = call
        self.count = len(outputs)
        self.reverse = len(recorder.to_save)
        self.forward = len(recorder.saved_for_forward)
        self.dirty = bool(recorder.dirty_tensors)
        saves_output = any(tensor is output for tensor in recorder.to_save for output in outputs if tensor is not None)
        in_dual_level = not _torch.functorch_active() and _torch.forward_ad._current_level >= 0
        self.stale = in_dual_level and (call.intermediates or saves_output)
        recorder.to_save = recorder.saved_for_forward = recorder.dirty_tensors = recorder.non_differentiable = ()


def make_functional(dialect: Dialect) -> type[Any]:
    """The class with `forward`, `setup_context`, `backward` and `jvp`, whose last operand is `Carried`."""
    new = recorder_class(dialect)

    def forward(*operands: Any) -> tuple[Any, ...]:
        *args, carried = operands
        recorder = new(carried.needs)
        before = [_torch.version(arg) if need else 0 for arg, need in zip(args, carried.needs, strict=True)]
        with Answering(args, carried.needs):
            if dialect.kind == "setup":
                output = dialect.function.forward(*args, **carried.keywords)
            else:
                vars(recorder).update(carried.state)
                output = dialect.function.forward(recorder, *args, **carried.keywords)
        check_output(dialect, output)
        outputs = _as_outputs(carried, output)
        after = [_torch.version(arg) if need else 0 for arg, need in zip(args, carried.needs, strict=True)]
        carried.changes = [old != new for old, new in zip(before, after, strict=True)]
        if dialect.kind == "setup":
            return outputs
        call = _call(args, carried.needs, carried)
        call.look(dialect, recorder, args, output, carried.state)
        carried.intermediates = call.intermediates
        hidden: list[Tensor] = []
        carried.told = _placed(recorder, args, outputs, hidden)
        return (*outputs, *hidden)

    def setup_context(ctx: Any, operands: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        *args, carried = operands
        shown, hidden = outputs[: carried.count], outputs[carried.count :]
        needs = tuple(ctx.needs_input_grad)[: len(args)]
        recorder = new(needs)
        call = _call(args, needs, carried)
        if dialect.kind == "setup":
            output = shown[0] if carried.single else shown
            dialect.function.setup_context(recorder, tuple(args), output)
            call.look(dialect, recorder, args, output, carried.state)
        elif not carried.told:
            raise _vmap_keeps_context(dialect)
        else:
            _retell(recorder, carried.told, {"inputs": args, "outputs": shown, "hidden": hidden})
            call.intermediates = carried.intermediates
        call.autocast = carried.autocast
        check_dirty(dialect, recorder, args, carried.changes)
        inputs = [arg for arg, need in zip(args, needs, strict=True) if need]
        ctx.save_for_backward(*recorder.to_save, *recorder.saved_for_forward, *inputs)
        if recorder.dirty_tensors:
            if any(map(_torch.may_carry_tangent, recorder.dirty_tensors)):
                raise _in_place(dialect)
            ctx.mark_dirty(*recorder.dirty_tensors)
        inert = [*recorder.non_differentiable, *(h for h in hidden if isinstance(h, Tensor))]
        if inert:
            ctx.mark_non_differentiable(*inert)
        ctx.set_materialize_grads(recorder.materialize)
        ctx._graft_kept = _Kept(recorder, call, shown)

    def reopen(ctx: Any, *, forward_mode: bool) -> tuple[Recorder, Call, list[Tensor]]:
        """The context as user code knows it, and the inputs that need a gradient."""
        kept: _Kept = ctx._graft_kept
        tensors = ctx.saved_tensors
        recorder = new(kept.recorder.needs_input_grad)
        vars(recorder).update(vars(kept.recorder))
        split = kept.reverse + kept.forward
        reverse, forward, inputs = tensors[: kept.reverse], tensors[kept.reverse : split], tensors[split:]
        recorder.saved_tensors = forward if forward_mode and forward else reverse
        recorder.saved_for_forward = forward
        return recorder, kept.call, [t for t in inputs if t is not None]

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        recorder, call, inputs = reopen(ctx, forward_mode=False)
        shown = grads[: ctx._graft_kept.count]
        if ctx._graft_kept.stale and _torch.forward_ad._current_level >= 0:
            raise _stale(dialect)
        moving = _torch.tangents_possible()
        return (*pull(dialect, recorder, call, shown, lambda: inputs, moving=moving), None)

    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        recorder, call, inputs = reopen(ctx, forward_mode=True)
        label = f"{dialect.name}.jvp"
        given = tangents[:-1]
        dialect.check_jvp()
        if ctx._graft_kept.dirty:
            raise _in_place(dialect)

        def run() -> tuple[Any, ...]:
            made = dialect.function.jvp(recorder, *given)
            return tuple(made) if isinstance(made, list) else as_outputs(made)

        return guarded(label, call, recorder, run, given, lambda: inputs)

    body: dict[str, Any] = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "jvp": staticmethod(jvp),
        "dialect": dialect,
    }
    return type(dialect.name, (), body)


def _call(args: Sequence[Any], needs: Sequence[bool], carried: Carried) -> Call:
    return Call([known(arg, need) for arg, need in zip(args, needs, strict=True)], carried.positional)


def _as_outputs(carried: Carried, output: Any) -> tuple[Any, ...]:
    carried.single = not isinstance(output, tuple)
    outputs = as_outputs(output)
    carried.count = len(outputs)
    return outputs


def _placed(recorder: Recorder, args: Sequence[Any], outputs: Sequence[Any], hidden: list[Tensor]) -> dict[str, Any]:
    """Replace the tensors of a recorder by places; those that are nowhere else are added to `hidden`."""

    def place(tensor: Tensor) -> _Place:
        for group, tensors in (("inputs", args), ("outputs", outputs), ("hidden", hidden)):
            for i, other in enumerate(tensors):
                if other is tensor:
                    return _Place(group, i)
        hidden.append(tensor)
        return _Place("hidden", len(hidden) - 1)

    told = {name: map_leaves(Tensor, place, getattr(recorder, name)) for name in _TOLD}
    attributes = {n: map_leaves(Tensor, place, v) for n, v in vars(recorder).items() if not n.startswith("_graft")}
    return {"told": told, "attributes": attributes}


_TOLD = ("to_save", "saved_for_forward", "dirty_tensors", "non_differentiable", "materialize")


def _retell(recorder: Recorder, told: Mapping[str, Any], tensors: Mapping[str, Sequence[Any]]) -> None:
    """Tell a recorder what another one was told, with the tensors of this level."""

    def find(place: _Place) -> Any:
        return tensors[place.group][place.number]

    for name, value in told["told"].items():
        setattr(recorder, name, map_leaves(_Place, find, value))
    vars(recorder).update({name: map_leaves(_Place, find, value) for name, value in told["attributes"].items()})


def _vmap_keeps_context(dialect: Dialect) -> UnsupportedError:
    return UnsupportedError(
        "is differentiated outside of its own vmap, which does not hand out what forward keeps on ctx",
        operator=dialect.name,
        expected="forward(...) and setup_context(ctx, inputs, output) beside vmap",
        got="forward(ctx, ...)",
    )


def _in_place(dialect: Dialect) -> UnsupportedError:
    return UnsupportedError(
        "changes its inputs in place, which forward mode cannot follow",
        operator=f"{dialect.name}.jvp",
        expected="inputs that stay as they are",
        got="ctx.mark_dirty",
        hint="write to a copy in forward",
    )


def _stale(dialect: Dialect) -> DerivativeError:
    return DerivativeError(
        "forward over reverse at one level: backward reads what forward computed, which was kept without its tangent",
        operator=f"{dialect.name}.{dialect.reverse}",
        expected="torch.func.jvp over torch.func.grad, or a backward that reads inputs only",
        got="a backward pass inside torch.autograd.forward_ad.dual_level",
    )
