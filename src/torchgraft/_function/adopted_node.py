"""The node of an adopted Function in eager code: one forward, whose context - the node itself - is kept for backward.

Generated for one set of present inputs and of inputs that need a gradient, as the nodes of other operators are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._generated import compile_source
from .._lower.node import Recorded
from .._rules.results import settle_gradient
from .._spec.dtypes import is_inexact
from .._spec.plan import LeafCounts
from .adopted import Adopted
from .call import check_attributes, tensor_attributes
from .careful import Redrawn
from .context import NodeContext, explained, node_context_class, take_constants, versions
from .nested import holds_results, is_number, may_hold_tensors, numbers_in, tensors_in
from .node import overwritten


class MoreContext(NodeContext):
    """The context of an adopted Function which keeps more than the Function saved.

    Attributes:
        _graft_more: the number of tensors that are kept besides.
    """

    _graft_more: int

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors of `save_for_backward`."""
        return read_saved(self)[: -self._graft_more]


read_saved = _torch.saved_tensors

_TEMPLATE = """\
def forward(ctx, call, {leaves}):
    scope.ctx = ctx
    try:
        {outputs} = call.run({arguments})
    finally:
        scope.ctx = None
    usual = True
    for value in ctx.__dict__.values():
        if may_hold_tensors[type(value)] and holds_results(value):
            usual = False
        elif is_number[type(value)] and not any(value is scalar for scalar in call.scalars):
            usual = False  # An equal one may come out of a tensor all the same.
    for tensor in ctx.to_save or ():
        if {unknown}:
            usual = False
    if not usual:
        keep_more(ctx, ({leaves},), ({outputs},), call.scalars, more)
    ctx._graft_call = call
    return {outputs}

def backward(ctx, *grads):
    if any_autocast():
        with autocast_off():
            return backward(ctx, *grads)
    if is_grad_enabled() or len(grads) != 1 or ctx._graft_attributes:
        return pull(ctx, grads)
    (grad,) = grads
    if is_legacy_batched(grad):
        return pull(ctx, grads)
    version = grad._version
    try:
        result = written.{reverse}(ctx, {grad})
    except RuntimeError as error:
        raise explained(dialect, error)
    if type(result) is not tuple:
        result = (result,)
    if len(result) != {count}:
        result = counted(result)
    leaves = ctx._graft_call.plan.leaves
    {settle}
    if grad._version != version:
        raise overwritten(label)
    return None, {results}
"""

_SETTLE = """\
d{i} = result[{position}]
if type(d{i}) is not Tensor or d{i}.shape != leaves[{i}].shape or d{i}.dtype is not leaves[{i}].dtype:
    d{i} = settle(label, leaves[{i}], d{i})"""


class AdoptedNode:
    """Makes the `Function` subclass of one set of present inputs and mask.

    Args:
        adopted: the Function.
        counts: the tensors of each tensor parameter.
        mask: which of the tensors that are there need a gradient.
    """

    def __init__(self, adopted: Adopted, counts: LeafCounts, mask: tuple[bool, ...]) -> None:
        self.adopted = adopted
        self.mask = mask
        self.sources: list[str] = []  # One entry for each argument, as forward writes it.
        self.positions: list[int] = []  # One entry for each tensor among the arguments.
        present = iter(counts)
        scalar = 0
        for position, parameter in enumerate(adopted.signature.parameters):
            if not parameter.is_tensor:
                self.sources.append(f"call.scalars[{scalar}]")
                scalar += 1
            elif next(present) is None:
                self.sources.append("None")
            else:
                self.sources.append(f"t{len(self.positions)}")
                self.positions.append(position)
        self.needs = tuple(
            position in self.positions and mask[self.positions.index(position)] for position in range(len(self.sources))
        )

    def make(self) -> type[Any] | None:
        """The class; None where an input that needs a gradient has no rule, which the common node says in words."""
        adopted = self.adopted
        if any(need and not ruled for need, ruled in zip(self.needs, adopted.needs, strict=True)):
            return None
        namespace: dict[str, Any] = {
            "Tensor": Tensor,
            "scope": adopted.scope,
            "may_hold_tensors": may_hold_tensors,
            "is_number": is_number,
            "holds_results": holds_results,
            "keep_more": _keep_more,
            "any_autocast": _torch.any_autocast,
            "autocast_off": _torch.autocast_off,
            "is_grad_enabled": torch.is_grad_enabled,
            "is_legacy_batched": _torch.is_legacy_batched,
            "pull": self._pull,
            "written": adopted.dialect.function,
            "dialect": adopted.dialect,
            "explained": explained,
            "counted": adopted.counted,
            "settle": settle_gradient,
            "overwritten": overwritten,
            "label": self.adopted.label,
        }
        names = compile_source(self._source(), f"{adopted.signature.name} node", namespace)
        body = {"forward": staticmethod(names["forward"])}
        node: Any = type(adopted.signature.name, (_torch.SingleLevelFunction,), body)
        context = node_context_class(adopted.dialect, node._backward_cls, _torch.no_dynamo(names["backward"]))
        context.needs_input_grad = self.needs
        node._backward_cls = context
        namespace["more"] = type(context.__name__, (MoreContext, context), {})
        made: type[Any] = node
        return made

    def _source(self) -> str:
        leaves = [f"t{i}" for i in range(len(self.mask))]
        outputs = [f"o{i}" for i in range(len(self.adopted.signature.outputs))]
        wanted = [i for i, need in enumerate(self.mask) if need]
        settle = "\n".join(_SETTLE.format(i=i, position=self.positions[i]) for i in wanted)
        return _TEMPLATE.format(
            leaves=", ".join(leaves),
            arguments=", ".join(self.sources),
            unknown=" and ".join(f"tensor is not {name}" for name in (*leaves, *outputs, "None")),
            outputs=", ".join(outputs),
            reverse=self.adopted.dialect.reverse,
            grad="[grad]" if self.adopted.dialect.boxed else "grad",
            count=len(self.sources),
            settle=settle.replace("\n", "\n    "),
            results=", ".join(f"d{i}" if need else "None" for i, need in enumerate(self.mask)),
        )

    def _pull(self, ctx: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Backward in every case but the most frequent one."""
        if any(grad is not None and _torch.is_legacy_batched(grad) for grad in grads):
            return _torch.map_legacy(lambda *grads: self._pull(ctx, grads), grads)
        adopted = self.adopted
        check_attributes(adopted.dialect, ctx._graft_attributes)
        recorded: Recorded = ctx._graft_call
        before = versions(grads)
        if isinstance(ctx, MoreContext) and (torch.is_grad_enabled() or _torch.in_dual_level()):
            made = self._again(ctx, grads, recorded.scalars)
        else:
            made = adopted.first(ctx, grads, self.needs)
        if versions(grads) != before:
            raise overwritten(self.adopted.label)
        results: list[Tensor | None] = [None] * len(self.mask)
        wanted = [i for i, need in enumerate(self.mask) if need]
        for i, grad in zip(wanted, made, strict=True):
            results[i] = settle_gradient(self.adopted.label, recorded.plan.leaves[i], grad)
        return (None, *results)

    def _again(self, ctx: Any, grads: tuple[Any, ...], scalars: Sequence[Any]) -> tuple[Any, ...]:
        """Backward after another forward, through which the derivatives of intermediate results are known."""
        kept = read_saved(ctx)[-ctx._graft_more :]
        leaves, outputs = kept[: len(self.mask)], kept[len(self.mask) :]
        try:
            return self.adopted.again(self._values(leaves, scalars), outputs, grads, self.needs, told=self.needs)
        except Redrawn:  # The draws of the first forward count.
            inputs = [leaf for leaf, need in zip(leaves, self.mask, strict=True) if need and leaf is not None]
            return self.adopted.first(ctx, grads, self.needs, inputs)

    def _values(self, leaves: Sequence[Any], scalars: Sequence[Any]) -> list[Any]:
        """All arguments in their order."""
        tensors, others = iter(leaves), iter(scalars)
        return [
            next(tensors) if source[0] == "t" else None if source == "None" else next(others) for source in self.sources
        ]


def _keep_more(
    ctx: Any, leaves: Sequence[Tensor], outputs: Sequence[Tensor], scalars: Sequence[Any], more: type[MoreContext]
) -> None:
    """Keep inputs and outputs where there are intermediate results, whose derivatives need forward once more."""
    known = (*leaves, *outputs, *take_constants(ctx))
    attributes = tensor_attributes(ctx)
    if attributes:
        ctx._graft_attributes = attributes
    kept = [value for value in vars(ctx).values() if not any(value is argument for argument in scalars)]
    if any(_is_result(value, known) for value in tensors_in([*(ctx.to_save or ()), *kept])) or any(
        True for _ in numbers_in(kept)
    ):
        ctx.save_for_backward(*(ctx.to_save or ()), *leaves, *outputs)
        ctx._graft_more = len(leaves) + len(outputs)
        ctx.__class__ = more  # Other nodes keep their class: a property of our own costs 0.3 us.


def _is_result(value: Tensor | np.ndarray[Any, Any], known: Sequence[Any]) -> bool:
    if isinstance(value, Tensor):
        return is_inexact(value.dtype) and not any(value is other for other in known)
    return value.dtype.kind in "fc"
