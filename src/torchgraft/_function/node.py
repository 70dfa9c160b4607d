"""The autograd node of a Function in eager code: forward and backward as they were written, and the checks of both.

The hot path. Its code is generated for each number of arguments, as `dataclasses` does it, and enters torch below the
Python `apply` of `torch.autograd.Function`: what that would cost (with ``setup_context`` 20 us) pays for the checks.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._generated import compile_source
from ..errors import RuleError
from .call import Call, check_attributes, check_dirty, check_output
from .context import explained, node_context_class, versions
from .dialect import Dialect, defines
from .gradients import settle
from .guard import guarded, node_inputs
from .nested import holds_tensors, may_hold_tensors

_TEMPLATE = """\
def forward(ctx, {args}):
    ({needs},) = ctx.needs_input_grad
    try:
        {versions}
    except RuntimeError:  # an inference tensor, which does not count
        {uncounted}
    {run}
    if type(output) is not Tensor:
        check_output(dialect, output)
    saved = ctx.to_save
    arguments = ({known},)
    if {changed}:
        check_dirty(dialect, ctx, ({args},), ({changes},))
    usual = not any_autocast(){usual}
    for value in ctx.__dict__.values():
        if may_hold_tensors[type(value)] and holds_tensors(value):
            usual = False
    if saved:
        if hooks_on_saved(True) is not None:  # whoever packs and unpacks them must not be asked twice
            usual = False
        for tensor in saved:
            if {unknown}:
                usual = False
    ctx._graft_call = arguments if usual else noted(dialect, ctx, arguments, ({args},), output{extra})
    return output

def apply(ctx, *grads):
    call = ctx._graft_call
    if type(call) is not tuple or is_grad_enabled() or len(grads) != 1 or grads[0] is None or in_dual_level():
        return pull_node(dialect, ctx, call, grads)
    (grad,) = grads
    try:
        version = grad._version
    except RuntimeError:  # an inference tensor
        return pull_node(dialect, ctx, call, grads)
    try:
        result = {backward}
    except RuntimeError as error:
        raise explained(dialect, error)
    try:
        ctx.saved_tensors  # torch compares them with what they were
    except RuntimeError as error:
        raise overwritten(label, "a saved tensor") from error
    ({known_again},) = call
    {unpacked}
    if not fine:
        result = settle(dialect, Call(call), result, grads)
    if grad._version != version:
        raise overwritten(label)
    return result
"""

_UNRECORDED = """\
def forward(ctx, {args}):
    {run}
    return output
"""

_KNOWN = "(a{i}.shape, a{i}.dtype) if n{i} else type(a{i})"
_FINE = (
    "(r{i} is None or "
    "(type(k{i}) is tuple and type(r{i}) is Tensor and r{i}.dtype is k{i}[1] and r{i}.shape == k{i}[0]))"
)


class Extras(threading.local):
    """Extras of the next call on this thread beside its operands: state of an instance, arguments by keyword.

    Operands of a node are its arguments one by one, as `ctx.needs_input_grad` numbers them.
    """

    state: Mapping[str, Any] = {}
    keywords: Mapping[str, Any] = {}
    positional: int | None = None

    def take(self) -> tuple[Mapping[str, Any], Mapping[str, Any], int | None]:
        """Hand them out, once: a call inside of forward has its own."""
        taken = self.state, self.keywords, self.positional
        vars(self).clear()
        return taken


class Nodes(dict[int, Callable[..., Any]]):
    """`apply` of a Function's nodes, by their number of arguments.

    Args:
        dialect: of the Function.
        extras: where its calls find what they get besides their operands, if they do.
        recording: grad mode is on, so that there will be something to check.
    """

    def __init__(self, dialect: Dialect, extras: Extras | None = None, *, recording: bool = True) -> None:
        self.dialect = dialect
        self.extras = extras
        self.recording = recording

    def __missing__(self, count: int) -> Callable[..., Any]:
        made = self[count] = self._make(count)
        return made

    def _make(self, count: int) -> Callable[..., Any]:
        dialect, function = self.dialect, self.dialect.function
        dialect.bind((None,) * count, {})  # It refuses another number of arguments than forward takes.
        names = compile_source(self._source(count), f"{dialect.name} node", self._namespace())
        body: dict[str, Any] = {
            "forward": staticmethod(_torch.no_dynamo(names["forward"])),
            "__module__": function.__module__,
        }
        for name in ("clear_saved_tensors_on_access", "symbolic"):
            if hasattr(function, name):
                body[name] = getattr(function, name)
        node: Any = type(dialect.name, (_torch.SingleLevelFunction,), body)
        pull = _torch.no_dynamo(names["apply"]) if self.recording else node._backward_cls.apply
        node.backward = staticmethod(pull)  # Compiled autograd calls it by this name.
        node._backward_cls = node_context_class(dialect, node._backward_cls, pull)
        apply: Callable[..., Any] = node.apply
        return apply

    def _source(self, count: int) -> str:
        def each(text: str, between: str = ", ") -> str:
            return between.join(text.format(i=i) for i in range(count))

        args = each("a{i}")
        unpacked = f"r0 = result\nfine = {each(_FINE)}"
        if count > 1:
            unpacked = f"""\
fine = type(result) is tuple and len(result) == {count}
if fine:
    ({each("r{i}")},) = result
    fine = {each(_FINE, " and ")}"""
        if not self.recording:
            return _UNRECORDED.format(args=args, run=self._run(args).replace("\n", "\n    "))
        return _TEMPLATE.format(
            args=args,
            needs=each("n{i}"),
            versions=each("v{i} = a{i}._version if n{i} else 0", "; "),
            uncounted=each("v{i} = None", "; "),
            usual="" if self.extras is None and not self._reads_once() else " and False",
            extra="" if self.extras is None else ", positional, state",
            run=self._run(args).replace("\n", "\n    "),
            known=each(_KNOWN),
            changed=each("(n{i} and v{i} is not None and a{i}._version != v{i})", " or "),
            changes=each("n{i} and v{i} is not None and a{i}._version != v{i}"),
            unknown=each("tensor is not a{i}", " and ") + " and tensor is not output and tensor is not None",
            backward=self._backward(),
            known_again=each("k{i}"),
            unpacked=unpacked.replace("\n", "\n    "),
        )

    def _reads_once(self) -> bool:
        return bool(getattr(self.dialect.function, "clear_saved_tensors_on_access", False))

    def _run(self, args: str) -> str:
        if self.extras is not None:
            return f"""\
state, keywords, positional = take_extras()
ctx.__dict__.update(state)
output = run(ctx, ({args},), keywords)"""
        if self.dialect.kind == "setup":
            return f"output = function.forward({args})\nfunction.setup_context(ctx, ({args},), output)"
        return f"output = function.forward(ctx, {args})"

    def _backward(self) -> str:
        """The call of what was written, found anew each time: it may be replaced."""
        direct = not self.dialect.boxed and defines(self.dialect.function, self.dialect.reverse)
        return f"function.{self.dialect.reverse}(ctx, grad)" if direct else "run_backward(ctx, (grad,))"

    def _namespace(self) -> dict[str, Any]:
        return {
            "Tensor": Tensor,
            "Call": Call,
            "dialect": self.dialect,
            "function": self.dialect.function,
            "run": self.dialect.run,
            "run_backward": self.dialect.pull,
            "take_extras": self.extras and self.extras.take,
            "is_grad_enabled": torch.is_grad_enabled,
            "in_dual_level": _torch.in_dual_level,
            "any_autocast": _torch.any_autocast,
            "hooks_on_saved": _torch.hooks_on_saved,
            "may_hold_tensors": may_hold_tensors,
            "holds_tensors": holds_tensors,
            "check_dirty": check_dirty,
            "check_output": check_output,
            "noted": _noted,
            "pull_node": pull_node,
            "settle": settle,
            "explained": explained,
            "overwritten": overwritten,
            "label": f"{self.dialect.name}.{self.dialect.reverse}",
        }


def _noted(
    dialect: Dialect,
    ctx: Any,
    arguments: Sequence[Any],
    args: Sequence[Any],
    output: Any,
    positional: int | None = None,
    state: Mapping[str, Any] = types.MappingProxyType({}),
) -> Call:
    """Note the facts of a call that is not as usual."""
    call = Call(arguments, positional)
    call.look(dialect, ctx, args, output, state)
    return call


def pull_node(dialect: Dialect, ctx: Any, call: Call | tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """`pull` for a node, which keeps a mere tuple of a call that is as usual."""
    noted = Call(call) if isinstance(call, tuple) else call
    # Its forward saw no tangents, so that only cotangents can carry them.
    moving = _torch.tangents_possible() and any(_torch.may_carry_tangent(g) for g in grads if g is not None)
    return pull(dialect, ctx, noted, grads, lambda: node_inputs(dialect, ctx, noted), moving=moving)


def pull(
    dialect: Dialect,
    ctx: Any,
    call: Call,
    grads: tuple[Any, ...],
    inputs: Callable[[], Sequence[Tensor]],
    *,
    moving: bool,
) -> tuple[Any, ...]:
    """The gradients, checked; while a graph is recorded, connected to what they depend on, or to a refusal.

    Args:
        dialect: of the Function.
        ctx: the context.
        call: the call of which it is.
        grads: the cotangents.
        inputs: the inputs that need a gradient.
        moving: whether something that it reads may have a tangent.
    """
    label = f"{dialect.name}.{dialect.reverse}"

    def run() -> tuple[Any, ...]:
        before = versions(grads)
        check_attributes(dialect, call.attributes)
        try:
            result = dialect.pull(ctx, grads)
        except RuntimeError as error:
            raise explained(dialect, error)  # noqa: B904 - It sets the cause itself, or is the error.
        result = settle(dialect, call, result, grads)
        if versions(grads) != before:
            raise overwritten(label)
        return result

    if not torch.is_grad_enabled() and not moving:
        return run()
    return guarded(label, call, ctx, run, grads, inputs, once=dialect.once)


def overwritten(label: str, what: str = "the gradient that it was given") -> RuleError:
    """The error of a backward that changes what it reads."""
    return RuleError(
        f"backward changed {what} in place, which others read too",
        operator=label,
        expected="new tensors",
        got="an operation in place",
        hint="change a copy: x = x.clone()",
    )
