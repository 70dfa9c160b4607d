"""The plan of a module: arguments of its constructor and its tensors, read from an operator's annotations."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .. import _torch
from .._op import Op
from .._spec.axes import Axes, Axis, Binding
from .._spec.dtypes import COMPLEXES, FLOATS, complex_twin, name_of, real_twin
from .._spec.signature import Parameter, Signature
from .._spec.structures import Structure
from ..errors import ArgumentError, DeclarationError, DtypeError
from .initial import fan_in

Init = Callable[[Tensor], object]


class Plan:
    """The arguments of the constructor of one class, and the tensors that it makes.

    Attributes:
        tensors: the parameters and buffers, in the operator's order.
        parameters: names of the parameters.
        inputs: the tensors and the structures that `forward` takes.
        axes: names of the axes that the constructor takes.
        scalars: the operator's non-tensor arguments.
        switches: names of the optional tensors.
        constructor: the constructor's signature.
    """

    def __init__(
        self, op: Op[..., Any], parameters: Sequence[str], buffers: Sequence[str], init: Iterable[str]
    ) -> None:
        self.op = op
        self.signature: Signature = op._record.signature
        for argument, names in (("parameters", parameters), ("buffers", buffers)):
            if isinstance(names, str):
                raise self._refuse("names stand in a tuple", argument, f'("{names}",)', repr(names))
        self.parameters = parameters = tuple(parameters)
        self._check_names(parameters, buffers, init)
        owned = {*parameters, *buffers}
        self.tensors = [p for _, p in self.signature.tensors if p.name in owned]
        passed = [p for p in self.signature.given if isinstance(p, Structure) or p.is_tensor]
        self.inputs = [p for p in passed if p.name not in owned]
        self.scalars = [p for p in self.signature.parameters if not p.is_tensor and p.path is None]
        self.switches = [p.name for p in self.tensors if p.optional]
        needed = {name for p in self.tensors for name in _axis_names(self._axes_of(p))}
        self.axes = [name for name in self._axis_order() if name in needed]
        self._check_attributes()
        self.constructor = self._constructor()

    # -- declaring ----------------------------------------------------------------------------------------------

    def _refuse(
        self, problem: str, argument: str, expected: str, got: object, hint: str | None = None
    ) -> DeclarationError:
        operator_name = self.signature.name
        return DeclarationError(
            problem, operator=operator_name, argument=argument, expected=expected, got=got, hint=hint
        )

    def fill(self, name: str, tensor: Tensor, init: Init) -> None:
        """Fill a tensor by a function, which works in place.

        Raises:
            DeclarationError: it returns another tensor, and leaves this one as it is.
        """
        tensor.fill_(math.nan) if tensor.is_floating_point() or tensor.is_complex() else tensor.zero_()
        made = init(tensor)
        if isinstance(made, Tensor) and made is not tensor and _torch.memory(made) != _torch.memory(tensor):
            raise self._refuse(
                "its init returns a new tensor, which nobody keeps", name,
                "a function that fills its argument in place", getattr(init, "__name__", repr(init)),
                f'init={{"{name}": lambda tensor: tensor.copy_(...)}}, or one of torch.nn.init',
            )  # fmt: skip

    def _check_names(self, parameters: Sequence[str], buffers: Sequence[str], init: Iterable[str]) -> None:
        tensors = {p.name: p for _, p in self.signature.tensors if p.path is None}
        for name in (*parameters, *buffers):
            fields = [field for p in self.signature.parameters if p.path for field in (p.path, p.name)]
            if self.signature.whole(name) or name in fields:
                raise self._refuse(
                    "a module owns no structure, and no field of one", name, ", ".join(tensors), name,
                    "take it as a parameter of its own, or write the class by hand: forward makes the structure",
                )  # fmt: skip
            if name not in tensors:
                raise self._refuse(f"there is no tensor input '{name}'", name, ", ".join(tensors), name)
            if [*parameters, *buffers].count(name) > 1:
                raise self._refuse(f"'{name}' is named twice", name, "one of parameters and buffers", "both, or twice")
            if tensors[name].many:
                raise self._refuse("a list of tensors has no one shape", name, "a single tensor", "a list of tensors")
        for name in parameters:
            if not tensors[name].tensor.dtypes.differentiable:
                kind = str(tensors[name].tensor)
                raise self._refuse(
                    "cannot be a parameter", name, "a floating or complex tensor", kind, "make it a buffer"
                )
        for name in init:
            if name not in (*parameters, *buffers):
                owned = ", ".join((*parameters, *buffers))
                raise self._refuse(f"init names '{name}', which the module does not own", name, owned, name)

    def _axes_of(self, parameter: Parameter) -> Axes:
        axes = parameter.tensor.axes
        if axes is None:
            raise self._refuse(
                "its shape is not annotated, and so cannot be made", parameter.name, "axes",
                str(parameter.tensor), f'annotate it: {parameter.name}: Float[Tensor, "m n"]',
            )  # fmt: skip
        for token in axes.tokens:
            if token.variadic or token.anonymous:
                raise self._refuse(
                    f"the size of '{token.text}' cannot be known",
                    parameter.name,
                    "axes with a name or a size",
                    axes.text,
                    "name each axis: the constructor takes their sizes",
                )
        return axes

    def _axis_order(self) -> list[str]:
        order: dict[str, None] = {}
        for _, parameter in self.signature.tensors:
            if parameter.tensor.axes is not None:
                order |= dict.fromkeys(_axis_names(parameter.tensor.axes))
        return list(order)

    def _check_attributes(self) -> None:
        """Sizes and arguments are attributes of the module: none may hide another, or what `nn.Module` has."""
        names = [*self.axes, *(p.name for p in self.scalars), *(p.name for p in self.tensors)]
        for name in names:
            if names.count(name) > 1 or name in ("device", "dtype", "training") or hasattr(nn.Module, name):
                raise self._refuse(
                    f"the module would have two attributes '{name}'", name, "names that differ from each other and "
                    "from those of nn.Module", ", ".join(names), f"rename '{name}' in the operator's signature",
                )  # fmt: skip

    def _constructor(self) -> inspect.Signature:
        either, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        scalars = [inspect.Parameter(p.name, either, default=p.default, annotation=p.scalar.type) for p in self.scalars]
        return inspect.Signature([
            inspect.Parameter("self", either),
            *(inspect.Parameter(name, either, annotation=int) for name in self.axes),
            *sorted(scalars, key=lambda p: p.default is not p.empty),
            *(inspect.Parameter(name, keyword, default=True, annotation=bool) for name in self.switches),
            inspect.Parameter("device", keyword, default=None, annotation=torch.device | str | None),
            inspect.Parameter("dtype", keyword, default=None, annotation=torch.dtype | None),
        ])  # fmt: skip

    def describe(self, title: str) -> str:
        """Write the docstring of the class."""
        shapes = "\n".join(f"    {p.name}: {p.tensor}" for p in self.tensors)
        call = ", ".join(p.name for p in self.inputs if not p.is_seed)
        text = inspect.getdoc(self.op) or f"The operator {self.signature.name} as a module."
        return f"{text}\n\nParameters and buffers:\n{shapes}\n\nExample:\n    {title}{self._shown()}({call})\n"

    def _shown(self) -> str:
        return f"({', '.join([*self.axes, *(p.name for p in self.scalars if p.required)])})"

    # -- constructing -------------------------------------------------------------------------------------------

    def bind(self, title: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The constructor's arguments, checked and converted."""
        try:
            bound = self.constructor.bind(None, *args, **kwargs)
        except TypeError as error:
            raise self._wrong_call(title, str(error), args, kwargs) from None
        bound.apply_defaults()
        values = dict(bound.arguments)
        for name in self.axes:
            values[name] = self._size(title, name, values[name])
        for parameter in self.scalars:
            if values[parameter.name] is not None or not parameter.optional:
                values[parameter.name] = parameter.scalar.convert(values[parameter.name], title, parameter.name)
        for name in self.switches:
            if not isinstance(values[name], bool):
                raise ArgumentError(
                    "is a switch", operator=title, argument=name, expected="True or False", got=repr(values[name]),
                    hint=f"set the values after construction: module.{name}.data.copy_(...)",
                )  # fmt: skip
        return values

    def _wrong_call(self, title: str, problem: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> ArgumentError:
        unknown = next((name for name in kwargs if name not in self.constructor.parameters), None)
        given = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        parameters = list(self.constructor.parameters.values())[1:]
        return ArgumentError(
            problem if unknown is None else f"there is no axis and no argument '{unknown}'",
            operator=title,
            argument=unknown,
            expected=f"{title}{inspect.Signature(parameters)}",
            got=f"{title}({', '.join(given)})",
            hint=f"axes: {', '.join(self.axes) or 'none'}",
        )

    def _size(self, title: str, name: str, value: Any) -> int:
        try:
            size = -1 if isinstance(value, bool) else operator.index(value)
        except TypeError:
            size = -1
        if size < 0:
            raise ArgumentError(
                "is the size of an axis", operator=title, argument=name, expected="an int >= 0", got=repr(value)
            )
        return size

    def shape(self, parameter: Parameter, values: Mapping[str, Any]) -> tuple[int, ...]:
        """The shape of a tensor of the module."""
        sizes = {name: values[name] for name in self.axes}
        origins = dict.fromkeys(self.axes, "the constructor")
        return self._axes_of(parameter).evaluate(Binding(values, sizes=sizes, origins=origins))

    def dtype(self, title: str, parameter: Parameter, wanted: torch.dtype | None) -> torch.dtype:
        """The dtype of a tensor of the module; real and complex ones share a precision."""
        dtypes = parameter.tensor.dtypes
        inexact = dtypes.admitted is None or bool(dtypes.admitted & (FLOATS | COMPLEXES))
        if not inexact:
            whole = torch.bool if dtypes.kind == "Bool" else torch.uint8 if dtypes.kind == "UInt" else torch.int64
            return dtypes.exact or whole
        if wanted is None and dtypes.exact is not None:
            return dtypes.exact
        chosen = wanted or torch.get_default_dtype()
        admitted = dtypes.admitted
        if admitted is not None and not admitted & COMPLEXES:
            chosen = real_twin(chosen)
        elif admitted is not None and not admitted & FLOATS:
            chosen = complex_twin(chosen)
        if chosen not in FLOATS | COMPLEXES or not dtypes.admits(chosen):
            raise DtypeError(
                "does not admit this dtype",
                operator=title,
                argument=parameter.name,
                expected=str(parameter.tensor),
                got=f"dtype={name_of(chosen)}",
            )
        return chosen

    def fan_in(self, parameter: Parameter, values: Mapping[str, Any]) -> int | None:
        """Count the elements of a tensor that enter one element of an output; None if no axis is summed over."""
        outputs = [output.type.axes for output in self.signature.visible]
        return fan_in(self._axes_of(parameter), self.shape(parameter, values), outputs)


def _axis_names(axes: Axes) -> Iterable[str]:
    """Names in an annotation, those inside of expressions too."""
    for token in axes.tokens:
        yield from [] if token.variadic else _names_of(token)


def _names_of(token: Axis) -> list[str]:
    return [token.name] if token.name is not None else sorted(token.reads[0])
