"""The signature: an operator's parameters and outputs."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from .axes import Axes, Axis
from .dtypes import Dtypes
from .late import Late
from .outputs import grouped
from .scalars import Scalar
from .structures import Structure
from .workspace import Memory


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
    """One parameter: a tensor, a list of tensors (`many`), or a non-tensor argument; a tensor may be `written`."""

    name: str
    type: TensorType | Scalar
    optional: bool
    many: bool
    default: Any
    keyword_only: bool
    number: bool = False  # The annotation admits a number, as elementwise operators do.
    written: bool = False
    is_seed: bool = False
    path: str | None = None  # It is a field of a structure, which callers write so: state.velocity.

    @property
    def shown(self) -> str:
        """The name as callers write it."""
        return self.path or self.name

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
    """One output of an operator.

    Attributes:
        name: under which rules ask for it.
        type: its type.
        saved: it is kept for the rules and not returned.
        inert: it was declared to have no derivative.
        after: the parameter whose value after the call it is; None for an output that callers get.
        many: it is a list of tensors, of that type each.
    """

    name: str
    type: TensorType
    saved: bool
    inert: bool = False
    after: str | None = None
    many: bool = False

    def __str__(self) -> str:
        return f"list of {self.type}" if self.many else str(self.type)

    @property
    def floating(self) -> bool:
        """True if callers get it with a dtype that can have a derivative."""
        return not self.saved and self.type.dtypes.differentiable


@dataclass(frozen=True)
class Signature:
    """The signature of an operator, read from its declaration.

    That of an operator that writes is the signature of the function behind it, which writes nothing: the values of the
    written arguments after the call are its first outputs.

    Attributes:
        name: the operator's name, for error texts.
        parameters: in their order.
        outputs: those of the kernel, `Saved` ones included.
        structure: the `NamedTuple` class of the visible outputs, ``tuple``, or None for a single tensor or list.
        beside: of an operator that writes: the same of the outputs that its callers get.
        loop: leading axes are added by torchgraft (``batch="loop"``).
        workspaces: memory that a C function uses: position among the annotated parameters, name, annotation.
        late: axes of outputs whose size is known only after the call.
        structures: NamedTuples and dataclasses that callers pass, whose fields are parameters here.
    """

    name: str
    parameters: tuple[Parameter, ...]
    outputs: tuple[Output, ...]
    structure: type | None
    loop: bool
    workspaces: tuple[tuple[int, str, Memory], ...] = ()
    structures: tuple[Structure, ...] = ()
    late: tuple[Late, ...] = ()
    beside: type | None = None

    @cached_property
    def tensors(self) -> tuple[tuple[int, Parameter], ...]:
        """The tensor parameters with their positions."""
        return tuple((i, p) for i, p in enumerate(self.parameters) if p.is_tensor)

    @cached_property
    def seed(self) -> int | None:
        """The position of the seed; None where nothing is drawn."""
        return next((i for i, p in enumerate(self.parameters) if p.is_seed), None)

    @cached_property
    def visible(self) -> tuple[Output, ...]:
        return tuple(output for output in self.outputs if not output.saved)

    @cached_property
    def written(self) -> tuple[Parameter, ...]:
        """The parameters that the operator writes."""
        return tuple(p for p in self.parameters if p.written)

    @cached_property
    def returned(self) -> tuple[Output, ...]:
        """The outputs that the user's function returns: without the values of written arguments."""
        return self.outputs[len(self.written) :]

    @cached_property
    def alone(self) -> bool:
        """The kernel returns its one output itself, and no tuple around it."""
        return len(self.outputs) == 1 and self.structure is None

    @cached_property
    def returns_list(self) -> bool:
        """One of the outputs is a list of tensors, whose length each call has of its own."""
        return any(output.many for output in self.outputs)

    @cached_property
    def elementwise(self) -> bool:
        """Every tensor annotation is exactly ``...``: inputs broadcast, the output has the broadcast shape."""
        kinds = [p.tensor for _, p in self.tensors] + [output.type for output in self.outputs]
        single = not (self.loop or self.returns_list)
        return single and all(kind.axes is not None and kind.axes.text == "..." for kind in kinds)

    @cached_property
    def numpy(self) -> bool:
        """The kernel works on arrays."""
        return any(p.tensor.numpy for _, p in self.tensors)

    @cached_property
    def shaped(self) -> bool:
        """Every output's shape follows from the annotations; the length of a list never does."""
        return all((output.type.axes is not None or output.after) and not output.many for output in self.outputs)

    @cached_property
    def late_names(self) -> frozenset[str]:
        """The names of the axes whose size is known only after the call."""
        return frozenset(late.name for late in self.late)

    @cached_property
    def annotations(self) -> tuple[Axes | None, ...]:
        """The axes of each tensor, inputs first; None for one without."""
        return tuple(kind.axes for kind in [*(p.tensor for _, p in self.tensors), *(o.type for o in self.outputs)])

    @cached_property
    def batch_run(self) -> Axis | None:
        """The batch axes: a run that leads every output, and every input that has it; none beside late sizes."""
        runs = [axes.leading_run if axes is not None else None for axes in self.annotations[len(self.tensors) :]]
        first = runs[0] if runs else None
        if self.late or first is None or any(run is None or run.name != first.name for run in runs):
            return None
        inner = [token for axes in self.annotations if axes is not None for token in axes.tokens[1:] if token.variadic]
        return None if any(token.name == first.name for token in inner) else first

    @cached_property
    def names(self) -> dict[str, Parameter]:
        return {parameter.name: parameter for parameter in self.parameters}

    @cached_property
    def given(self) -> tuple[Parameter | Structure, ...]:
        """The arguments that callers pass: parameters, and structures in the place of their fields."""
        first = {structure.parameters[0]: structure for structure in self.structures}
        inside = {name for structure in self.structures for name in structure.parameters}
        items = (first.get(p.name) if p.name in inside else p for p in self.parameters)
        return tuple(item for item in items if item is not None)

    @cached_property
    def wholes(self) -> dict[str, Structure]:
        """The structures, inner ones too, by the names under which rules ask for them."""
        return {inner.identifier: inner for structure in self.structures for inner in structure.all}

    def whole(self, name: str) -> Structure | None:
        """The structure of a name as callers or rules write it, if it is one."""
        return self.wholes.get(name.replace(".", "_"))

    def inputs(self, name: str) -> tuple[str, ...]:
        """The parameters meant by ``x`` or ``state.velocity``, and all differentiable ones by ``state``."""
        whole = self.whole(name)
        if whole is None:
            return next(((p.name,) for p in self.parameters if p.path == name), (name,))
        found = [n for n in whole.parameters if self.names[n].is_tensor and self.names[n].tensor.dtypes.differentiable]
        return tuple(found) or (name,)

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        """The arguments that callers pass by name alone; they come last."""
        return tuple(item.name for item in self.given if item.keyword_only)

    @cached_property
    def shape_arguments(self) -> tuple[str, ...]:
        """Non-tensor arguments on whose value a shape may depend: ``{k}``; all, where shapes are not annotated."""
        if not self.shaped:
            return tuple(p.name for p in self.parameters if not p.is_tensor)
        axes = [p.tensor.axes for _, p in self.tensors] + [output.type.axes for output in self.outputs]
        axes += [late.bound for late in self.late]
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
        parts = self._schema_parts(with_defaults=not lead)
        if lead:
            parts.append("int __lead")  # No parameter begins with two underscores.
        return f"({', '.join(parts)}) -> {_schema_of_results(self.outputs)}"

    def writing_schema(self) -> str:
        """The schema of the operator that writes, without the name: it returns what callers get."""
        shown = [output for output in self.returned if not output.saved]
        return f"({', '.join(self._schema_parts(written=True))}) -> {_schema_of_results(shown)}"

    def _schema_parts(self, *, with_defaults: bool = True, written: bool = False) -> list[str]:
        plain = [i for i, p in enumerate(self.parameters) if not with_defaults or not _has_schema_default(p)]
        last = plain[-1] if plain else -1  # The schema parser wants no default before a parameter without one.
        parts = [_schema_of(p, with_default=i > last) for i, p in enumerate(self.parameters)]
        for i, parameter in enumerate(self.parameters):
            if written and parameter.written:
                parts[i] = parts[i].replace("Tensor", f"Tensor(a{i}!)", 1)
        return parts

    def pack(self, outputs: Sequence[Tensor]) -> Any:
        """All outputs of the kernel, lists flattened, as the caller sees them."""
        groups = grouped(self.outputs, outputs)
        return pack(self.structure, [v for v, output in zip(groups, self.outputs, strict=True) if not output.saved])

    def pack_shown(self, seen: Sequence[Tensor]) -> Any:
        """The outputs that the caller sees, lists flattened, as one value."""
        return pack(self.structure, grouped(self.visible, seen))

    def pack_beside(self, seen: Sequence[Tensor]) -> Any:
        """The outputs that the caller of an operator that writes sees, as one value; None if there are none."""
        return pack(self.beside, seen) if seen else None


def pack(structure: type | None, seen: Sequence[Any]) -> Any:
    """Outputs as one value: a tensor or list, a tuple or a `NamedTuple`."""
    if structure is None:
        return seen[0]
    return tuple(seen) if structure is tuple else structure(*seen)


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


def _schema_of_results(outputs: Sequence[Output]) -> str:
    texts = ["Tensor[]" if output.many else "Tensor" for output in outputs]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _has_schema_default(parameter: Parameter) -> bool:
    """Return True if the schema parser knows a literal for the default; where not, the default is filled in before."""
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
