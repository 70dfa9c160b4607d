"""A call of a Function under `torch.func` or in forward mode: one transform level after the other, outermost first.

Forward mode is peeled off: the call on the primals, and `jvp` on the tangents, both of which the levels below see.
`jvp` of torch's own Function is silently wrong where forward modes nest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._spec.dtypes import is_inexact
from ..errors import UnsupportedError
from .context import Recorder
from .dialect import defines

Operands = tuple[Any, ...]


def call(function: Any, operands: Operands) -> tuple[Any, ...]:
    """Call a functional class (`functional`) on `operands`, at every transform level that is open."""
    if not _torch.functorch_active():
        return _bottom(function, operands)
    operands = tuple(map(_torch.unwrap_dead, operands))
    level = _torch.current_level()
    rules = {"Grad": _reverse_level, "Jvp": _forward_level, "Vmap": _batch_level}
    kind = level.key().name
    if kind not in rules:
        raise UnsupportedError("a Function under this transform", operator=function.__name__, got=kind)
    return rules[kind](level, function, operands)


# -- reverse mode ---------------------------------------------------------------------------------------------------


def _bottom(function: Any, operands: Operands) -> tuple[Any, ...]:
    if _torch.tangents_possible():
        return _peel(function, operands, lambda primals: _node(function, primals, function.forward, seen=operands))
    return _node(function, operands, function.forward)


def _reverse_level(level: Any, function: Any, operands: Operands) -> tuple[Any, ...]:
    below = _below(level, function)
    with _torch.single_level():
        return _node(function, operands, below)


def _node(
    function: Any, operands: Operands, run: Callable[..., tuple[Any, ...]], *, seen: Operands | None = None
) -> tuple[Any, ...]:
    """The autograd node of one level around `run`.

    Args:
        function: the functional class.
        operands: what the node hangs on.
        run: the call at the levels below.
        seen: the operands as the context gets them: with their tangents, so that a backward pass inside the same
            forward level sees these.
    """

    def forward(ctx: Any, *operands: Any) -> tuple[Any, ...]:
        outputs = run(*operands)
        function.setup_context(ctx, seen or operands, outputs)
        return outputs

    body = {"forward": staticmethod(forward), "backward": staticmethod(function.backward)}
    node = type(function.__name__, (_torch.SingleLevelFunction,), body)
    outputs: tuple[Any, ...] = node.apply(*operands)  # type: ignore[attr-defined]
    return outputs


def _below(level: Any, function: Any) -> Callable[..., tuple[Any, ...]]:
    """The call at the levels below a differentiating one, in the modes in which this one was entered."""
    number = level.level()
    grad, forward = torch.is_grad_enabled(), _torch.forward_mode_enabled()

    def run(*operands: Any) -> tuple[Any, ...]:
        inner = tuple(_torch.without_level(operand, number) for operand in operands)
        with _torch.modes(grad, forward), level.lower():
            outputs = call(function, inner)
        return _torch.with_identity(outputs, inner, operands, lambda output: _torch.with_level(output, number))

    return run


# -- forward mode ---------------------------------------------------------------------------------------------------


def _forward_level(level: Any, function: Any, operands: Operands) -> tuple[Any, ...]:
    below = _below(level, function)
    return _peel(function, operands, lambda primals: below(*primals))


def _peel(function: Any, operands: Operands, run: Callable[[Operands], tuple[Any, ...]]) -> tuple[Any, ...]:
    duals = [_unpack(operand) for operand in operands]
    if all(tangent is None for _, tangent in duals):
        return run(operands)
    if hasattr(function, "dialect"):
        function.dialect.check_jvp()
    primals = tuple(primal for primal, _ in duals)
    outputs = run(primals)
    tensors = [isinstance(primal, Tensor) and is_inexact(primal.dtype) for primal in primals]
    ctx = Recorder(tuple(tensors))
    function.setup_context(ctx, primals, outputs)
    ctx.saved_tensors = ctx.to_save
    tangents = [
        torch.zeros_like(primal) if tangent is None and tensor and ctx.materialize else tangent
        for (primal, tangent), tensor in zip(duals, tensors, strict=True)
    ]
    made = function.jvp(ctx, *tangents)
    inert = ctx.non_differentiable
    return tuple(
        output
        if tangent is None or not isinstance(output, Tensor) or any(output is i for i in inert)
        else _torch.make_dual(output, tangent)
        for output, tangent in zip(outputs, (*made, *(None,) * (len(outputs) - len(made))), strict=True)
    )


def _unpack(operand: Any) -> tuple[Any, Tensor | None]:
    if isinstance(operand, Tensor) and is_inexact(operand.dtype):
        return _torch.unpack_dual(operand)
    return operand, None


# -- vmap -----------------------------------------------------------------------------------------------------------


def _batch_level(level: Any, function: Any, operands: Operands) -> tuple[Any, ...]:
    number = level.level()
    inner, dims = _torch.unwrap_batched(operands, number)
    if all(dim is None for dim in dims):
        with level.lower():
            return call(function, operands)
    user = function.dialect.function if hasattr(function, "dialect") else None
    if user is None or getattr(user, "generate_vmap_rule", False):
        outputs, out_dims = _generated(level, function, inner, dims)
    elif defines(user, "vmap"):
        outputs, out_dims = _written(level, user, inner, dims)
    else:
        outputs, out_dims = _loop(level, function, inner, dims)
    return _torch.with_identity(outputs, inner, operands, lambda o, dim: _torch.add_batch(o, dim, number), out_dims)


def _generated(level: Any, function: Any, inner: Operands, dims: Any) -> tuple[Any, Any]:
    """Forward and backward under `vmap`."""
    mapped = _torch.vmapify(function, dims, level.batch_size(), level.randomness())
    before = _torch.Generators.snapshot()
    with level.lower():
        *outputs, out_dims = call(mapped, inner)
    # The other generators gave one draw for all samples; torch sees to its own.
    if level.randomness() != "same" and (drawn := set(before.all_moved()) - {"torch"}):
        raise _no_loop(function, f"draws random numbers ({drawn.pop()}), one for all samples")
    return tuple(outputs), out_dims


def _written(level: Any, user: Any, inner: Operands, dims: Sequence[Any]) -> tuple[Any, Any]:
    """The Function's own rule, which sees the arguments as they were given."""
    *args, carried = inner
    info = _torch.VmapInfo(batch_size=level.batch_size(), randomness=level.randomness())
    with level.lower():
        output, out_dims = user.vmap(info, tuple(dims[:-1]), *args, **carried.keywords)
    carried.single = not isinstance(output, tuple)
    outputs = (output,) if carried.single else output
    carried.count = len(outputs)
    return outputs, out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(outputs)


def _loop(level: Any, function: Any, inner: Operands, dims: Sequence[Any]) -> tuple[Any, Any]:
    """One call for each sample: what `vmap` means, where nothing says how to do it at once."""
    if level.batch_size() == 0:
        return _empty(level, function, inner, dims)
    samples: list[tuple[Any, ...]] = []
    told: list[Any] = []
    shared = [o for o, dim in zip(inner, dims, strict=True) if dim is None and isinstance(o, Tensor)]
    before, states = list(map(_torch.version, shared)), _torch.Generators.snapshot()
    # A function cannot be told to draw the same from a generator of its own.
    watch = _torch.RandomWatch() if level.randomness() != "different" else contextlib.nullcontext()
    with level.lower(), watch:
        for i in range(level.batch_size()):
            if level.randomness() == "same":
                states.restore()
            operands = [o if dim is None else o.select(dim, i) for o, dim in zip(inner, dims, strict=True)]
            samples.append(call(function, tuple(operands)))
            told.append(inner[-1].told)
            if list(map(_torch.version, shared)) != before or _marks_dirty(inner[-1]):
                raise _no_loop(function, "changes an argument in place")
    drawn = getattr(watch, "explicit", None) or (states.moved() if level.randomness() == "error" else None)
    if drawn is not None:
        raise _no_loop(function, f"draws random numbers ({drawn}), of which vmap(randomness=...) says nothing")
    columns = list(zip(*samples, strict=True))
    others = [column for column in columns if not isinstance(column[0], Tensor)]
    if not all(map(_all_equal, [told, *others])):  # The context of the level above is one for all samples.
        raise _no_loop(function, "keeps or returns something else for each sample")
    stacked = [torch.stack(column) if isinstance(column[0], Tensor) else column[0] for column in columns]
    return tuple(stacked), tuple(0 if isinstance(column[0], Tensor) else None for column in columns)


def _empty(level: Any, function: Any, inner: Operands, dims: Sequence[Any]) -> tuple[Any, Any]:
    """No samples: what forward makes of all of them at once, if it can."""
    try:
        return _generated(level, function, inner, dims)
    except (RuntimeError, LookupError, TypeError, ValueError) as error:
        raise _no_loop(function, "has no samples") from error


def _marks_dirty(carried: Any) -> bool:
    return bool(carried.told and carried.told["told"]["dirty_tensors"])


def _all_equal(values: Sequence[Any]) -> bool:
    try:
        return all(bool(other == values[0]) for other in values)
    except (TypeError, ValueError, RuntimeError):  # Some values cannot be compared.
        return False


def _no_loop(function: Any, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"under vmap: forward {why}",
        operator=function.__name__,
        expected="a static method vmap(info, in_dims, *args), or generate_vmap_rule = True",
        got="neither",
    )
