"""Targets of the checker, and how each kind is called."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import nn

from .. import _torch
from .._function.function import Function
from .._kernels.kernel import positional
from .._lower.structures import take_apart
from .._nn.module import Module
from .._op import Op
from .._record import Record
from .._rules.surrogate import function_name, read_surrogates
from .._spec.accuracy import read_accuracy
from .._spec.outputs import spread
from .._spec.signature import Output, Signature
from ..errors import ArgumentError

FUNCTIONS = (torch.autograd.Function, Function)

Kind = Literal["operator", "function", "library", "module", "callable"]
OWN = ("operator", "function", "library")
"""Kinds of targets whose derivatives are no one else's."""


@dataclass(frozen=True)
class Declared:
    """Declarations about a target.

    Attributes:
        accuracy: to which its values are right, relative to the largest element of each output; None is its dtype's.
        surrogates: by the names of arguments, functions whose derivative is meant in the place of the target's own.
        left_out: inputs and outputs without a derivative, of which there is nothing to prove.
        straight_through: names of primals whose surrogate detaches a part: the derivative by autograd is meant.
    """

    accuracy: float | None = None
    surrogates: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    straight_through: frozenset[str] = frozenset()

    @property
    def error(self) -> float:
        """The relative error that the accuracy admits; 0 where none is declared."""
        return self.accuracy or 0.0

    @property
    def words(self) -> tuple[str, ...]:
        """The declarations as the headline of a report shows them."""
        words = [] if self.accuracy is None else [f"to {self.accuracy:g}"]
        words += [f"{name}: surrogate of {function_name(of)}" for name, of in self.surrogates.items()]
        words += [f"left out: {', '.join(self.left_out)}"] if self.left_out else []
        return tuple(words)


@dataclass(frozen=True)
class State:
    """The mode of a module, buffers and numbers among its attributes, which are not those that it was given with."""

    training: bool
    buffers: Mapping[str, torch.Tensor] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)


def differentiable(value: Any) -> bool:
    """Return True for a tensor that may have a derivative."""
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


@dataclass(frozen=True)
class Target:
    """Something that is called with tensors and returns tensors.

    Attributes:
        name: for reports.
        kind: a torchgraft operator, an `autograd.Function`, a `torch.library` operator, a module, or any callable.
        function: what is called. A module's takes its parameters, a dictionary, as first argument.
        origin: what was given.
        parameters: names of the positional arguments, as far as they are known.
        constants: names of arguments that were declared to have no derivative.
        signature: parameters of what its author wrote, by name.
        outputs: of an operator, those that it returns.
        returns: names of the differentiable outputs, as those of a backward have; empty where they have none.
        declared: what qualifies the verdict.
        late: sizes of its outputs that hang on values, as reports name them; empty where there are none.
        samples: functions of its author's that yield calls, as `Op.samples` takes them: of an operator those that were
            declared, of anything else the attribute ``samples``.
        writing: the operator that writes, of which this is the function behind it.
        limited: its calls are stopped where they take far more work than the given call.
        state: of a module in another state than it was given in, of which `origin` is a copy.
    """

    name: str
    kind: Kind
    function: Callable[..., Any]
    origin: Any
    parameters: tuple[str, ...] = ()
    constants: frozenset[str] = frozenset()
    signature: Mapping[str, inspect.Parameter] = field(default_factory=dict)
    samples: tuple[Callable[..., Any], ...] = ()
    outputs: tuple[Output, ...] = ()
    returns: tuple[str, ...] = ()
    declared: Declared = field(default_factory=Declared)
    writing: Op[..., Any] | None = None
    late: str = ""
    limited: bool = False
    state: State | None = None

    def differentiable(self, returned: Any) -> list[torch.Tensor]:
        """The tensors among what it returned that may have a derivative, but for those declared to have none."""
        leaves = [returned] if isinstance(returned, torch.Tensor) else _torch.pytree.tree_leaves(returned)
        if self.has_inert:  # Of other targets, outputs are what they return.
            leaves = [leaf for leaf, o in zip(leaves, spread(self.outputs, len(leaves)), strict=True) if not o.inert]
        return [leaf for leaf in leaves if differentiable(leaf)]

    def output_names(self, count: int) -> list[str]:
        """The names of its differentiable outputs in reports, if there are so many."""
        return list(self.returns) or (["the output"] if count == 1 else [f"output {i}" for i in range(count)])

    @property
    def has_inert(self) -> bool:
        """True if an output was declared to have no derivative."""
        return any(output.inert for output in self.outputs)

    @property
    def operator(self) -> Op[..., Any] | None:
        """The torchgraft operator, if it is one."""
        return self.origin if isinstance(self.origin, Op) else None

    @property
    def seed(self) -> str | None:
        """The name of the operator's seed, if it draws random numbers."""
        at = None if self.operator is None else self.operator._record.signature.seed
        return None if at is None or self.operator is None else self.operator._record.signature.parameters[at].name

    @property
    def is_torch(self) -> bool:
        """True for functions and modules of torch's."""
        named = {"callable": self.origin, "module": type(self.origin)}.get(self.kind)
        return (getattr(named, "__module__", None) or "").partition(".")[0] == "torch"

    def flattened(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments of a call with fields in the place of structures, which an operator is checked by.

        Raises:
            ArgumentError: they do not fit its parameters.
        """
        op = self.operator
        if op is None or not op._record.signature.structures:
            return args, kwargs
        try:
            bound = inspect.signature(op).bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(
                str(error), operator=op._record.name, expected=str(inspect.signature(op)),
                got=f"{len(args)} arguments by place, and {', '.join(kwargs) or 'none'} by name",
            ) from None  # fmt: skip
        bound.apply_defaults()
        return take_apart(op._record.signature, list(bound.arguments.values())), {}

    def calling(self, function: Callable[..., Any]) -> Target:
        """Return the target with another function in the place of its own."""
        return replace(self, function=function)

    def in_state(self, state: State) -> Target:
        """Return the target with a copy of its module in another state."""
        module = copied(self.origin, dict(self.origin.named_parameters()))
        module.train(state.training)  # One that is overridden may return nothing.
        with torch.no_grad():
            for name, value in state.buffers.items():
                module.get_buffer(name).copy_(value)
        for name, number in state.numbers.items():
            part, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(part), attribute, number)
        return replace(self, function=functional(module), origin=module, state=state)

    def name_of(self, path: tuple[Any, ...]) -> str:
        """The name of an argument, from its place in ``(args, kwargs)``."""
        which, *rest = path
        if which.idx == 1:
            name = str(rest.pop(0).key)
        else:
            index = rest.pop(0).idx
            name = self.parameters[index] if index < len(self.parameters) else f"input {index}"
        if self.kind == "module" and which.idx == 0 and index == 0:
            return str(rest[0].key)
        return name + _torch.pytree.keystr(tuple(rest))


def make_target(
    origin: Any,
    *,
    name: str | None = None,
    accuracy: float | None = None,
    surrogate: Mapping[str, Callable[..., Any]] | None = None,
) -> Target:
    """The target that `origin` is.

    Args:
        origin: what is to be checked.
        name: for reports.
        accuracy: of its values, in the place of the one that it declares itself.
        surrogate: functions whose derivative is meant, by the names of arguments, beside those that it declares.

    Raises:
        ArgumentError: it cannot be called, the accuracy is not between 0 and 1, or surrogates are no functions.
    """
    made = _made(origin, name)
    accuracy = read_accuracy(accuracy, ArgumentError) or made.declared.accuracy
    meant = {**made.declared.surrogates, **_surrogates(origin), **read_surrogates(surrogate, ArgumentError)}
    declared = replace(made.declared, accuracy=accuracy, surrogates=meant)
    function = function_of(origin)
    written = origin.forward if isinstance(origin, nn.Module) else origin if function is None else function.forward
    return replace(made, samples=_samples(origin), declared=declared, signature=_signature(written))


def _made(origin: Any, name: str | None) -> Target:
    if isinstance(origin, Op):
        record = origin._record
        function = origin.functional
        paths = {p.name: p.shown for p in record.signature.parameters}
        constants = [paths.get(name, name) for name in record.nondifferentiable]
        surrogates = {paths[name]: of for name, of in record.surrogates.items()}
        return Target(
            name or record.name, "operator", on_fields(record.signature, function), function, tuple(paths.values()),
            frozenset(constants), outputs=record.signature.visible,
            declared=Declared(record.accuracy, surrogates, tuple(constants)),
            writing=None if function is origin else origin,
            late=" and ".join(sorted(record.signature.late_names)),
        )  # fmt: skip
    if isinstance(origin, nn.Module):
        _require_sizes(origin)
        parameters = ("parameters", *_parameters(origin.forward))
        declared = _declared_for(origin) if isinstance(origin, Module) else Declared()
        undifferentiated = frozenset(declared.left_out)
        paddings = tuple(f"{weight}[{row}]" for weight, row in _paddings(origin).items())
        declared = replace(declared, left_out=(*declared.left_out, *paddings))
        return Target(
            name or type(origin).__name__, "module", functional(origin), origin, parameters, undifferentiated,
            declared=declared,
        )  # fmt: skip
    function = function_of(origin)
    if function is not None:
        origin = function.apply if origin is function else origin
        names = _parameters(function.forward)[contexts(function) :]
        return Target(name or function.__name__, "function", origin, origin, names)
    overload = _torch.overload_of(origin)
    if overload is not None:
        names = tuple(argument.name for argument in overload._schema.arguments)
        return Target(name or str(overload), "library", origin, overload, names)
    if not callable(origin):
        raise ArgumentError(
            "cannot be checked", argument="target", got=type(origin).__name__,
            expected="an operator, a Function's apply, a module, or a function on tensors",
        )  # fmt: skip
    return Target(name or function_name(origin), "callable", origin, origin, _parameters(origin))


def _require_sizes(module: nn.Module) -> None:
    """Raise an `ArgumentError` if a module has parameters or buffers that get their sizes in its first call."""
    every = (*module.named_parameters(), *module.named_buffers())
    lazy = [name for name, tensor in every if nn.parameter.is_lazy(tensor)]
    if lazy:
        raise ArgumentError(
            "has tensors that get their sizes in its first call", argument="target",
            expected="a module that was called once", got=f"{type(module).__name__} with {', '.join(lazy)}",
        )  # fmt: skip


def operands(
    target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Record, tuple[Any, ...], dict[str, Any]] | None:
    """Return what is known of an operator, or of that of a module, and its arguments; None for anything else."""
    if target.operator is not None:
        return target.operator._record, args, kwargs
    if not isinstance(target.origin, Module):
        return None
    module: Module[Any] = target.origin
    taken: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    functional(module.computing(lambda *args, **kwargs: taken.append((args, kwargs))))(*args, **kwargs)
    return module._plan.op._record, *taken[0]


def _declared_for(module: Module[Any]) -> Declared:
    """Return what the operator of a module declares, whose arguments are those of the module or its parameters."""
    record = module._plan.op._record
    surrogates = {name: module.computing(of) for name, of in record.surrogates.items()}
    return Declared(record.accuracy, surrogates, tuple(record.nondifferentiable))


def on_fields(signature: Signature, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the operator's parameters as one of the fields of its structures; as it is where it has none."""
    return positional(signature, function) if signature.structures else function


def function_of(origin: Any) -> Any:
    """The class of a Function, torch's or torchgraft's, or of its ``apply``; None for anything else."""
    owner = origin if isinstance(origin, type) else getattr(origin, "__self__", None)
    return owner if isinstance(owner, type) and issubclass(owner, FUNCTIONS) else None


def contexts(function: Any) -> int:
    """Count the first parameters of a Function's `forward` that are no arguments: 1, or 0 beside `setup_context`."""
    if issubclass(function, Function):
        return 0 if function._dialect.kind == "setup" else 1
    return 1 if function.setup_context is torch.autograd.Function.setup_context else 0


def _samples(origin: Any) -> tuple[Callable[..., Any], ...]:
    if isinstance(origin, Op):
        return tuple(origin._record.samples)
    found = getattr(function_of(origin) or origin, "samples", None)
    return (found,) if callable(found) else ()


def _surrogates(origin: Any) -> dict[str, Callable[..., Any]]:
    """The attribute ``surrogate`` of a Function, a module or a function; an operator's are in its record."""
    found = getattr(function_of(origin) or origin, "surrogate", None)
    return read_surrogates(found, ArgumentError) if isinstance(found, Mapping) else {}


def functional(module: nn.Module) -> Callable[..., Any]:
    """A module as a function of its parameters; it stays as it is."""
    copies = can_be_copied(module)
    # Compilers do not follow the copying: they see one copy, in which calls leave what they leave.
    borrow = borrowed(copied(module, dict(module.named_parameters())) if copies else module)

    def call(parameters: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        if copies and not torch.compiler.is_compiling():
            return copied(module, parameters)(*args, **kwargs)
        return borrow(parameters, *args, **kwargs)

    return call


def _paddings(module: nn.Module) -> dict[str, int]:
    """Rows of embeddings that stand for padding, by the names of weights: torch gives them no gradient on purpose."""
    rows = {
        id(part.weight): part.padding_idx
        for part in module.modules()
        if isinstance(part, nn.Embedding) and part.padding_idx is not None
    }
    return {name: rows[id(own)] for name, own in module.named_parameters() if id(own) in rows}


def _padded(module: nn.Module) -> Callable[[Mapping[str, torch.Tensor]], dict[str, torch.Tensor]]:
    """Return what puts the module's own rows for padding into the parameters of a call."""
    known = dict(module.named_parameters())
    rows = {name: (row, known[name].detach()) for name, row in _paddings(module).items()}

    def fixed(parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        parameters = dict(parameters)
        for name, (at, own) in rows.items():
            weight = parameters[name]
            chosen = torch.arange(len(weight), device=weight.device).eq(at)[:, None]
            row = own.to(weight.dtype) if own.shape == weight.shape else torch.zeros_like(weight)
            parameters[name] = torch.where(chosen, row, weight)
        return parameters

    return fixed


def borrowed(module: nn.Module, *, lasting: bool = False) -> Callable[..., Any]:
    """A module as a function that has other parameters for the time of a forward; its buffers are what they were.

    If `lasting`, parameters stay until the next call: the backward of a reversible block reads them from the module.
    """
    slots = {
        name: [(part._parameters, key) for part in module.modules() for key, p in part._parameters.items() if p is own]
        for name, own in module.named_parameters()
    }
    padded = _padded(module)

    def call(parameters: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        parameters = padded(parameters)
        replaced = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
        if not lasting:
            return torch.func.functional_call(module, replaced | parameters, args, kwargs)
        for name, value in parameters.items():
            for held, key in slots[name]:
                held[key] = value  # type: ignore[assignment] # Without a gradient, the value is a plain tensor.
        return torch.func.functional_call(module, replaced, args, kwargs)

    return call


def can_be_copied(module: nn.Module) -> bool:
    """Return False if a module holds a lock, a file, or the like, or parameters in C++, as TorchScript does."""
    own, padded = dict(module.named_parameters()), _paddings(module)
    try:
        found = dict(copied(module, own).named_parameters())
    except Exception:
        return False
    return all(found.get(name) is parameter for name, parameter in own.items() if name not in padded)


def copied(module: nn.Module, parameters: Mapping[str, torch.Tensor]) -> nn.Module:
    """A copy of a module for one call, whose parameters are these very tensors, but for rows for padding.

    Its backward reads them from the copy as its forward did, however late it runs: the call is run again in a
    checkpoint or in a reversible block, and accumulates gradients there.
    """
    given = _padded(module)(parameters)
    memo: dict[int, Any] = {id(own): given[name] for name, own in module.named_parameters()}
    for part in module.modules():
        for held in (*vars(part).values(), *part._buffers.values()):
            if isinstance(held, torch.Tensor):  # `deepcopy` refuses what is no leaf, such as a weight that is normed.
                with torch.inference_mode(False):  # The module was not made in the mode of a call.
                    memo[id(held)] = held.detach().clone().requires_grad_(held.requires_grad and held.is_leaf)
    return copy.deepcopy(module, memo)


def _signature(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    for evaluated in (True, False):  # Annotations that are text may name what is not imported.
        try:
            return inspect.signature(function, eval_str=evaluated).parameters
        except Exception:  # Some builtins tell nothing.
            continue
    return {}


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(name for name, p in _signature(function).items() if p.kind in positional)


def on_the_same(target: Target, of: Callable[..., Any]) -> Callable[..., Any]:
    """Return a surrogate as a function of what the target's function takes: a module's takes the parameters first."""
    if target.operator is not None and not isinstance(of, Op):
        return on_fields(target.operator._record.signature, of)
    if target.kind != "module":
        return of if isinstance(of, nn.Module) else make_target(of).function
    made = make_target(of)
    if made.kind == "module":
        return made.function

    def call(parameters: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        asked = {name: value for name, value in parameters.items() if name in made.parameters}
        return made.function(*args, **kwargs, **asked)

    return call
