"""The kernel of an adopted Function: its forward, which finds at each call what the bare Function would find.

*Directly*, in eager code: with the arguments themselves, and with the node that calls it as context, or one that is
thrown away. *Carefully*, through the dispatcher: there tensors do not say whether somebody differentiates them, and
forward will be run again where a derivative is asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from .. import _torch
from .._captures import captured_with_grad
from .._kernels.kernel import Kernel, TorchKernel
from .._kernels.results import refuse_captured
from .._spec.plan import LeafCounts, Plan
from .adopted import Adopted
from .asked import has_derivative
from .careful import CAREFUL, outside, within


class AdoptedKernel(TorchKernel):
    """The forward of an adopted Function."""

    def __init__(self, adopted: Adopted, function: Callable[..., Any]) -> None:
        super().__init__(adopted.signature, function)
        self.adopted = adopted
        self.scope = adopted.scope
        self._needs = _needs_of(adopted)
        self._positional = self.call = self._make_call()
        self.probe = None  # A forward that draws is refused when it would run again.

    def run(
        self, values: Sequence[Any], plan: Plan, *, may_loop: bool = True, new: bool = False, recorded: bool = False
    ) -> list[Tensor]:
        """All outputs, for the dispatcher."""
        with within(self.scope, ctx=self.scope.ctx or CAREFUL):
            return super().run(values, plan, may_loop=may_loop, new=new, recorded=recorded)

    def run_probing(self, values: Sequence[Any], plan: Plan) -> list[Tensor]:
        """All outputs, for eager code that meets such arguments for the first time."""
        captured = captured_with_grad(self.adopted.dialect.function.forward)
        if captured is not None:
            raise refuse_captured(self.signature.name, captured)
        return Kernel.run(self, values, plan)

    def call_planned(self, values: Sequence[Any], plan: Plan, *, may_loop: bool = True) -> Any:
        """Forward; over the plan's batch axes it sees samples, which say nothing of the whole."""
        if not plan.batch or self.scope.ctx is CAREFUL:
            return super().call_planned(values, plan, may_loop=may_loop)
        with within(self.scope, ctx=CAREFUL, needs=self._needs(*values), transformed=False):
            return super().call_planned(values, plan, may_loop=may_loop)

    def _make_call(self) -> Callable[..., Any]:
        scope, new, needs_of = self.scope, self.adopted.new, self._needs
        forward, check_marks = self.adopted.plain_forward(), self.adopted.check_marks
        careful = self._carefully

        def call(*values: Any) -> Any:
            ctx = scope.ctx
            if ctx is None:
                ctx = new(needs_of(*values))
            elif ctx is CAREFUL:
                return careful(values)
            else:
                scope.ctx = None  # The forward may call the same operator.
            output = forward(ctx, *values)
            if ctx.dirty_tensors or ctx.non_differentiable:
                check_marks(ctx)
            return output

        return call

    def _carefully(self, values: Sequence[Any]) -> Any:
        """Forward, which must not ask what is not known, nor draw what would be drawn again."""
        needs, transformed = self.scope.needs, self.scope.transformed
        ctx = self.adopted.new(self._needs(*values) if needs is None else needs)
        with outside(self.scope), self.adopted.careful(values, needs) as care:
            output = self.adopted.forward(ctx, values)
        if ctx.dirty_tensors or ctx.non_differentiable:
            self.adopted.check_marks(ctx)
        if transformed or needs is None:
            care.refuse_draws(output)
        return output


def _needs_of(adopted: Adopted) -> Callable[..., tuple[bool, ...]]:
    """List which arguments require grad, as ``ctx.needs_input_grad`` of a bare Function, whatever the grad mode."""
    tensors = [i for i, _ in adopted.signature.tensors]
    count = len(adopted.signature.parameters)
    names = [f"a{i}" for i in range(count)]
    asked = [f"{n} is not None and {n}.requires_grad" if i in tensors else "False" for i, n in enumerate(names)]
    made: Callable[..., tuple[bool, ...]] = eval(f"lambda {', '.join(names)}: ({', '.join(asked)},)", {})
    return made


def call_scope(adopted: Adopted, values: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
    """The scope of a call through the dispatcher: the outermost one knows who is differentiated, at all levels."""
    if adopted.scope.needs is not None:
        return contextlib.nullcontext()
    transformed = _torch.functorch_active() or _torch.dispatch_modes() > 0 or _torch.in_dual_level()
    return within(adopted.scope, needs=tuple(map(has_derivative, values)), transformed=transformed)


def node_scope(
    adopted: Adopted,
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    counts: LeafCounts,
    mask: Sequence[bool],
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The methods of a node whose backward knows what its forward knew.

    Args:
        adopted: the Function.
        forward: the node's.
        backward: the node's.
        counts: the tensors of each tensor parameter.
        mask: which of the tensors that are there need a gradient.
    """
    present = [i for (i, _), count in zip(adopted.signature.tensors, counts, strict=True) if count is not None]
    needed = {i for i, need in zip(present, mask, strict=True) if need}
    own = tuple(i in needed for i in range(len(adopted.signature.parameters)))

    def remembering(ctx: Any, *operands: Any) -> Any:
        known = adopted.scope.needs
        ctx.graft_needs = own if known is None and not _torch.functorch_active() else known
        return forward(ctx, *operands)

    def remembered(ctx: Any, *grads: Any) -> Any:
        with within(adopted.scope, needs=ctx.graft_needs):
            return backward(ctx, *grads)

    return remembering, remembered
