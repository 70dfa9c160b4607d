"""Checks of gradients that backward returned: one for each argument, with its shape and dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._spec.dtypes import is_inexact
from ..errors import RuleError
from .call import UNSUMMED, Call, warn_once
from .dialect import Dialect


def settle(dialect: Dialect, call: Call, result: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
    """The gradients as autograd takes them: one for each argument, None where there is none.

    Args:
        dialect: of the Function.
        call: the call.
        result: what backward returned.
        cotangents: what it was given.

    Raises:
        RuleError: their number is wrong, or the shape or dtype of one.
    """
    grads = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    expected = len(call.arguments)
    required = expected if call.positional is None else call.positional
    if len(grads) < required or any(grad is not None for grad in grads[expected:]):
        tensors = {dialect.argument(i): _is_tensor(known) for i, known in enumerate(call.arguments)}
        raise wrong_number(dialect, tensors, grads)
    grads = (grads + (None,) * expected)[:expected]
    for i, (known, grad) in enumerate(zip(call.arguments, grads, strict=True)):
        if grad is None:
            continue
        if not isinstance(grad, Tensor) or not _is_tensor(known):
            raise _not_a_gradient(dialect, call, i, grad)
        if type(known) is tuple:
            shape, dtype = known
            grad = _summed(dialect, i, _rounded(grad, shape, dtype, cotangents), shape, cotangents)
            grads = (*grads[:i], grad, *grads[i + 1 :])
        if type(known) is tuple and (grad.shape != known[0] or (grad.dtype is not known[1] and not call.autocast)):
            raise _wrong_kind(dialect, i, known, grad)
    return grads


def _rounded(grad: Tensor, shape: torch.Size, dtype: torch.dtype, cotangents: Sequence[Any]) -> Tensor:
    """A gradient as autograd would take it, where that loses nothing: of another dtype, or with axes of size 1.

    One that is narrower than its argument has lost digits, unless every cotangent came as narrow.
    """
    if grad.dtype is not dtype and grad.is_complex() == dtype.is_complex and is_inexact(grad.dtype):
        given = [c.dtype for c in cotangents if isinstance(c, Tensor)]
        if all(torch.promote_types(grad.dtype, d) is grad.dtype for d in given) or _is_wider(grad.dtype, dtype):
            grad = grad.to(dtype)
    if grad.shape != shape and [n for n in grad.shape if n != 1] == [n for n in shape if n != 1]:
        return grad.reshape(shape)
    return grad


def _is_wider(one: torch.dtype, other: torch.dtype) -> bool:
    return torch.promote_types(one, other) is one


def _summed(dialect: Dialect, position: int, grad: Tensor, shape: torch.Size, cotangents: Sequence[Any]) -> Tensor:
    """The gradient of an argument that forward broadcast to the shape of an output: summed, as autograd does it.

    A gradient of any other shape that autograd would sum is a mistake, and stays as it is.
    """
    if grad.shape == shape or not any(isinstance(c, Tensor) and c.shape == grad.shape for c in cotangents):
        return grad
    padded = (1,) * (grad.dim() - len(shape)) + tuple(shape)
    if any(size not in (1, full) for size, full in zip(padded, grad.shape, strict=True)):
        return grad
    name = dialect.argument(position)
    warn_once(dialect, UNSUMMED, argument=name, got=tuple(grad.shape), shape=tuple(shape))
    return grad.sum_to_size(shape)


def _is_tensor(known: Any) -> bool:
    return type(known) is tuple or issubclass(known, Tensor)


def wrong_number(dialect: Dialect, arguments: Mapping[str, bool], grads: Sequence[Any]) -> RuleError:
    """The error for too many or too few gradients.

    Args:
        dialect: of the Function.
        arguments: of forward, by their names: whether each is a tensor.
        grads: what backward returned.
    """
    returned = [f"grad_{name}" if is_tensor else "None" for name, is_tensor in arguments.items()]
    return RuleError(
        "backward returned the wrong number of gradients",
        operator=f"{dialect.name}.{dialect.reverse}",
        expected=f"{len(arguments)}, for {', '.join(arguments)}",
        got=f"{len(grads)}: {', '.join(_describe(grad) for grad in grads)}",
        hint=f"one for each argument of forward, None where there is none\nreturn {', '.join(returned)}",
    )


def _not_a_gradient(dialect: Dialect, call: Call, position: int, grad: Any) -> RuleError:
    is_tensor = _is_tensor(call.arguments[position])
    return RuleError(
        "backward returned something that is no gradient"
        if is_tensor
        else "backward returned a gradient for an argument that is no tensor",
        operator=f"{dialect.name}.{dialect.reverse}",
        argument=dialect.argument(position),
        expected="a tensor or None" if is_tensor else "None",
        got=_describe(grad),
        hint=_instead_of(grad) if is_tensor else "return None in its place",
    )


def _instead_of(grad: Any) -> str:
    if isinstance(grad, np.ndarray):
        return "return torch.from_numpy(array)"
    if isinstance(grad, (int, float, complex, np.number)):
        return "return torch.full_like(x, number), or number * grad"
    return "return a tensor, or None where there is no gradient"


def _wrong_kind(dialect: Dialect, position: int, known: tuple[Any, ...], grad: Tensor) -> RuleError:
    shape, dtype = known
    name = dialect.argument(position)
    if grad.shape != shape:
        problem = "backward returned a gradient of the wrong shape"
        hint = f"a gradient of more axes is not summed for you\nreturn grad_{name}.sum(0), or what undoes the broadcast"
    else:
        problem = "backward returned a gradient of the wrong dtype"
        hint = f"compute in the dtype of {name}: a cast of the result would keep the error of the narrower one"
    return RuleError(
        problem,
        operator=f"{dialect.name}.{dialect.reverse}",
        argument=name,
        expected=f"{tuple(shape)} {dtype}",
        got=f"{tuple(grad.shape)} {grad.dtype}",
        hint=hint,
    )


def _describe(value: Any) -> str:
    return f"{tuple(value.shape)} {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
