"""One rule: a function that asks for what it needs by parameter name."""

from __future__ import annotations

import difflib
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._randomness import Probe, draw_words
from .._spec.reading import local_names, resolve_hints
from .._spec.signature import Signature
from .._spec.workspace import read_workspaces
from ..errors import DeclarationError, RuleError
from .kinds import Kind, cotangent_names, differentiable_outputs
from .structures import Asked, readable_wholes

if TYPE_CHECKING:
    from .._build.native_function import NativeFunction
    from .._build.prototype import Prototype
    from .._build.source import Source


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule as a user declared it.

    Attributes:
        kind: vjp, jvp, partial or adjoint.
        inputs: the inputs that it is a derivative with respect to.
        call: the function, taking what it reads by position.
        reads: names of what it reads, in the order of its parameters.
        label: its name in tracebacks and profiles, ``linear.vjp[weight]``.
        opaque: differentiating through it would be wrong, and so raises.
        residual: it reads a floating `Saved` output, and so hangs on every input without reading it.
        array: it works on NumPy arrays.
        native: it is a function in C.
        independent: outputs that its inputs do not move, and whose cotangents it therefore does not read.
        written: the function as its author wrote it.
    """

    kind: Kind
    inputs: tuple[str, ...]
    call: Callable[..., Any]
    reads: tuple[str, ...]
    label: str
    opaque: bool
    residual: bool
    array: bool = False
    native: NativeFunction | None = None
    independent: tuple[str, ...] = ()
    written: Callable[..., Any] | None = None

    def ignored(self, signature: Signature) -> list[str]:
        """The cotangents that a VJP or adjoint should read and does not: their part of the gradient would be lost."""
        if self.kind not in ("vjp", "adjoint"):
            return []
        cotangents = cotangent_names(signature)
        return [g for output, g in cotangents.items() if g not in self.reads and output not in self.independent]

    @property
    def medium(self) -> str:
        """The language of the rule, for messages."""
        if self.native is not None:
            return "in C" if self.native.source.language == "c" else "in C++"
        return "on arrays" if self.array else "on tensors"

    def prototype(self, signature: Signature) -> Prototype:
        """The prototype of the C function that is the rule, or could be.

        Raises:
            DeclarationError: what it reads or returns has no counterpart in C.
        """
        if self.native is not None:
            return self.native.prototype
        from .native import rule_prototype  # Programs without C need nothing of it.

        return rule_prototype(signature, self.kind, self.inputs, self.reads, (), "_", self.label)

    def runs_on(self, device: str) -> bool:
        """Tell whether it computes on devices of a type."""
        return self.native.runs_on(device) if self.native is not None else not self.array or device == "cpu"

    @property
    def is_operator(self) -> bool:
        """True if it is its own operator, which tracers cannot see into."""
        return self.array or self.native is not None


def make_rule(
    signature: Signature,
    kind: Kind,
    inputs: Sequence[str],
    function: Callable[..., Any],
    *,
    source: Source | None = None,
    independent: Sequence[str] = (),
    frames: int,
) -> Rule:
    """Check a rule's names and read its annotations.

    Args:
        source: the rule is a function in C, and `function` its stub.
        independent: outputs that the inputs do not move.
        frames: how many frames above this one the annotations' names are found.

    Raises:
        DeclarationError: it asks for a name that does not exist, or is a rule for something that has no derivative.
    """
    label = f"{signature.name}.{kind}[{','.join(map(str, inputs))}]"
    if source is not None and source.launch is not None:
        raise DeclarationError(
            "a kernel in CUDA computes values, not derivatives", operator=label, expected="kernel=tg.c(...), or none",
            got="kernel=tg.cuda(...)", hint="declare an operator with this kernel, and call that in the rule",
        )  # fmt: skip
    given, inputs = inputs, [own for name in inputs for own in signature.inputs(str(name))]
    independent = tuple(independent)
    _check_inputs(signature, kind, inputs, label)
    _check_independent(signature, function, independent, label)
    wholes = readable_wholes(signature, kind, given, inputs)
    available = [*_available(signature, kind, inputs), *wholes]
    parameters = dict(_parameters(function, label, available))
    frame = inspect.currentframe()
    for _ in range(frames + 1):
        frame = frame.f_back if frame is not None else None
    hints = resolve_hints(function, label, frame)
    hints.pop("return", None)
    asked = Asked(signature, parameters, wholes, hints, label, local_names(function, frame))
    workspaces = read_workspaces(asked.names, hints, label)
    for _, name, workspace in workspaces:
        del parameters[name], hints[name]
        if source is None:
            raise DeclarationError(
                "only a rule in C has a workspace", operator=label, argument=name, expected="kernel=tg.c(...)",
                got=str(workspace), hint="allocate in the rule",
            )  # fmt: skip
    for parameter in parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise DeclarationError(
                "a rule asks for what it needs by name",
                operator=label,
                argument=parameter.name,
                expected=", ".join(available),
                got=str(parameter),
            )
        if parameter.name not in available:
            raise _unknown_name(label, parameter.name, available, kind, inputs)
    array = asked.arrays or any(_is_array(hint) for hint in hints.values())
    saved = {o.name for o in signature.outputs if o.saved and o.type.dtypes.differentiable}
    reads = tuple(name for name in asked.names if name not in {name for _, name, _ in workspaces})
    if kind == "jvp":
        _check_tangents(signature, inputs, reads, label)
    residual = bool(saved & set(reads))
    opaque = residual or ((array or source is not None) and kind != "adjoint")
    if source is None:
        call = asked.wrap(_renamed(function, label), given if kind in ("vjp", "adjoint") else ())
        call = Probe(call, function, lambda drawn: _refuse_random(label, drawn))
        return Rule(
            kind, tuple(inputs), call, reads, label, opaque, residual, array=array, independent=independent,
            written=function,
        )  # fmt: skip
    if all(name in signature.names and not signature.names[name].is_tensor for name in reads):
        raise DeclarationError(
            "a rule in C reads no tensor, by which torch would know where to run it", operator=label,
            expected="a tensor among the stub's parameters", got=", ".join(reads) or "none",
            hint=f"let the C function take {inputs[0]}, too",
        )  # fmt: skip
    from .._build.native_function import NativeFunction  # Programs without C need nothing of it.
    from .native import rule_prototype

    symbol = source.function or function.__name__
    prototype = rule_prototype(signature, kind, inputs, reads, workspaces, symbol, label)
    native = NativeFunction(source, prototype, label, RuleError)
    return Rule(
        kind, tuple(inputs), function, reads, label, opaque, residual, native=native, independent=independent,
        written=function,
    )  # fmt: skip


def _refuse_random(label: str, drawn: str) -> RuleError:
    return RuleError("the rule draws random numbers that it was not given", operator=label, **draw_words(drawn))


def _parameters(function: Callable[..., Any], label: str, available: Sequence[str]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError) as error:  # Functions written in C tell nothing about their parameters.
        raise DeclarationError(
            "a rule asks for what it needs by name, and this one's names cannot be read",
            operator=label,
            expected=f"a function of some of {', '.join(available)}",
            got=repr(function),
            hint="wrap it\nwrong: f.partial('x')(torch.cos)\nright: f.partial('x')(lambda x: torch.cos(x))",
        ) from error


def _is_array(hint: Any) -> bool:
    if typing.get_origin(hint) in (list, Sequence):
        return any(map(_is_array, typing.get_args(hint)))
    return hint is np.ndarray or getattr(hint, "array_type", None) is np.ndarray


def _check_inputs(signature: Signature, kind: Kind, inputs: Sequence[str], label: str) -> None:
    if not inputs:
        raise DeclarationError(
            f"@{signature.name}.{kind} needs the name of an input",
            operator=signature.name,
            expected=f'@{signature.name}.{kind}("{signature.tensors[0][1].shown}")',
            got=f"@{signature.name}.{kind}()",
        )
    for name in inputs:
        parameter = signature.names.get(name) if isinstance(name, str) else None  # type: ignore[redundant-expr] # Users err.
        tensors = [p.shown for _, p in signature.tensors]
        if parameter is None:
            raise DeclarationError(
                f"there is no input '{name}'",
                operator=label,
                argument=str(name),
                expected=", ".join(tensors),
                got=repr(name),
                hint=_nearest(str(name), tensors),
            )
        if not parameter.is_tensor or not parameter.tensor.dtypes.differentiable:
            raise DeclarationError(
                "is not differentiable" if parameter.is_tensor else "is not a tensor",
                operator=label,
                argument=parameter.shown,
                expected="a floating or complex tensor input",
                got=str(parameter.type),
                hint="delete the rule",
            )
    if len(set(inputs)) != len(inputs):
        raise DeclarationError("names an input twice", operator=label, expected="each input once", got=list(inputs))
    if kind == "partial" and not signature.elementwise:
        raise DeclarationError(
            "only an elementwise operator has partial derivatives",
            operator=label,
            expected='every tensor annotated "..."',
            got=", ".join(str(p.tensor) for _, p in signature.tensors),
            hint=f'declare @{signature.name}.vjp("{inputs[0]}")',
        )
    if kind in ("partial", "adjoint") and len(inputs) != 1:
        raise DeclarationError(
            f"@{signature.name}.{kind} is for one input", operator=label, expected="one name", got=list(inputs)
        )
    if not differentiable_outputs(signature):
        raise DeclarationError(
            "no output is differentiable",
            operator=label,
            expected="a floating or complex output",
            got=", ".join(f"{output.name}: {output}" for output in signature.visible),
        )


def _check_independent(
    signature: Signature, function: Callable[..., Any], independent: Sequence[str], label: str
) -> None:
    cotangents = cotangent_names(signature)
    reads = inspect.signature(function).parameters if independent else {}
    for name in independent:
        if name not in cotangents:
            raise DeclarationError(
                f"independent= names '{name}', which is no output with a gradient", operator=label, argument=name,
                expected=", ".join(cotangents), got=repr(name), hint=_nearest(name, list(cotangents)),
            )  # fmt: skip
        if cotangents[name] in reads:
            raise DeclarationError(
                f"reads the gradient of '{name}', which it calls independent", operator=label,
                argument=cotangents[name], expected="one of the two", got="both",
                hint=f"delete {cotangents[name]} from the rule's parameters, or '{name}' from independent=",
            )  # fmt: skip
    if independent and set(independent) == set(cotangents):
        raise DeclarationError(
            "is independent of every output", operator=label, expected="an output that the input moves",
            got=", ".join(independent), hint=f"say @{signature.name}.nondifferentiable(...) of the input",
        )  # fmt: skip


def _check_tangents(signature: Signature, inputs: Sequence[str], reads: Sequence[str], label: str) -> None:
    for name in inputs:
        tangent = f"{name}_tangent"
        if tangent not in reads:
            raise DeclarationError(
                f"does not read {tangent}, so that what moves through {name} would be lost", operator=label,
                argument=tangent, expected=f"a rule that reads {', '.join(f'{i}_tangent' for i in inputs)}",
                got=f"one that reads {', '.join(reads) or 'nothing'}",
                hint=f"multiply by {tangent}\nor, if {name} moves no output, leave it out of the rule, and say\n"
                f'{signature.name}.nondifferentiable("{signature.names[name].shown}", reason="...")',
            )  # fmt: skip


def _available(signature: Signature, kind: Kind, inputs: Sequence[str]) -> list[str]:
    names = list(signature.names)
    if kind == "adjoint":  # An adjoint does not depend on the value of its input, or on the output's.
        names = [name for name in names if name not in inputs]
    else:
        names += [output.name for output in signature.outputs]
    if kind in ("vjp", "adjoint"):
        names += list(cotangent_names(signature).values())
    if kind == "jvp":
        names += [f"{name}_tangent" for name in inputs]
    return names


def _unknown_name(label: str, name: str, available: list[str], kind: Kind, inputs: Sequence[str]) -> DeclarationError:
    hint = _nearest(name, available)
    if kind == "adjoint" and name in inputs:
        hint = f"the operator is linear in {name}, so that its adjoint cannot depend on {name}; else declare a vjp"
    gradients = [each for each in available if each.startswith("grad_")]
    if name.partition("_")[0] == "grad" and len(gradients) > 1:
        hint = f"each output has a gradient of its own: {', '.join(gradients)}"
    return DeclarationError(
        f"asks for '{name}', which does not exist",
        operator=label,
        argument=name,
        expected=", ".join(available),
        got=name,
        hint=hint,
    )


def _nearest(name: str, available: Sequence[str]) -> str | None:
    close = difflib.get_close_matches(name, available, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else None


def _renamed(function: Callable[..., Any], label: str) -> Callable[..., Any]:
    """A copy of `function` that tracebacks and profiles call by its label, taking all arguments by position."""
    if not isinstance(function, types.FunctionType):
        return function
    code = function.__code__.replace(co_name=label, co_qualname=label)
    copy = types.FunctionType(code, function.__globals__, label, function.__defaults__, function.__closure__)
    copy.__kwdefaults__, copy.__doc__ = function.__kwdefaults__, function.__doc__
    copy.__qualname__ = label
    copy.__module__ = function.__module__
    if not code.co_kwonlyargcount:
        return copy
    names = list(inspect.signature(function).parameters)
    only = set(code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount])

    def call(*values: Any) -> Any:
        pairs = dict(zip(names, values, strict=True))
        return copy(*[v for n, v in pairs.items() if n not in only], **{n: pairs[n] for n in only})

    return call
