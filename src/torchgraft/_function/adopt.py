"""`adopt`: an operator of a Function that someone else wrote.

The operator's kernel is the Function's forward, and its rule is its backward (`Adopted`). In eager code a node of its
own keeps the context of the first forward, and nothing is run again.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from .._declare import Declare, make_op
from .._op import Op
from ..errors import DeclarationError
from .adopted import Adopted
from .adopted_kernel import AdoptedKernel, call_scope, node_scope
from .adopted_node import AdoptedNode
from .dialect import Dialect, defines
from .function import Function


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

    def decorate(stub: Callable[..., Any], *others: Any) -> Any:
        if others or isinstance(stub, torch.Tensor):
            raise DeclarationError(
                "adopt makes a decorator, which was called as if it were the operator", operator=dialect.name,
                expected="a function whose annotations say what the Function takes", got=f"{len(others) + 1} arguments",
                hint=f"@tg.adopt({dialect.name})\ndef f(x: Float[Tensor, \"...\"]) -> Float[Tensor, \"...\"]: ...",
            )  # fmt: skip
        if inspect.isfunction(stub):
            _check_parameters(dialect, stub)
        made = make_op(stub, batch, namespace, name, autocast, frames=2)
        _attach(made, dialect, nondifferentiable)
        return made

    return decorate


def _attach(op: Op[..., Any], dialect: Dialect, nondifferentiable: Sequence[str]) -> None:
    """Give the operator the Function's forward and backward, and the node of eager code."""
    record = op._record
    for _, parameter in record.signature.tensors:
        if parameter.many:
            raise DeclarationError(
                "a Function gives no gradients to the tensors of a list",
                operator=record.name,
                argument=parameter.name,
                expected="one parameter for each tensor",
                got="list[Tensor]",
            )
    adopted = Adopted(dialect, record.signature, nondifferentiable)
    record.call_scope = functools.partial(call_scope, adopted)
    record.node_scope = functools.partial(node_scope, adopted)
    op._declare(lambda record: record.add_kernel(None, AdoptedKernel(adopted, record.function)))
    op.nondifferentiable(*nondifferentiable)
    if adopted.inputs:
        record.eager_node = lambda counts, mask: AdoptedNode(adopted, counts, mask).make()
        op._declare(lambda record: record.add_rule(adopted.rule()))


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
