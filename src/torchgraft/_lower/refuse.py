"""The node that refuses: a value whose derivative would be wrong is connected to an error instead of to nothing.

Stock PyTorch returns None or zero for the derivative of a value that was computed outside of its sight. An operator
of the dispatcher sees every transform level, so that the error reaches all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _torch
from .._spec.dtypes import is_inexact
from ..errors import DerivativeError
from .conduct import within_level
from .dispatcher_op import DispatcherOp
from .watch import Watch


class Why(NamedTuple):
    """Why a derivative would be wrong, and what to do about it."""

    reason: str
    hint: str


def explain_saved(operator: str, error: RuntimeError, hint: str) -> RuntimeError:
    """Return an error that names the operator where a saved tensor was changed in place; else `error` itself."""
    text = str(error)
    if "modified by an inplace operation" not in text:
        return error
    made = refuse_saved(operator, text.partition(";")[0], hint)
    made.__cause__ = error
    return made


def refuse_saved(operator: str, got: str, hint: str) -> DerivativeError:
    """The error for a saved tensor that was changed in place."""
    return DerivativeError(
        "a tensor that was saved for the backward pass has been changed in place since",
        operator=operator, expected="the tensor as it was in forward", got=got, hint=hint,
    )  # fmt: skip


_OPAQUE = Why(
    "it computes outside of torch, or from a floating Saved output",
    "write the rule with torch functions, or make it from operators that have derivatives",
)
_DETACHED = Why(
    "its result is detached from what it was computed from",
    "use torch functions without .detach(), .data, .item() or .numpy(), and without no_grad, which "
    "once_differentiable is; a rule that is constant on purpose returns zeros that depend on grad, such as 0 * grad",
)


def refuse_derivative(value: Tensor, sources: Sequence[Tensor], label: str, why: Why) -> Tensor:
    """`value`, whose derivative with respect to any of `sources` raises a `DerivativeError`.

    Args:
        label: of the rule that computed it.
    """
    inexact = [source for source in sources if is_inexact(source.dtype)]
    result: Tensor = _operator()(value.detach(), inexact, label, *why)
    return result


def connect(
    label: str,
    opaque: bool,
    made: Sequence[Any],
    sources: Sequence[Tensor],
    linear: Sequence[Tensor],
    hanging: Callable[[], Sequence[bool]],
) -> list[Any]:
    """Connect the result of a rule to a refusal where its own derivative would be wrong.

    Args:
        sources: what the rule read.
        linear: those in which its result is linear, and from which it can therefore not be detached.
        hanging: tells for each result whether it hangs on what it is linear in, asked only where a result that is
            constant in its inputs must be told from one that is detached.
    """
    if opaque:
        return [refuse_derivative(value, sources, label, _OPAQUE) for value in made]
    if not torch.is_grad_enabled():
        return list(made)
    needed = set[int]().union(*map(_torch.recording_levels, linear))
    possible = needed.union(*map(_torch.recording_levels, sources))
    fine: list[bool] = []
    for i, value in enumerate(made):
        missing = possible - _torch.recording_levels(value)
        fine.append(not missing or (not missing & needed and hanging()[i]))
    return [
        value if is_fine else refuse_derivative(value, sources, label, _DETACHED)
        for value, is_fine in zip(made, fine, strict=True)
    ]


def attached(
    run: Callable[..., Sequence[Any]], reads: Sequence[Any], linear: Sequence[int], positions: Sequence[int]
) -> list[bool]:
    """Tell whether results of a rule hang on what they are linear in, by running it again below all transform levels.

    Args:
        run: the rule.
        reads: what it read.
        linear: the places of the cotangents or tangents among `reads`.
        positions: the places of the results.
    """
    again = [_torch.plain_samples(value) for value in reads]
    for i in linear:
        for tensor in again[i] if isinstance(again[i], list) else [again[i]]:
            _torch.requires_grad_inside(tensor)
    try:
        results = run(*again)
    except Exception:  # What cannot be found out is refused.
        return [False] * len(positions)
    return [results[i].requires_grad for i in positions]


def watched(label: str, function: Callable[..., Any], *values: Any) -> Any:
    """Run a rule on `values`; where something leaves torch on the way, its derivative raises."""
    with Watch(values) as watch, within_level(label):
        made = function(*values)
    several = made if isinstance(made, (list, tuple)) else [made]
    lost = [watch.lost(item) for item in several]
    if not any(lost):
        return made
    refused = [
        item if name is None else refuse_lost(label, name, [item], values)[0]
        for item, name in zip(several, lost, strict=True)
    ]
    return refused if isinstance(made, (list, tuple)) else refused[0]


def refuse_lost(label: str, lost: str, made: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Connect a result of `values` to a refusal of the derivative that the function called `lost` has lost."""
    items = [item for value in values for item in (value if isinstance(value, (list, tuple)) else [value])]
    sources = [item for item in items if isinstance(item, Tensor)]
    why = Why(f"it leaves torch through {lost}", _DETACHED.hint)
    return [refuse_derivative(item, sources, label, why) if isinstance(item, Tensor) else item for item in made]


def _error(label: str, reason: str, hint: str) -> DerivativeError:
    return DerivativeError(
        f"cannot be differentiated again: {reason}",
        operator=label,
        expected="a derivative of first order",
        got="a derivative of the rule",
        hint=hint,
    )


class _Refuse(_torch.SingleLevelFunction):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, call: Any, label: str, reason: str, hint: str, value: Tensor, *sources: Tensor) -> Any:
        ctx.about = label, reason, hint
        return call(value, list(sources), label, reason, hint)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise _error(*ctx.about)


def _autograd(keyset: Any, value: Tensor, sources: list[Tensor], label: str, reason: str, hint: str) -> Tensor:
    if _torch.tangents_possible() and any(_torch.unpack_dual(source)[1] is not None for source in sources):
        raise _error(label, reason, hint)
    call = _torch.redispatch_below_autograd(_operator().torch_op, keyset)
    if torch.is_grad_enabled() and any(source.requires_grad for source in sources):
        with _torch.single_level():
            result: Tensor = _Refuse.apply(call, label, reason, hint, value, *sources)
            return result
    result = call(value, sources, label, reason, hint)
    return result


def _vmap(info: Any, in_dims: Any, value: Tensor, sources: list[Tensor], label: str, reason: str, hint: str) -> Any:
    if in_dims[0] is None:
        value = value.unsqueeze(0).expand(info.batch_size, *value.shape)
    else:
        value = value.movedim(in_dims[0], 0)
    return _operator()(value, sources, label, reason, hint), 0


def _copy(value: Tensor, sources: list[Tensor], label: str, reason: str, hint: str) -> Tensor:
    return value.clone(memory_format=torch.contiguous_format)


def _decompose(value: Tensor, sources: list[Tensor], label: str, reason: str, hint: str) -> Any:
    """Keep the refusal in a graph that may still be differentiated; a final one takes the value."""
    return _copy(value, sources, label, reason, hint) if _torch.tracing_final_graph() else NotImplemented


_SCHEMA = "(Tensor value, Tensor[] sources, str label, str reason, str hint) -> Tensor"
_lock = threading.Lock()
_registered: list[DispatcherOp] = []


def _operator() -> DispatcherOp:
    """The operator, registered when it is first needed: most programs never differentiate a rule."""
    with _lock:
        if not _registered:
            made = DispatcherOp("torchgraft::refuse", _SCHEMA)
            made.backend(_copy)
            made.fake(_copy)
            made.decomposition(_decompose)
            made.at_key("Autograd", _autograd, with_keyset=True)
            made.vmap(_vmap)
            _registered.append(made)
        return _registered[0]
