"""Requirements of a declaration, checked when it is made."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Any

from ..errors import DeclarationError
from .axes import Axes
from .dtypes import ANY
from .late import PAD, Late
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
    _check_late(signature, refuse)
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
    for _, parameter in signature.tensors if not signature.elementwise else ():
        if parameter.number:
            raise refuse(
                "only an elementwise operator takes a number for a tensor", parameter.name, expected="a tensor alone",
                got="a tensor or a number", hint='annotate every tensor as Float[Tensor, "..."], or drop the number',
            )  # fmt: skip
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
    runs: set[Any] = set()  # None stands for `...`.
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
            if token.anonymous or not known:
                raise refuse(
                    f"axis {token.text} is never bound", name, expected="axes of a tensor parameter", got=axes.text
                )


def _check_late(signature: Signature, refuse: Callable[..., DeclarationError]) -> None:
    """Late sizes are those of outputs alone, and each is the size of an axis in one of them."""
    if signature.late and signature.loop:
        raise refuse(
            'batch="loop" puts samples into one tensor, and their sizes would differ', "data_dependent",
            expected="outputs whose sizes are known before the call", got=" ".join(map(str, signature.late)),
            hint=PAD,
        )  # fmt: skip
    inputs = [(p.name, p.tensor.axes) for _, p in signature.tensors]
    outputs = [(output.name, output.type.axes) for output in signature.outputs]
    for name, axes in outputs if signature.late else ():
        if axes is None:
            raise refuse("an output without axes cannot stand beside late sizes", name,
                expected="annotated axes for every output", got="none")  # fmt: skip
    for late in signature.late:
        for name, axes in inputs:
            if axes is not None and late.name in _names(axes):
                raise refuse(
                    f"axis {late.name} is one of input '{name}', so that its size is known before the call", name,
                    expected="an axis that no input has", got=axes.text,
                    hint="delete it from data_dependent=, or give the output's axis another name",
                )  # fmt: skip
        tokens = [(name, token) for name, axes in outputs for token in (axes.tokens if axes else ())]
        for name, token in tokens:
            if token.name == late.name and token.text != late.name:
                raise refuse(f"axis {late.name} has a size of its own", name, expected=late.name, got=token.text)
        if not any(token.name == late.name for _, token in tokens):
            within = [token.text for _, token in tokens if late.name in token.reads[0]]
            raise refuse(
                f"no output has axis {late.name} by itself, from which its size could be read" if within
                else f"no output has axis {late.name}",
                "data_dependent", expected=f'an output with the axis, such as Float[Tensor, "{late.name}"]',
                got=", ".join(within) or ", ".join(f"{name}: '{axes}'" for name, axes in outputs),
            )  # fmt: skip
        if late.bound is not None:
            _check_bound(signature, late, refuse)


def _check_bound(signature: Signature, late: Late, refuse: Callable[..., DeclarationError]) -> None:
    assert late.bound is not None
    (token, *more) = late.bound.tokens
    inputs = {name for _, p in signature.tensors if p.tensor.axes is not None for name in p.tensor.axes.binds}
    plain = not more and not token.variadic and not token.broadcast and not token.anonymous
    if not plain or (token.name is not None and token.name not in inputs):
        raise refuse(
            f"the bound of axis {late.name} cannot be read", "data_dependent",
            expected=f"a size that the inputs tell, such as {late.name} <= {min(inputs, default='100')}", got=str(late),
        )  # fmt: skip


def _names(axes: Axes) -> set[str | None]:
    return {token.name for token in axes.tokens} | axes.reads()[0]


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
