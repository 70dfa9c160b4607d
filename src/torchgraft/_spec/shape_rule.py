"""The shapes of outputs that an operator's shape rule gives, and those of a list that its annotation admits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import ShapeError
from .axes import Binding, Shape
from .outputs import flattened, leaf_names, spread
from .signature import Output, Signature

ShapeRule = Callable[..., Any]


def shapes_by_rule(signature: Signature, rule: ShapeRule, values: Sequence[Any], binding: Binding) -> list[Shape]:
    """The shape of each output, those of a list one after another.

    Args:
        rule: the operator's ``@f.shape`` function.
        values: the arguments, with shapes in the places of tensors.
        binding: the sizes of the axes in this call.

    Raises:
        ShapeError: the rule raised, or what it returned is no shape for each output, or not as annotated.
    """
    given = _call(signature, rule, values)
    shapes = [given] if len(signature.returned) == 1 else list(given)
    if len(shapes) != len(signature.returned):
        raise ShapeError(
            "the shape rule returned the wrong number of shapes",
            operator=f"{signature.name}.shape",
            expected=f"{len(signature.returned)} shapes",
            got=len(shapes),
        )
    groups = [
        (_of_list if output.many else _of_one)(signature, output, shape)
        for output, shape in zip(signature.returned, shapes, strict=True)
    ]
    flat = flattened(signature.returned, groups)
    _check_items(signature, flat, binding)
    return flat


def missing_shape(signature: Signature) -> str:
    """The next step where a shape is needed before the kernel has run, and nothing gives it."""
    if signature.returns_list:
        return f"add, with one tuple for each tensor\n@{signature.name}.shape\ndef _(...): return [(n,), (m,)]"
    return f"annotate the axes, or add\n@{signature.name}.shape\ndef _(...): return (n, m)"


def _call(signature: Signature, rule: ShapeRule, values: Sequence[Any]) -> Any:
    by_name = {p.name: value for p, value in zip(signature.parameters, values, strict=True)}
    try:
        return rule(**{name: by_name[name] for name in inspect.signature(rule).parameters})
    except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError) as error:
        raise ShapeError(
            f"the shape rule raised {type(error).__name__}: {error}",
            operator=f"{signature.name}.shape",
            expected="sizes, from shapes and non-tensor arguments",
            got=f"an error for {', '.join(f'{p} = {by_name[p]}' for p in inspect.signature(rule).parameters)}",
            hint="no size may hang on values, as one of new_dynamic_size would: pad the output, and return a count"
            if "new_dynamic_size" in str(error)
            else None,
        ) from error


def _of_one(signature: Signature, output: Output, shape: Any) -> Shape:
    """The shape of a tensor."""
    if not isinstance(shape, (list, tuple)) or any(isinstance(size, (list, tuple, torch.Tensor)) for size in shape):
        raise ShapeError(
            f"the shape rule gave no shape for '{output.name}'",
            operator=f"{signature.name}.shape",
            argument=output.name,
            expected="a tuple of sizes",
            got=repr(shape),
            hint="wrong: return (x,)\nright: return tuple(x)",
        )
    return tuple(shape)


def _of_list(signature: Signature, output: Output, shapes: Any) -> list[Shape]:
    """The shapes of a list's tensors."""
    sequence = isinstance(shapes, (list, tuple)) and not isinstance(shapes, torch.Size)
    if not sequence or not all(isinstance(shape, (list, tuple)) for shape in shapes):
        raise ShapeError(
            f"the shape rule gave no list of shapes for '{output.name}'",
            operator=f"{signature.name}.shape",
            argument=output.name,
            expected="a list of tuples of sizes, one tuple for each tensor of the list",
            got=repr(shapes),
            hint="wrong: return lengths\nright: return [(n,) for n in lengths]",
        )
    return [tuple(shape) for shape in shapes]


def _check_items(signature: Signature, shapes: Sequence[Shape], binding: Binding) -> None:
    """Compare the shapes of a list's tensors with their annotation."""
    names = leaf_names(signature.returned, len(shapes))
    for output, name, shape in zip(spread(signature.returned, len(shapes)), names, shapes, strict=True):
        if not output.many or output.type.axes is None:
            continue
        pattern = output.type.axes.evaluate(binding)
        if not fits(shape, pattern):
            raise ShapeError(
                "the shape rule gave a tensor of a list another shape than its annotation says",
                operator=f"{signature.name}.shape",
                argument=name,
                expected=f"{in_words(pattern)}, from '{output.type.axes}'",
                got=str(tuple(shape)),
            )


def fits(shape: Shape, pattern: Shape) -> bool:
    """Tell whether a shape has these sizes; None is any."""
    pairs = zip(shape, pattern, strict=False)
    return len(shape) == len(pattern) and all(wanted is None or size == wanted for size, wanted in pairs)


def in_words(pattern: Shape) -> str:
    """The shape for messages, with ``_`` for any size."""
    sizes = ", ".join("_" if size is None else str(size) for size in pattern)
    return f"({sizes}{',' if len(pattern) == 1 else ''})"
