"""Requirements of a declaration, checked when it is made."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Any

from ..errors import DeclarationError
from .dtypes import ANY
from .late_declaration import check_late
from .signature import Signature


def check_declaration(signature: Signature) -> None:
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
    check_late(signature, refuse)
    _check_axes(signature, refuse)
    _check_dtypes(signature, refuse)


def _check_names(signature: Signature, refuse: Callable[..., DeclarationError]) -> None:
    taken: dict[str, str] = {}
    reserved = {"grad": "a cotangent"}
    for output in signature.outputs:
        reserved[f"grad_{output.after or output.name}"] = "a cotangent"
    for _, parameter in signature.tensors:
        reserved[f"{parameter.name}_tangent"] = "a tangent"
    structures = [structure for given in signature.structures for structure in given.all]
    for structure in structures:
        reserved[f"{structure.identifier}_tangent"] = "a tangent"
    parameters = [(p.name, "a parameter" if p.path is None else f"the field {p.path}") for p in signature.parameters]
    parameters += [(structure.identifier, f"the structure {structure.name}") for structure in structures]
    for name, what in parameters + [(output.name, "an output") for output in signature.outputs]:
        clash = reserved.get(name) or taken.get(name)
        if clash is not None:
            raise refuse(
                f"the name '{name}' is already that of {clash}",
                name,
                expected="names that rules can tell apart",
                got=f"{what} called '{name}'",
                hint="use a NamedTuple, or rename the parameter" if what == "an output" else "rename it",
            )
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__"):
            expected = "an identifier that does not begin with '__'"
            raise refuse(f"'{name}' is not a name", name, expected=expected, got=name)
        taken[name] = what
    lists = [output.name for output in signature.outputs if output.many]
    if len(lists) > 1:
        raise refuse(
            "an operator returns one list of tensors at most", lists[1], expected="one list, beside tensors",
            got=", ".join(map(str, signature.outputs)), hint="return one list, and take it apart after the call",
        )  # fmt: skip
    beside = "an argument that is written" if signature.written else "a late size" if signature.late else None
    if lists and beside:
        raise refuse(
            f"a list of tensors cannot stand beside {beside}", lists[0], expected="one of the two",
            got=", ".join(map(str, signature.returned)), hint="declare two operators",
        )  # fmt: skip


def _check_kinds(signature: Signature, refuse: Callable[..., DeclarationError]) -> None:
    for _, parameter in signature.tensors if not signature.elementwise else ():
        if parameter.number:
            raise refuse(
                "only an elementwise operator takes a number for a tensor", parameter.shown, expected="a tensor alone",
                got="a tensor or a number", hint='annotate every tensor as Float[Tensor, "..."], or drop the number',
            )  # fmt: skip
    kinds = {p.tensor.numpy for _, p in signature.tensors} | {output.type.numpy for output in signature.outputs}
    if len(kinds) > 1:
        raise refuse(
            "mixes Tensor and np.ndarray",
            "annotations",
            expected="one kind of array for the kernel's inputs and outputs",
            got=", ".join(str(p.tensor) for _, p in signature.tensors) + " -> "
            + ", ".join(map(str, signature.outputs)),
        )  # fmt: skip


def _check_axes(signature: Signature, refuse: Callable[..., DeclarationError]) -> None:
    bound: set[str] = set()
    runs: set[Any] = set()  # None stands for `...`.
    annotated = [(p.shown, p.tensor.axes) for _, p in signature.tensors]
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
    results = [(output.name, output.type.axes) for output in signature.returned]
    lists = {output.name for output in signature.returned if output.many}
    scalars = {
        p.name
        for p in signature.parameters
        if not p.is_tensor and p.scalar.type is int and not p.scalar.many and not p.optional
    }
    bounds = [("data_dependent", late.bound) for late in signature.late]
    for name, axes in annotated + bounds + results:
        if axes is None:
            continue
        reads, arguments = axes.reads()
        readable = bound | signature.late_names if (name, axes) in results else bound
        unknown = sorted(reads - readable) + sorted(f"{{{a}}}" for a in arguments - scalars)
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
            known = token.name in bound | signature.late_names if token.name is not None else True
            if token.variadic:
                known = token.name in runs
            if token.anonymous and name in lists:  # The shape rule gives its size, for each tensor of its own.
                continue
            if token.anonymous or not known:
                late = token.name is not None and not token.variadic
                raise refuse(
                    f"axis {token.text} is never bound", name, expected="axes of a tensor parameter", got=axes.text,
                    hint='an axis of which every tensor has its own size is "_"' if name in lists
                    else f'if its size is known only after the call: @tg.op(data_dependent="{token.name}")'
                    if late else "if a shape rule gives its size: -> Tensor, and @f.shape",
                )  # fmt: skip


def _check_dtypes(signature: Signature, refuse: Callable[..., DeclarationError]) -> None:
    if any(p.tensor.dtypes.numeric or p.tensor.dtypes is ANY for _, p in signature.tensors):
        return
    for output in signature.returned:
        if output.type.dtypes.numeric:
            raise refuse(
                f"a {output.type.dtypes} output takes its dtype from a floating input, and there is none",
                output.name,
                expected="an exact dtype, such as Float64",
                got=str(output.type),
            )
