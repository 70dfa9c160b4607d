"""`adopt`: an operator of a Function that someone else wrote.

The operator's kernel is the Function's forward, and its rule runs forward again to have the context that backward
wants: compilers and transforms hand on tensors alone. Run again while a graph is recorded, even intermediate results
have their derivatives, which a bare Function loses. In eager code a node of its own keeps the first context instead.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._declare import Declare, make_op
from .._errors import DeclarationError, KernelError, TorchgraftError
from .._lower.watch import Watch
from .._op import Op
from .._rules.kinds import cotangent_names
from .._rules.rule import Rule
from .._spec.dtypes import is_inexact
from .._spec.signature import Signature
from .adopted_kernel import AdoptedKernel, Careful, Scope, call_scope, node_scope, outside
from .adopted_node import AdoptedNode
from .call import Call
from .context import Recorder, explained, recorder_class, take_constants
from .dialect import Dialect, defines
from .function import Function
from .guard import guarded, node_inputs
from .nested import as_outputs, map_leaves, numbers_in, tensors_in

F = TypeVar("F", bound=Callable[..., Any])


def adopt(
    function: type[Any],
    /,
    *,
    nondifferentiable: Sequence[str] = (),
    batch: Literal["loop"] | None = None,
    namespace: str | None = None,
    name: str | None = None,
    autocast: torch.dtype | None = None,
) -> Declare:
    """Make an operator of a Function: of `torch.autograd.Function` or of `torchgraft.Function`, in any dialect.

    The stub below the decorator has the parameters of the Function's forward, without the context, and says their
    shapes and dtypes; its body is not run. The operator works where a bare Function does not go: under `torch.func`
    and `vmap`, in forward mode, in exported programs; second derivatives are right, or refused.

    Args:
        function: the class.
        nondifferentiable: tensor inputs for which backward returns None.
        batch: as in `torchgraft.op`, and so are the following.
        namespace: of the operator in `torch.ops`.
        name: of the operator.
        autocast: dtype to which floating inputs are cast under autocast.

    Returns:
        A decorator that makes the `Op`.

    Raises:
        DeclarationError: it is not a Function, has no backward, or the stub has other parameters than its forward.

    Example:
        >>> @tg.adopt(TheirExp)
        ... def their_exp(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...
        >>> torch.func.hessian(their_exp)(torch.tensor(0.0))
        tensor(1.)
    """
    if not inspect.isclass(function) or not issubclass(function, (torch.autograd.Function, Function)):
        raise DeclarationError(
            "only a Function can be adopted",
            expected="a subclass of torch.autograd.Function or torchgraft.Function",
            got=repr(function),
            hint="for a plain function of tensors: @tg.op",
        )
    dialect = Dialect(function)
    if not defines(function, dialect.reverse):
        raise DeclarationError(
            "has no backward", operator=dialect.name, expected="def backward(ctx, *grads)", got="forward alone"
        )

    def decorate(stub: Callable[..., Any]) -> Any:
        adopted = Adopted(dialect, stub)
        made = make_op(stub, batch, namespace, name, autocast, frames=2)
        adopted.attach(made, nondifferentiable)
        return made

    return decorate


class Adopted:
    """A Function as kernel and rule of an operator.

    Attributes:
        dialect: of the Function.
        scope: what the call at hand knows.
        new: makes a context that is no node.
    """

    signature: Signature

    def __init__(self, dialect: Dialect, stub: Callable[..., Any]) -> None:
        self.dialect = dialect
        self.scope = Scope()
        self.new = recorder_class(dialect)
        self._state = vars(dialect.function()) if dialect.kind == "instance" and dialect.constructible else {}
        parameters = dialect.signature.parameters.values() if dialect.signature else ()
        self._keywords = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
        if inspect.isfunction(stub):
            _check_parameters(dialect, stub)

    def attach(self, op: Op[..., Any], nondifferentiable: Sequence[str]) -> None:
        """Add the rule, and the node of eager code."""
        self.signature = op._record.signature
        for _, parameter in self.signature.tensors:
            if parameter.many:
                raise DeclarationError(
                    "a Function gives no gradients to the tensors of a list",
                    operator=self.signature.name,
                    argument=parameter.name,
                    expected="one parameter for each tensor",
                    got="list[Tensor]",
                )
        record = op._record
        record.kernels[None] = AdoptedKernel(self, record.function)
        record.call_scope = functools.partial(call_scope, self)
        record.node_scope = functools.partial(node_scope, self)
        record.changed()
        op.nondifferentiable(*nondifferentiable)
        inputs = [
            p.name
            for _, p in self.signature.tensors
            if p.tensor.dtypes.differentiable and p.name not in nondifferentiable
        ]
        if not inputs:
            return
        names = [p.name for p in self.signature.parameters]
        reads = (*names, *(o.name for o in self.signature.outputs), *cotangent_names(self.signature).values())
        label = f"{self.signature.name}.vjp[{','.join(inputs)}]"
        self.needs = tuple(name in inputs for name in names)
        rule = Rule("vjp", tuple(inputs), self._rule(label), reads, label, opaque=False, residual=False)
        record.add_rule(rule)
        record.eager_node = lambda layout, mask: AdoptedNode(self, label, layout, mask).make()

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

    def _rule(self, label: str) -> Callable[..., Any]:
        count, outputs = len(self.signature.parameters), len(self.signature.outputs)

        def rule(*reads: Any) -> Any:
            values, given = reads[:count], reads[count : count + outputs]
            made = self.again(label, values, given, reads[count + outputs :], self.needs, self.scope.needs)
            return made[0] if len(made) == 1 else made

        return rule

    def again(
        self,
        label: str,
        values: Sequence[Any],
        outputs: Sequence[Any],
        grads: Sequence[Any],
        needs: tuple[bool, ...],
        told: tuple[bool, ...] | None,
    ) -> tuple[Any, ...]:
        """Forward once more, and backward, such that the gradients can be differentiated.

        Args:
            label: of the rule.
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
        return guarded(label, call, recorder, run, grads, lambda: inputs, once=self.dialect.once)

    def first(
        self,
        label: str,
        ctx: Any,
        grads: Sequence[Any],
        needs: tuple[bool, ...],
        inputs: Sequence[Tensor] | None = None,
    ) -> tuple[Any, ...]:
        """Backward with the context of the first forward, such that the gradients can be differentiated.

        Args:
            label: of the rule.
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
        return guarded(label, call, ctx, run, grads, found, once=self.dialect.once)

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
        padded = several + (None,) * (len(needs) - len(several))
        return tuple(grad for grad, need in zip(padded, needs, strict=False) if need)

    def _recompute(
        self, recorder: Recorder, values: Sequence[Any], outputs: Sequence[Any], told: tuple[bool, ...] | None
    ) -> Sequence[Any] | None:
        """Fill the context, and tell what it keeps; None where a derivative of that could be missed."""
        left: str | None = None
        if torch.is_grad_enabled():
            try:
                forgiven = lambda: vars(recorder).get("_graft_constants", ())  # noqa: E731
                # `Careful` comes first: `Watch` would take it for the caller of what it calls.
                with warnings.catch_warnings(), Careful(self, values, told) as care, Watch(values, forgiven) as watch:
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
                with around, Careful(self, detached, told) as care:
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


def _check_parameters(dialect: Dialect, stub: Callable[..., Any]) -> None:
    """Refuse a stub whose parameters are not those of forward."""
    if dialect.signature is None or dialect.arity is None:
        return
    names, wanted = list(inspect.signature(stub).parameters), list(dialect.signature.parameters)
    if names != wanted:
        raise DeclarationError(
            f"the stub has other parameters than {dialect.name}.forward",
            operator=stub.__name__,
            expected=", ".join(wanted),
            got=", ".join(names),
            hint=f"def {stub.__name__}({', '.join(f'{n}: ...' for n in wanted)}) -> ...: ...",
        )
