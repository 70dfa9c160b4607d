"""Checks of a rule's results against what was asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from .._spec.axes import Shape
from .._spec.dtypes import name_of
from .._spec.outputs import flattened, leaf_names
from .._spec.plan import Leaf
from .._spec.signature import Output
from ..errors import RuleError


def as_results(label: str, result: Any, names: Sequence[str], *, many: bool) -> Sequence[Any]:
    """The results one by one.

    Args:
        names: of the results.
        many: the rule returns a sequence even for one of them.
    """
    if len(names) == 1 and not many:
        return (result,)
    if not isinstance(result, (tuple, list)) or len(result) != len(names):
        count = len(result) if isinstance(result, (tuple, list)) else f"one {type(result).__name__}"
        raise RuleError(
            "returned the wrong number of results",
            operator=label,
            expected=f"{len(names)}: {', '.join(names)}",
            got=count,
            hint=f"return {', '.join(f'of_{name}' for name in names)}: one for each of them, none for other arguments",
        )
    return result


def flat_results(label: str, result: Any, outputs: Sequence[Output], count: int) -> Sequence[Any]:
    """The results of a rule for some outputs, one by one, a list flattened.

    Args:
        count: the number of tensors that the outputs are.
    """
    groups = as_results(label, result, [output.name for output in outputs], many=False)
    length = count - len(outputs) + 1
    for output, group in zip(outputs, groups, strict=True):
        if output.many:
            as_results(label, group, leaf_names([output], length), many=True)
    return flattened(outputs, groups)


def settle_gradient(label: str, leaf: Leaf, value: Any) -> Tensor:
    """A gradient in its input's shape: axes that broadcast are summed, everything else must match.

    Raises:
        RuleError: another shape or dtype; both are named.
    """
    tensor = _check_type(label, leaf.name, value, leaf.like)
    if tensor.dtype is not leaf.dtype:
        raise RuleError(
            "returned a gradient of another dtype than its input",
            operator=label,
            argument=leaf.name,
            expected=f"{name_of(leaf.dtype)}, the dtype of {leaf.name}",
            got=name_of(tensor.dtype),
            hint=f"return gradient.to({leaf.name}.dtype)"
            + (", or its real part" if tensor.dtype.is_complex and not leaf.dtype.is_complex else ""),
        )
    shape = tuple(tensor.shape)
    if shape == leaf.shape:
        return tensor
    if shape == leaf.full:
        return leaf.summed(tensor)
    wanted = f"{leaf.shape}" + (f", or {leaf.full} before broadcasting" if leaf.full != leaf.shape else "")
    raise RuleError(
        "returned a gradient of another shape than its input",
        operator=label,
        argument=leaf.name,
        expected=f"{wanted}, the shape of {leaf.name}",
        got=str(shape),
        hint="sum over the axes that the operator repeats, keep those that it sums",
    )


def settle_tangent(label: str, name: str, value: Any, like: Tensor) -> Tensor:
    """An output's tangent, in the output's shape and dtype.

    One without axes may have been promoted by torch's own formulas, which a rule that is itself pushed goes through.
    """
    tensor = _check_type(label, name, value, (tuple(like.shape), like.dtype))
    if tensor.dim() == 0 and tensor.is_floating_point() and like.is_floating_point():
        tensor = tensor.to(like.dtype)
    if tensor.shape != like.shape or tensor.dtype is not like.dtype:
        raise RuleError(
            "returned a tangent of another shape or dtype than its output",
            operator=label,
            argument=name,
            expected=f"{tuple(like.shape)}, {name_of(like.dtype)}",
            got=f"{tuple(tensor.shape)}, {name_of(tensor.dtype)}",
        )
    return tensor


def settle_partial(label: str, name: str, value: Any, like: tuple[Shape, Any]) -> Tensor:
    """An output's partial derivative, which may be smaller where it is constant: it broadcasts to the output."""
    tensor = _check_type(label, name, value, like)
    shape, wanted = tuple(tensor.shape), tuple(like[0])
    if not broadcasts_to(shape, wanted):
        raise RuleError(
            "returned a partial derivative of another shape than its output",
            operator=label,
            argument=name,
            expected=f"{wanted}, or a shape that broadcasts to it",
            got=str(shape),
        )
    return tensor


def broadcasts_to(shape: Shape, wanted: Shape) -> bool:
    """Tell whether a tensor of one shape broadcasts to exactly another one."""
    pairs = zip(reversed(shape), reversed(wanted), strict=False)
    return len(shape) <= len(wanted) and all(size in (1, full) for size, full in pairs)


def _check_type(label: str, name: str, value: Any, like: tuple[Shape, Any]) -> Tensor:
    if isinstance(value, Tensor):
        return value
    raise RuleError(
        f"returned {type(value).__name__}",
        operator=label,
        argument=name,
        expected=f"a tensor of shape {like[0]} and dtype {name_of(like[1])}",
        got=type(value).__name__,
        hint=_INSTEAD.get(type(value)),
    )


_ONE = "return the tensor itself: a rule returns one result for each input that it names, none for others"
_INSTEAD: dict[type, str] = {
    type(None): "return the gradient; an input without one is declared with nondifferentiable; where the body is in C, "
    "give the rule kernel=tg.c(...)",
    np.ndarray: "annotate the rule's parameters with np.ndarray, or return torch.from_numpy(array)",
    tuple: _ONE,
    list: _ONE,
}
"""The next step for what is no tensor."""
