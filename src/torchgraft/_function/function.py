"""`Function`: the class of PyTorch's own documentation, hardened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._lower.watch import hand_on
from ..errors import ArgumentError, DeclarationError
from .context import Marks, recorder_class
from .dialect import Dialect, defines
from .functional import Carried, make_functional
from .node import Extras, Nodes
from .traced import make_traced
from .transforms import call


def _refuse_base(*args: Any, **kwargs: Any) -> Any:
    raise DeclarationError(
        "Function is a base class", expected="class F(tg.Function) with forward and backward", got="Function.apply"
    )


class _Stock:
    """Attributes that code finds on torch's base class: `F().forward(x)` saves, and `jvp = Function.jvp` is none.

    Not by inheritance: Dynamo takes every instance of torch's class for a context.
    """

    save_for_backward = torch.autograd.function.FunctionCtx.save_for_backward
    mark_dirty = torch.autograd.function.FunctionCtx.mark_dirty
    mark_non_differentiable = torch.autograd.function.FunctionCtx.mark_non_differentiable
    forward = staticmethod(torch.autograd.Function.forward)
    backward = staticmethod(torch.autograd.Function.backward)
    jvp = staticmethod(torch.autograd.Function.jvp)
    vmap = staticmethod(torch.autograd.Function.vmap)


class Function(_Stock):
    """A differentiable function written by hand, as PyTorch's note "Extending PyTorch" has it.

    Code written for `torch.autograd.Function` runs with the import changed, in every dialect: static methods with
    ``ctx``, ``forward`` beside ``setup_context``, and the instance methods of old, with ``self`` in the place of
    ``ctx``, called as ``F()(x)`` or ``F(constant)(x)``. What is better:

    - gradients of the wrong number, shape or dtype raise; so do inputs changed in place without ``ctx.mark_dirty``,
      and saved tensors, or gradients, that somebody changes;
    - a gradient that is detached from its inputs refuses to be differentiated again, instead of being taken for
      constant. ``ctx.mark_constant(tensor)`` says that one is, on purpose;
    - every dialect works under `torch.func`, and `vmap` loops where there is no rule for it;
    - tensors given by keyword get gradients.

    One thing is refused that torch allows: a gradient that has more axes than its argument, and another shape than the
    outputs. Autograd would sum it, whatever it is. Compiled code has the checks of gradients alone.

    Warns:
        TorchgraftWarning: once, of tensors kept as attributes of ``ctx``, of saved intermediate results, and of a
            gradient that is summed because forward broadcast its argument.

    Raises:
        RuleError: in backward: a gradient is not one of its argument, or backward changed what it was given.
        DerivativeError: a derivative is asked for that would be wrong, or what was saved has changed.
        UnsupportedError: a transform asks for more than the Function says.

    Example:
        >>> class Exp(tg.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         result = x.exp()
        ...         ctx.save_for_backward(result)
        ...         return result
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (result,) = ctx.saved_tensors
        ...         return grad * result
        >>> Exp.apply(torch.zeros(2))
        tensor([1., 1.])
    """

    _dialect: Dialect
    _apply: Callable[..., Any] = staticmethod(_refuse_base)
    _extras: Extras
    _nodes_with_extras: dict[bool, Nodes]
    _functional: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if issubclass(cls, Marks):  # It is a context: where methods take `self`, that is an instance of its Function.
            return
        if defines(cls, "vjp") and defines(cls, "backward"):
            raise DeclarationError(
                "has both a backward and a vjp", operator=cls.__name__, expected="one of them", got="both"
            )
        cls._dialect = Dialect(cls)
        cls._extras = Extras()
        cls._nodes_with_extras = {
            recording: Nodes(cls._dialect, cls._extras, recording=recording) for recording in (True, False)
        }
        cls._functional = make_functional(cls._dialect)
        cls._apply = staticmethod(_make_apply(cls))

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`, and remember `backward`.

        Returns:
            What `forward` returns: tensors with a derivative where an argument requires grad.

        Raises:
            ArgumentError: the arguments are not those of `forward`.
            KernelError: `forward` changed an input in place without a word.
        """
        return cls._apply(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` on a copy of this instance: each call has a state of its own."""
        return _apply(type(self), vars(self), args, kwargs)


def _make_apply(function: type[Function]) -> Callable[..., Any]:
    """The `_apply` of a class: a function of its own, which finds all it needs at hand."""
    dialect = function._dialect
    nodes, unrecorded = Nodes(dialect), Nodes(dialect, recording=False)
    is_grad_enabled = torch.is_grad_enabled
    traced = make_traced(dialect)
    is_dynamo_compiling = torch.compiler.is_dynamo_compiling
    functorch_active, forward_ad = _torch.functorch_active, _torch.forward_ad
    arity = dialect.arity if dialect.kind == "setup" else None
    instance, constructible = dialect.kind == "instance", dialect.constructible

    def apply(*args: Any, **kwargs: Any) -> Any:
        # This comes first: Dynamo traces the branch that it takes, and would go into all others.
        if is_dynamo_compiling():
            return traced(*args, **kwargs)
        if instance:
            return _apply(function, vars(function()) if constructible else {}, args, kwargs)
        if (
            kwargs
            or functorch_active()
            or (forward_ad._current_level >= 0 and _torch.any_tangent(args))
            or (arity is not None and arity != len(args))
            or not args
        ):
            return _apply(function, {}, args, kwargs)
        return (nodes if is_grad_enabled() else unrecorded)[len(args)](*args)

    return apply


@_torch.no_dynamo
def _apply(function: type[Function], state: dict[str, Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A call that is more than its operands, or under a transform."""
    dialect = function._dialect
    positional = len(args)
    if keywords or dialect.kind == "setup":
        args, keywords = dialect.bind(args, keywords)
    for name, value in state.items():
        if isinstance(value, Tensor) and value.requires_grad:
            raise _hidden_input(dialect, name)
    if _torch.functorch_active() or _torch.any_tangent(args):
        carried = Carried(args, state, keywords, positional)
        outputs = call(function._functional, (*args, carried))[: carried.count]
        hand_on(args, outputs)
        return outputs[0] if carried.single else outputs
    if not args:
        return dialect.run(recorder_class(dialect)(), args, keywords)
    extras = function._extras
    extras.state, extras.keywords, extras.positional = state, keywords, positional
    nodes = function._nodes_with_extras[torch.is_grad_enabled()]
    return nodes[len(args)](*map(_torch.unwrap_dead, args))


def _hidden_input(dialect: Dialect, name: str) -> ArgumentError:
    return ArgumentError(
        "a tensor that requires grad is an attribute of the instance, and would get no gradient",
        operator=dialect.name,
        argument=name,
        expected="an argument of the call",
        got=f"self.{name}",
        hint=f"wrong:  {dialect.name}({name})(x)\nright:  {dialect.name}()(x, {name})",
    )
