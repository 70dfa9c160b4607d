"""A Function that someone else wrote, as the forward and the backward of an operator.

The rule runs forward again to have the context that backward wants: compilers and transforms hand on tensors alone.
Run again while a graph is recorded, even intermediate results have their derivatives, which a bare Function loses.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._lower.watch import Watch
from .._rules.kinds import cotangent_names
from .._rules.rule import Rule
from .._spec.dtypes import is_inexact
from .._spec.signature import Signature
from ..errors import KernelError, TorchgraftError
from .call import Call
from .careful import Careful, Scope, outside
from .context import Recorder, explained, recorder_class, take_constants
from .dialect import Dialect
from .gradients import wrong_number
from .guard import guarded, node_inputs
from .nested import as_outputs, map_leaves, numbers_in, tensors_in


class Adopted:
    """A Function as kernel and rule of an operator.

    Args:
        dialect: of the Function.
        signature: of the operator.
        nondifferentiable: names of inputs without a derivative.

    Attributes:
        label: of its rule.
        inputs: names of those that have a derivative.
        needs: for each argument, whether it has one.
        scope: what the call at hand knows.
        new: makes a context that is no node.
    """

    def __init__(self, dialect: Dialect, signature: Signature, nondifferentiable: Sequence[str]) -> None:
        self.dialect = dialect
        self.signature = signature
        tensors = [p for _, p in signature.tensors if p.tensor.dtypes.differentiable]
        self.inputs = tuple(p.name for p in tensors if p.name not in nondifferentiable)
        self.needs = tuple(name in self.inputs for name in signature.names)
        self.label = f"{signature.name}.vjp[{','.join(self.inputs)}]"
        self.scope = Scope()
        self.new = recorder_class(dialect)
        self._state = vars(dialect.function()) if dialect.kind == "instance" and dialect.constructible else {}
        parameters = dialect.signature.parameters.values() if dialect.signature else ()
        self._keywords = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
        given = [p for p in parameters if p.default is p.empty and p.kind is not inspect.Parameter.KEYWORD_ONLY]
        self._least = len(given) if parameters else len(self.needs)

    # -- forward ------------------------------------------------------------------------------------------------

    def plain_forward(self) -> Callable[..., Any]:
        """`forward` with the values one by one, as fast as it can be."""
        if self.dialect.kind == "context" and not self._keywords:
            function = self.dialect.function  # Its forward is found anew each time: it may be replaced.
            return lambda ctx, *values: function.forward(ctx, *values)
        return lambda ctx, *values: self.forward(ctx, values)

    def forward(self, ctx: Any, values: Sequence[Any]) -> Any:
        """The Function's forward, and what sets up its context."""
        vars(ctx).update(self._state)
        count = len(values) - len(self._keywords)
        keywords = dict(zip(self._keywords, values[count:], strict=True))
        return self.dialect.run(ctx, values[:count], keywords)

    def careful(self, values: Sequence[Any], needs: Sequence[bool] | None) -> Careful:
        """A surrounding for a forward that is not the first, or will not be the last."""
        return Careful(self.dialect.name, list(self.signature.names), values, needs)

    def check_marks(self, ctx: Any) -> None:
        """Refuse what an operator does not do."""
        if ctx.dirty_tensors:
            raise KernelError(
                "changes its inputs in place, which an operator does not",
                operator=self.dialect.name,
                expected="an input that stays as it is",
                got="ctx.mark_dirty",
                hint="call the Function itself, or write to a copy in forward",
            )
        for tensor in ctx.non_differentiable:
            if is_inexact(tensor.dtype):
                raise KernelError(
                    "a floating output is marked as non-differentiable, of which its annotation knows nothing",
                    operator=self.dialect.name,
                    expected="an integer or bool output, or a differentiable one",
                    got=f"{tuple(tensor.shape)} {tensor.dtype}",
                )

    def _not_a_function(self) -> KernelError:
        return KernelError(
            "its forward gave another result the second time",
            operator=self.dialect.name,
            expected="a function of its arguments",
            got="hidden randomness or state",
            hint="draw outside and pass what was drawn: a mask, or a seed",
        )

    # -- backward -----------------------------------------------------------------------------------------------

    def rule(self) -> Rule:
        """The Function's backward as a rule, which reads all there is."""
        names, outputs = list(self.signature.names), [output.name for output in self.signature.outputs]
        reads = (*names, *outputs, *cotangent_names(self.signature).values())
        return Rule("vjp", self.inputs, self._from_the_start, reads, self.label, opaque=False, residual=False)

    def _from_the_start(self, *reads: Any) -> Any:
        count, outputs = len(self.signature.parameters), len(self.signature.outputs)
        values, given = reads[:count], reads[count : count + outputs]
        made = self.again(values, given, reads[count + outputs :], self.needs, self.scope.needs)
        return made[0] if len(made) == 1 else made

    def again(
        self,
        values: Sequence[Any],
        outputs: Sequence[Any],
        grads: Sequence[Any],
        needs: tuple[bool, ...],
        told: tuple[bool, ...] | None,
    ) -> tuple[Any, ...]:
        """Forward once more, and backward, such that the gradients can be differentiated.

        Args:
            values: the operator's arguments.
            outputs: the operator's outputs.
            grads: cotangents of the differentiable ones.
            needs: which arguments need a gradient.
            told: which ones the first forward was told to need one; None where that is not known.

        Returns:
            The gradients of the arguments that need one.
        """
        recorder = self.new(needs if told is None else told)
        call = Call([type(value) for value in values])
        with outside(self.scope):
            given = self._recompute(recorder, values, outputs, told)
        call.intermediates, call.given = given is None, given or ()
        inputs = [v for v, need in zip(values, needs, strict=True) if need and isinstance(v, Tensor)]

        def run() -> tuple[Any, ...]:
            return self.select(self.pull(recorder, self.spread(grads)), needs)

        if not torch.is_grad_enabled() and not _torch.tangents_possible():
            return run()
        return guarded(self.label, call, recorder, run, grads, lambda: inputs, once=self.dialect.once)

    def first(
        self,
        ctx: Any,
        grads: Sequence[Any],
        needs: tuple[bool, ...],
        inputs: Sequence[Tensor] | None = None,
    ) -> tuple[Any, ...]:
        """Backward with the context of the first forward, such that the gradients can be differentiated.

        Args:
            ctx: the context.
            grads: the cotangents.
            needs: which arguments need a gradient.
            inputs: the inputs, where the context keeps intermediate results whose derivatives are not known.
        """

        def run() -> tuple[Any, ...]:
            return self.select(self.pull(ctx, grads), needs)

        if not torch.is_grad_enabled():
            return run()
        call = Call([])
        call.intermediates = inputs is not None
        found = lambda: inputs or node_inputs(self.dialect, ctx, call)  # noqa: E731
        return guarded(self.label, call, ctx, run, grads, found, once=self.dialect.once)

    def pull(self, ctx: Any, grads: Sequence[Any]) -> Any:
        """Run the Function's backward."""
        try:
            return self.dialect.pull(ctx, grads)
        except RuntimeError as error:
            raise explained(self.dialect, error)  # noqa: B904 - It sets the cause itself, or is the error.

    def spread(self, grads: Sequence[Any]) -> list[Any]:
        """A cotangent for each output: None for those that have no derivative."""
        rest = iter(grads)
        return [next(rest) if output.type.dtypes.differentiable else None for output in self.signature.outputs]

    def select(self, result: Any, needs: Sequence[bool]) -> tuple[Any, ...]:
        """The gradients of the arguments that need one."""
        several = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        return tuple(grad for grad, need in zip(self.counted(several), needs, strict=True) if need)

    def counted(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        """One gradient for each argument; None for those that may be left out of a call, and of what backward returns.

        Raises:
            RuleError: there are fewer, or gradients of arguments that do not exist.
        """
        count = len(self.needs)
        if len(grads) < self._least or any(grad is not None for grad in grads[count:]):
            tensors = {name: p.is_tensor for name, p in self.signature.names.items()}
            raise wrong_number(self.dialect, tensors, grads)
        return (*grads, *(None,) * count)[:count]

    def _recompute(
        self, recorder: Recorder, values: Sequence[Any], outputs: Sequence[Any], told: tuple[bool, ...] | None
    ) -> Sequence[Any] | None:
        """Fill the context, and tell what it keeps; None where a derivative of that could be missed."""
        left: str | None = None
        if torch.is_grad_enabled():
            try:
                forgiven = lambda: vars(recorder).get("_graft_constants", ())  # noqa: E731
                # `Careful` comes first: `Watch` would take it for the caller of what it calls.
                with warnings.catch_warnings(), self.careful(values, told) as care, Watch(values, forgiven) as watch:
                    warnings.simplefilter("ignore")  # The first forward has said all, and was not recorded.
                    made = self.forward(recorder, values)
                care.refuse_draws(made)
                kept = list(tensors_in([*recorder.to_save, *vars(recorder).values()]))
                self._check_again(made, outputs)
                left = watch.left
                if left is None and not any(isinstance(value, np.ndarray) or watch.lost(value) for value in kept):
                    self._replace(recorder, made, outputs)
                    return list(filter(watch.has_seen, kept))
            except TorchgraftError:
                raise
            except RuntimeError:  # NumPy does not take what requires grad.
                pass
        recorder.__init__(recorder.needs_input_grad)  # type: ignore[misc] # Undo the attempt.
        detached, around = _detached(values)
        with torch.no_grad():
            try:
                with around, self.careful(detached, told) as care:
                    made = self.forward(recorder, detached)
            except RuntimeError as error:
                raise explained(self.dialect, error, "forward")  # noqa: B904 - It sets the cause itself, or is the error.
        care.refuse_draws(made)
        self._check_again(made, outputs)
        complete = self._replace(recorder, (*detached, *as_outputs(made)), (*values, *outputs))
        return [] if complete and not (left is not None and _keeps_numbers(recorder, values)) else None

    def _check_again(self, made: Any, outputs: Sequence[Any]) -> None:
        """Compare what the second forward made with what the first one did, where there are numbers to compare."""
        for new, old in zip(as_outputs(made), outputs, strict=True):
            if not isinstance(new, Tensor):
                continue
            one, two = _torch.plain_sample(new), _torch.plain_sample(old)
            if not _torch.holds_numbers(one) or not _torch.holds_numbers(two):
                return
            if one.shape == two.shape and not torch.allclose(one, two, rtol=1e-2, atol=1e-5, equal_nan=True):
                raise self._not_a_function()

    def _replace(self, recorder: Recorder, made: Any, given: Sequence[Any]) -> bool:
        """Put the tensors at hand in the places of those that forward has just made; whether no other one is kept."""
        constants = take_constants(recorder)
        pairs = list(zip(as_outputs(made), given, strict=False))
        complete = not any(isinstance(kept, np.ndarray) for kept in tensors_in(vars(recorder)))

        def find(tensor: Tensor) -> Any:
            nonlocal complete
            for new, old in pairs:
                if tensor is new:
                    return old
            complete &= not is_inexact(tensor.dtype) or any(tensor is constant for constant in constants)
            return tensor

        recorder.saved_tensors = map_leaves(Tensor, find, recorder.to_save)
        vars(recorder).update(map_leaves(Tensor, find, vars(recorder)))
        return complete


def _keeps_numbers(recorder: Recorder, values: Sequence[Any]) -> bool:
    """Return True if a context keeps floating numbers that are no arguments: they may come out of tensors."""
    kept = [value for name, value in vars(recorder).items() if not name.startswith("_graft")]
    return any(True for _ in numbers_in([value for value in kept if not any(value is given for given in values)]))


def _detached(values: Sequence[Any]) -> tuple[list[Any], contextlib.AbstractContextManager[Any]]:
    """The arguments without their derivatives, and what they are to be used in: below all levels, if that can be."""
    plain = [_torch.below_levels(value) if isinstance(value, Tensor) else value for value in values]
    stuck = any(one is None and value is not None for one, value in zip(plain, values, strict=True))
    if stuck or _torch.inside_level():
        return [v.detach() if isinstance(v, Tensor) else v for v in values], contextlib.nullcontext()
    return plain, _torch.without_levels()
