"""Checks of a kernel's results against its plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import _torch
from .._randomness import draw_words
from .._spec.axes import Shape
from .._spec.dtypes import name_of
from .._spec.outputs import flattened, leaf_names, spread
from .._spec.plan import Plan
from .._spec.shape_rule import fits, in_words
from .._spec.signature import Output, Signature
from .._spec.workspace import Native
from ..errors import KernelError


def as_sequence(signature: Signature, result: Any) -> Sequence[Any]:
    """The outputs one by one, a list flattened; a wrong number of them raises."""
    if signature.returns_list:
        return _flat(signature, [result] if signature.alone else result)
    if signature.alone:
        return (result,)
    _check_number(signature, result)
    outputs: Sequence[Any] = result
    return outputs


def _check_number(signature: Signature, result: Any) -> None:
    if not isinstance(result, (tuple, list)) or len(result) != len(signature.outputs):
        count = len(result) if isinstance(result, (tuple, list)) else f"one {type(result).__name__}"
        raise KernelError(
            "the kernel returned the wrong number of outputs",
            operator=signature.name,
            expected=f"{len(signature.outputs)}: {', '.join(output.name for output in signature.outputs)}",
            got=count,
        )


def _flat(signature: Signature, groups: Any) -> list[Any]:
    _check_number(signature, groups)
    for output, group in zip(signature.outputs, groups, strict=True):
        if output.many and not isinstance(group, (list, tuple)):
            array = "np.ndarray" if output.type.numpy else "Tensor"
            raise KernelError(
                f"the kernel returned {type(group).__name__} for a list of tensors",
                operator=signature.name,
                argument=output.name,
                expected=str(output),
                got=type(group).__name__,
                hint=f"return a list, such as [first, second]; list(x) takes one {array} apart",
            )
    return flattened(signature.outputs, groups)


_RETURNED: dict[type, str] = {
    type(None): "return the result, or, where the body is in C, give @tg.op(kernel=tg.c(...))",
    Native: "the body of a stub is in C: give @tg.op(kernel=tg.c(...))",
    np.ndarray: "annotate the parameters with np.ndarray in the place of Tensor, or return torch.from_numpy(array)",
    tuple: "annotate several outputs as tuple[...], or return the tensor alone",
}
"""The next step for what is no tensor."""


def settle(signature: Signature, plan: Plan, result: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs as they go to PyTorch: of the planned shape and dtype, contiguous, sharing memory with nothing.

    Raises:
        KernelError: an output has another shape or dtype than its annotation says, or comes from a captured tensor.
    """
    outputs = as_sequence(signature, result)
    if not plan.open and len(outputs) != len(plan.outputs):
        raise _other_length(signature, len(plan.outputs), len(outputs), "than the shape rule says")
    return _settle(signature.outputs, plan, signature, outputs, plan.expected(signature.outputs, len(outputs)), inputs)


def settle_returned(signature: Signature, plan: Plan, results: Sequence[Any], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Settle what a function which writes returns, as `settle` does."""
    return _settle(signature.returned, plan, signature, results, plan.outputs[len(signature.written) :], inputs)


def _settle(
    owners: Sequence[Output],
    plan: Plan,
    signature: Signature,
    results: Sequence[Any],
    expected: Sequence[tuple[Shape | None, torch.dtype]],
    inputs: Sequence[Tensor],
) -> list[Tensor]:
    settled: list[Tensor] = []
    names, outputs = leaf_names(owners, len(results)), spread(owners, len(results))
    _check_tensors(signature, outputs, names, results)
    shapes = [shape for shape, _ in expected]
    if plan.late is not None:
        shapes = list(plan.late.read([tuple(value.shape) for value in results]))
    for output, name, value, shape, (_, dtype) in zip(outputs, names, results, shapes, expected, strict=True):
        if shape is not None and tuple(value.shape) != tuple(shape):
            raise KernelError(
                f"the kernel returned another shape than {_declared(signature, output)[0]}",
                operator=signature.name,
                argument=name,
                expected=f"{tuple(shape)}, from {_declared(signature, output)[1]}",
                got=str(tuple(value.shape)),
            )
        if shape is None and output.many and plan.items is not None and not fits(value.shape, plan.items):
            raise KernelError(
                f"the kernel returned another shape than {_declared(signature, output)[0]}",
                operator=signature.name,
                argument=name,
                expected=f"{in_words(plan.items)}, from {_declared(signature, output)[1]}",
                got=str(tuple(value.shape)),
            )
        if value.dtype is not dtype:
            raise KernelError(
                "the kernel returned another dtype than its annotation says",
                operator=signature.name,
                argument=name,
                expected=f"{name_of(dtype)}, from '{output.type}'",
                got=name_of(value.dtype),
                hint=f"return result.{'astype' if output.type.numpy else 'to'}(...) of the inputs' dtype",
            )
        if value.requires_grad and torch.is_grad_enabled():
            raise _captured(signature.name, name)
        settled.append(_own(value, [*inputs, *settled]))
    return settled


def _check_tensors(
    signature: Signature, outputs: Sequence[Output], names: Sequence[str], results: Sequence[Any]
) -> None:
    for output, name, value in zip(outputs, names, results, strict=True):
        if not isinstance(value, Tensor):
            raise KernelError(
                f"the kernel returned {type(value).__name__}",
                operator=signature.name,
                argument=name,
                expected=str(output.type),
                got=type(value).__name__,
                hint=_RETURNED.get(type(value)),
            )


class Samples:
    """Takes the results of one sample after another: flat outputs, whose lists must have one length."""

    def __init__(self, signature: Signature, plan: Plan) -> None:
        self._signature = signature
        self._planned = not plan.open
        self._count = len(plan.outputs) if self._planned else None

    def __call__(self, result: Any) -> Sequence[Any]:
        outputs = as_sequence(self._signature, result)
        if self._count is None:
            self._count = len(outputs)
        if len(outputs) != self._count:
            than = "than the shape rule says" if self._planned else "for one sample than for another"
            raise _other_length(self._signature, self._count, len(outputs), than)
        return outputs


def _other_length(signature: Signature, expected: int, got: int, than: str) -> KernelError:
    output = next(output for output in signature.outputs if output.many)
    others = len(signature.outputs) - 1
    return KernelError(
        f"the kernel returned another number of tensors {than}",
        operator=signature.name,
        argument=output.name,
        expected=f"{expected - others} tensors in the list",
        got=f"{got - others}",
    )


def _declared(signature: Signature, output: Output) -> tuple[str, str]:
    """Return what says the shape of an output, and its text."""
    if output.type.axes is None:
        return "the shape rule says", f"@{signature.name}.shape"
    return "its annotation says", f"'{output.type.axes}'"


def _own(value: Tensor, others: Sequence[Tensor]) -> Tensor:
    value = value.resolve_conj().resolve_neg().detach()
    if not value.is_contiguous():
        value = value.clone(memory_format=torch.contiguous_format)
    return value.clone() if any(_share_memory(value, other) for other in others) else value


def _share_memory(left: Tensor, right: Tensor) -> bool:
    if left is right or left.untyped_storage() is right.untyped_storage():
        return True
    if _torch.dispatch_modes() or type(left) not in _torch.PLAIN_TYPES or type(right) not in _torch.PLAIN_TYPES:
        return False  # Fake and functional tensors have no address.
    return left.numel() > 0 and left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()


def _captured(operator: str, what: str) -> KernelError:
    return KernelError(
        "the kernel uses a tensor that requires grad and is not one of its arguments",
        operator=operator,
        argument=what,
        expected="every tensor that has a gradient as an argument",
        got="an output that requires grad although no argument does",
        hint="make it an argument\nwrong: def f(x): return x * weight\nright: def f(x, weight): return x * weight",
    )


def refuse_captured(operator: str, name: str | None = None) -> KernelError:
    """The error for a captured tensor.

    Args:
        name: of one that was found in the function's closure or globals; None for one that was seen in a call.
    """
    error = _captured(operator, name or "the kernel")
    error.got = f"'{name}', found in the function's closure or globals" if name else "one that it captured"
    return error


def refuse_mutated(operator: str, argument: str) -> KernelError:
    """The error for a kernel that wrote into its input."""
    return KernelError(
        "the kernel wrote into its input",
        operator=operator,
        argument=argument,
        expected="an operator without side effects",
        got=f"'{argument}' changed in place",
        hint="work on a copy, or declare it as written, x: tg.Mutated[...]\n"
        "wrong: x += 1; return x\nright: return x + 1",
    )


def refuse_random(operator: str, drawn: str) -> KernelError:
    """The error for a kernel whose result depends on a random draw of its own.

    Args:
        drawn: the name of what has drawn.
    """
    return KernelError("the kernel draws random numbers that it was not given", operator=operator, **draw_words(drawn))
