"""Reading a signature from a function's annotations."""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from ..errors import DeclarationError
from .axes import Axes
from .declaration import check_declaration
from .dtypes import ANY, Dtypes
from .fields import is_structure, read_structure, structures_in
from .late import read_late
from .mutated import split_mutated
from .saved import SavedOutput
from .scalars import Scalar, read_scalar, strip_numbers, strip_optional
from .seed import Seed, drawn, read_seed, with_seed_axes
from .signature import Output, Parameter, Signature, TensorType
from .structures import Structure
from .workspace import read_workspaces


def read_signature(
    function: Callable[..., Any], name: str, *, loop: bool, frames: int, data_dependent: str = ""
) -> Signature:
    """The signature of `function`.

    Args:
        data_dependent: names of the axes whose size is known only after the call.
        frames: how many frames up the declaration stands, whose local names annotations may use.

    Raises:
        DeclarationError: an annotation is missing, cannot be read, or contradicts another.
    """
    frame = sys._getframe(frames + 1)
    hints = resolve_hints(function, name, frame)
    annotated = list(inspect.signature(function).parameters.values())
    workspaces = read_workspaces([p.name for p in annotated], hints, name)
    unpassed = {parameter for _, parameter, _ in workspaces}
    passed = [p for p in annotated if p.name not in unpassed]
    parameters, structures = _read_parameters(name, passed, hints, local_names(function, frame))
    if "return" not in hints:
        raise DeclarationError(
            "has no return annotation",
            operator=name,
            argument="return",
            expected='a tensor annotation, such as -> Float[Tensor, "n"]',
            got="nothing",
        )
    after = tuple(Output(f"{p.name}_after", p.tensor, False, after=p.name) for p in parameters if p.written)
    returned: tuple[Output, ...] = ()
    beside: type | None = None
    if not after or hints["return"] not in (None, type(None)):
        alone = not after
        returned, beside = _read_outputs(name, hints["return"], local_names(function, frame), alone=alone)
    shown = [output for output in (*after, *returned) if not output.saved]
    structure = (None if len(shown) == 1 else tuple) if after else beside
    signature = with_seed_axes(Signature(
        name, parameters, (*after, *returned), structure, loop, workspaces, structures,
        read_late(name, data_dependent), beside,
    ))  # fmt: skip
    check_declaration(signature)
    return signature


def with_workspaces(signature: Signature, stub: Callable[..., Any], *, frames: int) -> Signature:
    """`signature` with the workspaces that another kernel's stub names."""
    hints = resolve_hints(stub, signature.name, sys._getframe(frames + 1))
    return replace(signature, workspaces=read_workspaces(inspect.signature(stub).parameters, hints, signature.name))


def with_structures(signature: Signature, function: Callable[..., Any], *, frames: int) -> tuple[Signature, bool]:
    """`signature` with the classes by which another function of the user's annotates structures.

    They have the same fields, of arrays in the place of tensors, or the other way round.

    Returns:
        The signature, and whether the fields are annotated as arrays.

    Raises:
        DeclarationError: such a class has other fields.
    """
    if not signature.structures:
        return signature, False
    frame = sys._getframe(frames + 1)
    hints, scope = resolve_hints(function, signature.name, frame), local_names(function, frame)
    own = [own_structure(signature, s, hints.get(s.identifier), signature.name, scope) for s in signature.structures]
    return replace(signature, structures=tuple(s for s, _ in own)), any(numpy for _, numpy in own)


def own_structure(
    signature: Signature, structure: Structure, annotation: Any, operator: str, scope: Mapping[str, Any]
) -> tuple[Structure, bool]:
    """The structure in the class that annotates it elsewhere, and whether its fields are annotated as arrays.

    Raises:
        DeclarationError: that class has other fields.
    """
    declared = [signature.names[name] for name in structure.parameters]
    if annotation is structure.cls:
        return structure, any(p.is_tensor and p.tensor.numpy for p in declared)
    if not is_structure(annotation):  # There is no annotation, or one that says nothing.
        return structure, False
    parameter = inspect.Parameter(structure.identifier, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    fields, (read,) = _read_parameters(operator, [parameter], {parameter.name: annotation}, scope)
    if [(p.name, p.is_tensor, p.many) for p in fields] != [(p.name, p.is_tensor, p.many) for p in declared]:
        raise DeclarationError(
            f"{annotation.__name__} has other fields than {structure.cls.__name__}", operator=operator,
            argument=structure.name, expected=", ".join(f"{p.shown}: {p.type}" for p in declared),
            got=", ".join(f"{p.shown}: {p.type}" for p in fields),
            hint=f"annotate it as {structure.cls.__name__}, or give both the same fields",
        )  # fmt: skip
    whole = replace(read, name=structure.name, keyword_only=structure.keyword_only)
    return whole, any(p.is_tensor and p.tensor.numpy for p in fields)


def resolve_hints(function: Callable[..., Any], name: str, frame: types.FrameType | None) -> dict[str, Any]:
    """The annotations as objects, also under ``from __future__ import annotations`` and with local names."""
    try:
        # Objects stay as they are written: get_type_hints would try to call a Saved[...] inside tuple[...].
        raw = dict(inspect.get_annotations(function))
        if any(isinstance(value, str) for value in raw.values()):
            raw = typing.get_type_hints(function, None, local_names(function, frame), include_extras=True)
        return raw
    except Exception as error:
        raise DeclarationError(
            f"annotations cannot be read: {error}",
            operator=name,
            expected="names that are defined where the operator is declared",
            got=", ".join(f"{key}: {value!r}" for key, value in function.__annotations__.items()),
            hint="look for a misspelt name, and import names outside of `if TYPE_CHECKING:`",
        ) from error


def local_names(function: Callable[..., Any], frame: types.FrameType | None) -> dict[str, Any]:
    """The names of the functions around `function`: those that are running, and those that it refers to."""
    names: dict[str, Any] = {}
    scope = getattr(function, "__globals__", None)  # A callable object has none.
    while frame is not None and frame.f_globals is scope:
        names = {**frame.f_locals, **names}
        frame = frame.f_back
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(function.__code__.co_freevars if cells else (), cells, strict=True):
        with contextlib.suppress(ValueError):  # The name is defined further down.
            names[name] = cell.cell_contents
    return names


def _read_parameters(
    name: str, annotated: Sequence[inspect.Parameter], hints: dict[str, Any], scope: Mapping[str, Any]
) -> tuple[tuple[Parameter, ...], tuple[Structure, ...]]:
    """The parameters, among them those that fields of structures are; and the structures."""
    parameters: list[Parameter] = []
    structures: list[Structure] = []

    def read(field: inspect.Parameter, annotation: Any, path: str) -> Parameter:
        return replace(_read_parameter(name, field, {field.name: annotation}, path), path=path)

    for parameter in annotated:
        annotation: Any = hints.get(parameter.name)
        if is_structure(annotation):
            structure, fields = read_structure(parameter, annotation, name, scope, read)
            structures.append(structure)
            parameters += fields
        else:
            parameters.append(_read_parameter(name, parameter, hints, parameter.name))
    return tuple(parameters), tuple(structures)


def _read_parameter(name: str, parameter: inspect.Parameter, hints: dict[str, Any], shown: str) -> Parameter:
    def refuse(problem: str, got: object, hint: str | None = None) -> DeclarationError:
        return DeclarationError(
            problem,
            operator=name,
            argument=shown,
            expected="a tensor, an optional tensor, a list of tensors, bool, int, float, complex, str, Literal, "
            "a list of numbers, torch.dtype or torch.device",
            got=got,
            hint=hint,
        )

    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise refuse("a variable number of arguments has no schema", str(parameter), "take a list of tensors")
    if parameter.name not in hints:
        raise refuse("has no annotation", "nothing", f'write {parameter.name}: Float[Tensor, "..."]')
    if hints[parameter.name] is Seed or parameter.default is drawn:
        return read_seed(name, parameter, hints[parameter.name])
    annotation, written = split_mutated(hints[parameter.name])
    annotation, number = strip_numbers(annotation)
    annotation, optional = strip_optional(annotation)
    many = False
    kind: TensorType | Scalar | None = read_scalar(annotation)
    if kind is None:
        arguments = typing.get_args(annotation)
        origin = typing.get_origin(annotation)
        if isinstance(origin, type) and issubclass(origin, Sequence) and origin is not tuple and len(arguments) == 1:
            many, annotation = True, arguments[0]
        kind = _read_tensor(annotation, name, shown)
    if kind is None and (held := structures_in(annotation)):
        raise refuse(
            f"takes {held[0].__name__} in another way than by itself", repr(annotation),
            f"annotate it as {held[0].__name__} alone: optional ones, lists of them and generic ones have no schema\n"
            "an optional field may be None: mass: Float[Tensor, \"n\"] | None",
        )  # fmt: skip
    if kind is None:
        is_tree = typing.get_origin(annotation) in (dict, tuple, list) or annotation in (dict, tuple, list)
        hint = (
            "an operator takes flat arguments: give each leaf of the pytree its own parameter, or a list of tensors\n"
            "wrong: def f(params: dict[str, Tensor])\n"
            "right: def f(weight: Tensor, bias: Tensor)      called as f(**params)\n"
            "right: def f(params: Params)                    a NamedTuple or a dataclass of the leaves"
        )
        raise refuse("has a type that an operator cannot take", repr(annotation), hint if is_tree else None)
    if written and (many or optional or number or not isinstance(kind, TensorType)):
        raise refuse(
            "an argument that is written is one tensor", str(parameter),
            "give each tensor of a list a parameter of its own, or call the operator once for each",
        )  # fmt: skip
    if many and optional:
        raise refuse("an optional list of tensors has no schema", str(parameter), "pass an empty list for none")
    default = parameter.default
    if default is None and not optional:
        raise refuse("has the default None but no None in its type", repr(hints[parameter.name]))
    if default is not None and default is not inspect.Parameter.empty:
        if isinstance(kind, TensorType):
            raise refuse("only None can be the default of a tensor", repr(default))
        default = kind.convert(default, name, shown)
    keyword_only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    return Parameter(parameter.name, kind, optional, many, default, keyword_only, number, written)


def _read_tensor(annotation: Any, name: str, where: str) -> TensorType | None:
    if annotation in (Tensor, np.ndarray):
        return TensorType(annotation is np.ndarray, None, ANY)
    array = getattr(annotation, "array_type", None)
    if array not in (Tensor, np.ndarray):
        return None
    return TensorType(array is np.ndarray, Axes(annotation.dim_str, name, where), Dtypes.read(annotation))


_SEQUENCES = (Sequence, Iterable, tuple)


def _read_outputs(
    name: str, annotation: Any, scope: dict[str, Any], *, alone: bool
) -> tuple[tuple[Output, ...], type | None]:
    """The outputs that are annotated; `alone`, one of them has to be seen by callers."""

    def read(item: Any, output_name: str) -> Output:
        saved = isinstance(item, SavedOutput)
        output_name = item.name if saved else output_name
        given = item.annotation if saved else item
        many = typing.get_origin(given) is list and len(typing.get_args(given)) == 1
        kind = _read_tensor(typing.get_args(given)[0] if many else given, name, output_name)
        if kind is None:
            varies = item is Ellipsis or typing.get_origin(given) in _SEQUENCES
            raise DeclarationError(
                "is not a tensor",
                operator=name,
                argument=output_name,
                expected='a tensor annotation, such as Float[Tensor, "n"], a list of such tensors, or a tuple or '
                "NamedTuple of them",
                got=repr(item),
                hint='as many tensors as a call makes are a list: -> list[Float[Tensor, "_"]]' if varies else None,
            )
        return Output(output_name, kind, saved, many=many)

    def nothing_to_see(got: Any) -> DeclarationError:
        return DeclarationError(
            "has no output that the caller sees",
            operator=name,
            argument="return",
            expected="at least one output that is not Saved",
            got=repr(got),
        )

    if isinstance(annotation, SavedOutput):
        if alone:
            raise nothing_to_see(annotation)
        return (read(annotation, ""),), None
    if isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        fields = resolve_fields(annotation, name, scope)
        for field, item in fields.items():
            if isinstance(item, SavedOutput):  # The caller's NamedTuple would lack a field.
                raise DeclarationError(
                    "a field of a NamedTuple cannot be Saved",
                    operator=name,
                    argument=field,
                    expected="a field that the caller sees",
                    got=repr(item),
                    hint=f'return a tuple: tuple[..., tg.Saved[..., "{item.name}"]]',
                )
        return tuple(read(item, field) for field, item in fields.items()), annotation
    if typing.get_origin(annotation) is tuple:
        items = typing.get_args(annotation)
        shown = sum(not isinstance(item, SavedOutput) for item in items)
        if shown == 0 and alone:
            raise nothing_to_see(annotation)
        names = iter(["out"] if shown == 1 else [f"out{i}" for i in range(shown)])
        outputs = tuple(read(item, "" if isinstance(item, SavedOutput) else next(names)) for item in items)
        return outputs, (None if shown == 1 and len(items) > 1 else tuple)
    return (read(annotation, "out"),), None


def resolve_fields(structure: type, name: str, scope: dict[str, Any]) -> dict[str, Any]:
    """The annotations of a `NamedTuple`'s fields."""
    try:
        fields = inspect.get_annotations(structure)
        if any(isinstance(value, (str, typing.ForwardRef)) for value in fields.values()):
            fields = typing.get_type_hints(structure, None, scope, include_extras=True)
    except Exception as error:
        raise DeclarationError(
            f"annotations of {structure.__name__} cannot be read: {error}", operator=name, argument="return"
        ) from error
    return fields
