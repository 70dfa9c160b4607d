"""The signature: an operator's parameters and outputs, read from its annotations."""

from __future__ import annotations

import contextlib
import inspect
import keyword
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from torch import Tensor

from .._errors import DeclarationError
from .arguments import Scalar, read_scalar, strip_optional
from .axes import Axes
from .dtypes import ANY, Dtypes

if TYPE_CHECKING:
    Saved = Annotated
else:

    class Saved:
        """Marks an output that is kept for the rules and never handed to the caller.

        ``tg.Saved[X, "name"]`` is the annotation `X` of a further output, which rules ask for as `name`. The index
        of a max pool is the classic case: plain PyTorch makes people return it only to be able to save it.

        Example:
            >>> def pool(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, ""], tg.Saved[Int64[Tensor, ""], "index"]]:
            ...     return x.amax(), x.argmax()
        """

        def __class_getitem__(cls, item: Any) -> Any:
            if not (isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], str)):
                raise DeclarationError(
                    "Saved takes an annotation and a name",
                    expected='tg.Saved[Int64[Tensor, "n"], "index"]',
                    got=f"tg.Saved[{item!r}]",
                )
            return _SavedOutput(*item)


@dataclass(frozen=True)
class _SavedOutput:
    annotation: Any
    name: str

    def __repr__(self) -> str:
        return f"tg.Saved[{getattr(self.annotation, '__name__', self.annotation)}, {self.name!r}]"

    def __call__(self) -> None:  # typing accepts only callables inside tuple[...]
        raise TypeError("tg.Saved[...] is an annotation")


@dataclass(frozen=True)
class TensorType:
    """The type of a tensor parameter or output.

    Attributes:
        numpy: the kernel sees ``np.ndarray``, not ``Tensor``.
        axes: its axes; None for a bare ``Tensor`` or ``np.ndarray``.
        dtypes: its dtypes.
    """

    numpy: bool
    axes: Axes | None
    dtypes: Dtypes

    def __str__(self) -> str:
        array = "np.ndarray" if self.numpy else "Tensor"
        return array if self.axes is None else f'{self.dtypes}[{array}, "{self.axes}"]'


@dataclass(frozen=True)
class Parameter:
    """One parameter: a tensor, a list of tensors (`many`), or a non-tensor argument."""

    name: str
    type: TensorType | Scalar
    optional: bool
    many: bool
    default: Any
    keyword_only: bool

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.type, TensorType)

    @property
    def tensor(self) -> TensorType:
        assert isinstance(self.type, TensorType)
        return self.type

    @property
    def scalar(self) -> Scalar:
        assert isinstance(self.type, Scalar)
        return self.type

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True)
class Output:
    """One output; `saved` ones are kept for the rules and not returned."""

    name: str
    type: TensorType
    saved: bool


@dataclass(frozen=True)
class Signature:
    """What a declaration says.

    Attributes:
        name: the operator's name, for error texts.
        parameters: in their order.
        outputs: those of the kernel, `Saved` ones included.
        structure: the `NamedTuple` class of the visible outputs, ``tuple``, or None for a single tensor.
        loop: leading axes are added by torchgraft (``batch="loop"``).
    """

    name: str
    parameters: tuple[Parameter, ...]
    outputs: tuple[Output, ...]
    structure: type | None
    loop: bool

    @cached_property
    def tensors(self) -> tuple[tuple[int, Parameter], ...]:
        """The tensor parameters with their positions."""
        return tuple((i, p) for i, p in enumerate(self.parameters) if p.is_tensor)

    @cached_property
    def visible(self) -> tuple[Output, ...]:
        return tuple(output for output in self.outputs if not output.saved)

    @cached_property
    def elementwise(self) -> bool:
        """Every tensor annotation is exactly ``...``: inputs broadcast, the output has the broadcast shape."""
        kinds = [p.tensor for _, p in self.tensors] + [output.type for output in self.outputs]
        return not self.loop and all(kind.axes is not None and kind.axes.text == "..." for kind in kinds)

    @cached_property
    def numpy(self) -> bool:
        """The kernel works on arrays."""
        return any(p.tensor.numpy for _, p in self.tensors)

    @cached_property
    def shaped(self) -> bool:
        """Every output's shape follows from the annotations."""
        return all(output.type.axes is not None for output in self.outputs)

    @cached_property
    def names(self) -> dict[str, Parameter]:
        return {parameter.name: parameter for parameter in self.parameters}

    @cached_property
    def shape_arguments(self) -> tuple[str, ...]:
        """Non-tensor arguments on whose value a shape depends, ``{k}``."""
        axes = [p.tensor.axes for _, p in self.tensors] + [output.type.axes for output in self.outputs]
        names: set[str] = set()
        for item in axes:
            if item is not None:
                names |= item.reads()[1]
        return tuple(p.name for p in self.parameters if p.name in names)

    def schema(self, *, lead: bool = False) -> str:
        """The dispatcher's schema, without the name.

        Keyword-only parameters are so in Python alone: here their names could meet those of the dispatcher.

        Args:
            lead: with a further argument, the number of leading batch axes.
        """
        plain = [i for i, p in enumerate(self.parameters) if lead or not _has_schema_default(p)]
        last = plain[-1] if plain else -1  # the schema parser wants no default before a parameter without one
        parts = [_schema_of(p, with_default=i > last) for i, p in enumerate(self.parameters)]
        if lead:
            parts.append("int __lead")  # no parameter begins with two underscores
        returns = ", ".join(["Tensor"] * len(self.outputs))
        return f"({', '.join(parts)}) -> " + (returns if len(self.outputs) == 1 else f"({returns})")

    def pack(self, outputs: Sequence[Tensor]) -> Any:
        """All outputs of the kernel as the caller sees them."""
        seen = [value for value, output in zip(outputs, self.outputs, strict=True) if not output.saved]
        if self.structure is None:
            return seen[0]
        return tuple(seen) if self.structure is tuple else self.structure(*seen)


def _schema_of(parameter: Parameter, *, with_default: bool) -> str:
    tensor = "Tensor[]" if parameter.many else "Tensor"
    kind = tensor if parameter.is_tensor else parameter.scalar.schema
    text = f"{kind}{'?' if parameter.optional else ''} {parameter.name}"
    default = parameter.default
    if not with_default:
        return text
    if isinstance(default, str):
        return f'{text}="{default}"'
    return f"{text}={list(default) if isinstance(default, (list, tuple)) else default}"


def _has_schema_default(parameter: Parameter) -> bool:
    """Whether the schema parser knows a literal for the default; where not, the default is filled in before."""
    if parameter.required or parameter.default is None:
        return not parameter.required
    if parameter.is_tensor:
        return False
    scalar = parameter.scalar
    if scalar.type is str:
        return not scalar.many and parameter.default.isprintable() and not set('"\\') & set(parameter.default)
    if scalar.type is float:
        values = parameter.default if scalar.many else [parameter.default]
        return all(value == value and abs(value) != float("inf") for value in values)
    return scalar.type in (bool, int)


# -- reading -------------------------------------------------------------------------------------------------


def read_signature(function: Callable[..., Any], name: str, *, loop: bool, frames: int) -> Signature:
    """The signature of `function`.

    Args:
        frames: how many frames up the declaration stands, whose local names annotations may use.

    Raises:
        DeclarationError: an annotation is missing, cannot be read, or contradicts another.
    """
    frame = sys._getframe(frames + 1)
    hints = resolve_hints(function, name, frame)
    parameters = tuple(
        _read_parameter(name, parameter, hints) for parameter in inspect.signature(function).parameters.values()
    )
    if "return" not in hints:
        raise DeclarationError(
            "has no return annotation",
            operator=name,
            argument="return",
            expected='a tensor annotation, such as -> Float[Tensor, "n"]',
            got="nothing",
        )
    outputs, structure = _read_outputs(name, hints["return"], _local_names(function, frame))
    signature = Signature(name, parameters, outputs, structure, loop)
    _check(signature)
    return signature


def resolve_hints(function: Callable[..., Any], name: str, frame: types.FrameType | None) -> dict[str, Any]:
    """The annotations as objects, also under ``from __future__ import annotations`` and with local names."""
    try:
        # As written where possible: get_type_hints would try to call a Saved[...] inside tuple[...].
        raw = dict(inspect.get_annotations(function))
        if any(isinstance(value, str) for value in raw.values()):
            raw = typing.get_type_hints(function, None, _local_names(function, frame), include_extras=True)
        return raw
    except Exception as error:
        raise DeclarationError(
            f"annotations cannot be read: {error}",
            operator=name,
            expected="names that are defined where the operator is declared",
            got=", ".join(f"{key}: {value!r}" for key, value in function.__annotations__.items()),
            hint="import the names outside of `if TYPE_CHECKING:`",
        ) from error


def _local_names(function: Callable[..., Any], frame: types.FrameType | None) -> dict[str, Any]:
    """The names of the functions around `function`: those that are running, and those that it refers to."""
    names: dict[str, Any] = {}
    scope = getattr(function, "__globals__", None)  # a callable object has none
    while frame is not None and frame.f_globals is scope:
        names = {**frame.f_locals, **names}
        frame = frame.f_back
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(function.__code__.co_freevars if cells else (), cells, strict=True):
        with contextlib.suppress(ValueError):  # defined further down
            names[name] = cell.cell_contents
    return names


def _read_parameter(name: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> Parameter:
    def refuse(problem: str, got: object, hint: str | None = None) -> DeclarationError:
        return DeclarationError(
            problem,
            operator=name,
            argument=parameter.name,
            expected="a tensor, an optional tensor, a list of tensors, bool, int, float, complex, str, Literal, "
            "a list of numbers, torch.dtype or torch.device",
            got=got,
            hint=hint,
        )

    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise refuse("a variable number of arguments has no schema", str(parameter), "take a list of tensors")
    if parameter.name not in hints:
        raise refuse("has no annotation", "nothing", f'write {parameter.name}: Float[Tensor, "..."]')
    annotation, optional = strip_optional(hints[parameter.name])
    many = False
    kind: TensorType | Scalar | None = read_scalar(annotation)
    if kind is None:
        arguments = typing.get_args(annotation)
        origin = typing.get_origin(annotation)
        if isinstance(origin, type) and issubclass(origin, Sequence) and origin is not tuple and len(arguments) == 1:
            many, annotation = True, arguments[0]
        kind = _read_tensor(annotation, name, parameter.name)
    if kind is None:
        is_tree = typing.get_origin(annotation) in (dict, tuple, list) or annotation in (dict, tuple, list)
        hint = (
            "an operator takes flat arguments: give each leaf of the pytree its own parameter, or a list of tensors\n"
            "wrong: def f(params: dict[str, Tensor])\n"
            "right: def f(weight: Tensor, bias: Tensor)      called as f(**params)"
        )
        raise refuse("has a type that an operator cannot take", repr(annotation), hint if is_tree else None)
    if many and optional:
        raise refuse("an optional list of tensors has no schema", str(parameter), "pass an empty list for none")
    default = parameter.default
    if default is None and not optional:
        raise refuse("has the default None but no None in its type", repr(hints[parameter.name]))
    if default is not None and default is not inspect.Parameter.empty:
        if isinstance(kind, TensorType):
            raise refuse("only None can be the default of a tensor", repr(default))
        default = kind.convert(default, name, parameter.name)
    return Parameter(parameter.name, kind, optional, many, default, parameter.kind is inspect.Parameter.KEYWORD_ONLY)


def _read_tensor(annotation: Any, name: str, where: str) -> TensorType | None:
    if annotation in (Tensor, np.ndarray):
        return TensorType(annotation is np.ndarray, None, ANY)
    array = getattr(annotation, "array_type", None)
    if array not in (Tensor, np.ndarray):
        return None
    return TensorType(array is np.ndarray, Axes(annotation.dim_str, name, where), Dtypes.read(annotation))


def _read_outputs(name: str, annotation: Any, local_names: dict[str, Any]) -> tuple[tuple[Output, ...], type | None]:
    def read(item: Any, output_name: str) -> Output:
        saved = isinstance(item, _SavedOutput)
        output_name = item.name if saved else output_name
        kind = _read_tensor(item.annotation if saved else item, name, output_name)
        if kind is None:
            raise DeclarationError(
                "is not a tensor",
                operator=name,
                argument=output_name,
                expected='a tensor annotation, such as Float[Tensor, "n"], or a tuple or NamedTuple of them',
                got=repr(item),
            )
        return Output(output_name, kind, saved)

    def nothing_to_see(got: Any) -> DeclarationError:
        return DeclarationError(
            "has no output that the caller sees",
            operator=name,
            argument="return",
            expected="at least one output that is not Saved",
            got=repr(got),
        )

    if isinstance(annotation, _SavedOutput):
        raise nothing_to_see(annotation)
    if isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        fields = resolve_fields(annotation, name, local_names)
        for field, item in fields.items():
            if isinstance(item, _SavedOutput):  # the caller's NamedTuple would lack a field
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
        shown = sum(not isinstance(item, _SavedOutput) for item in items)
        if shown == 0:
            raise nothing_to_see(annotation)
        names = iter(["out"] if shown == 1 else [f"out{i}" for i in range(shown)])
        outputs = tuple(read(item, "" if isinstance(item, _SavedOutput) else next(names)) for item in items)
        return outputs, (None if shown == 1 and len(items) > 1 else tuple)
    return (read(annotation, "out"),), None


def resolve_fields(structure: type, name: str, local_names: dict[str, Any]) -> dict[str, Any]:
    """The annotations of a `NamedTuple`'s fields."""
    try:
        fields = inspect.get_annotations(structure)
        if any(isinstance(value, (str, typing.ForwardRef)) for value in fields.values()):
            fields = typing.get_type_hints(structure, None, local_names, include_extras=True)
    except Exception as error:
        raise DeclarationError(
            f"annotations of {structure.__name__} cannot be read: {error}", operator=name, argument="return"
        ) from error
    return fields


# -- checks at declaration -----------------------------------------------------------------------------------


def _check(signature: Signature) -> None:
    def refuse(problem: str, argument: str, **fields: Any) -> DeclarationError:
        return DeclarationError(problem, operator=signature.name, argument=argument, **fields)

    if not signature.tensors:
        raise refuse(
            "an operator needs at least one tensor argument",
            "parameters",
            expected="a parameter annotated as a tensor",
            got=", ".join(signature.names) or "none",
        )
    _check_names(signature, refuse)
    _check_kinds(signature, refuse)
    _check_axes(signature, refuse)
    _check_dtypes(signature, refuse)


def _check_names(signature: Signature, refuse: Callable[..., DeclarationError]) -> None:
    taken: dict[str, str] = {}
    reserved = {"grad": "a cotangent"}
    for output in signature.outputs:
        reserved[f"grad_{output.name}"] = "a cotangent"
    for _, parameter in signature.tensors:
        reserved[f"{parameter.name}_tangent"] = "a tangent"
    parameters = [(name, "a parameter") for name in signature.names]
    for name, what in parameters + [(output.name, "an output") for output in signature.outputs]:
        clash = reserved.get(name) or taken.get(name)
        if clash is not None:
            raise refuse(
                f"the name '{name}' is already that of {clash}",
                name,
                expected="names that rules can tell apart",
                got=f"{what} called '{name}'",
                hint="rename it" if what == "a parameter" else "use a NamedTuple, or rename the parameter",
            )
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__"):
            expected = "an identifier that does not begin with '__'"
            raise refuse(f"'{name}' is not a name", name, expected=expected, got=name)
        taken[name] = what


def _check_kinds(signature: Signature, refuse: Callable[..., DeclarationError]) -> None:
    kinds = {p.tensor.numpy for _, p in signature.tensors} | {output.type.numpy for output in signature.outputs}
    if len(kinds) > 1:
        raise refuse(
            "mixes Tensor and np.ndarray",
            "annotations",
            expected="one kind of array for the kernel's inputs and outputs",
            got=", ".join(str(p.tensor) for _, p in signature.tensors) + " -> "
            + ", ".join(str(output.type) for output in signature.outputs),
        )  # fmt: skip


def _check_axes(signature: Signature, refuse: Callable[..., DeclarationError]) -> None:
    bound: set[str] = set()
    runs: set[Any] = set()  # None stands for ...
    annotated = [(p.name, p.tensor.axes) for _, p in signature.tensors]
    for name, axes in annotated:
        if axes is None:
            if signature.loop:
                raise refuse('batch="loop" needs to know the core axes', name, expected="annotated axes", got="none")
            continue
        bound |= axes.binds
        if axes.run is not None:
            if signature.loop:
                raise refuse(
                    'batch="loop" adds the leading axes itself', name, expected="the axes of one sample", got=axes.text
                )
            runs.add(axes.tokens[axes.run].name)
    both = sorted(bound & runs)
    if both:
        raise refuse(
            f"'{both[0]}' names a single axis and a run of axes",
            "annotations",
            expected="different names",
            got=f"{both[0]} and *{both[0]}",
        )
    results = [(output.name, output.type.axes) for output in signature.outputs]
    scalars = {
        p.name
        for p in signature.parameters
        if not p.is_tensor and p.scalar.type is int and not p.scalar.many and not p.optional
    }
    for name, axes in annotated + results:
        if axes is None:
            continue
        reads, arguments = axes.reads()
        unknown = sorted(reads - bound) + sorted(f"{{{a}}}" for a in arguments - scalars)
        if unknown:
            raise refuse(
                f"axis {unknown[0]} is never bound",
                name,
                expected="axis names of a tensor parameter, and {k} for an int argument k that is never None",
                got=axes.text,
            )
    for name, axes in results:
        if axes is None:
            if signature.loop:
                problem = 'batch="loop" needs to know the output\'s axes'
                raise refuse(problem, name, expected="annotated axes", got="none")
            continue
        for token in axes.tokens:
            known = token.name in bound if token.name is not None and not token.variadic else True
            if token.variadic:
                known = token.name in runs
            if token.anonymous or not known:
                raise refuse(
                    f"axis {token.text} is never bound", name, expected="axes of a tensor parameter", got=axes.text
                )


def _check_dtypes(signature: Signature, refuse: Callable[..., DeclarationError]) -> None:
    if any(p.tensor.dtypes.numeric or p.tensor.dtypes is ANY for _, p in signature.tensors):
        return
    for output in signature.outputs:
        if output.type.dtypes.numeric:
            raise refuse(
                f"a {output.type.dtypes} output takes its dtype from a floating input, and there is none",
                output.name,
                expected="an exact dtype, such as Float64",
                got=str(output.type),
            )
