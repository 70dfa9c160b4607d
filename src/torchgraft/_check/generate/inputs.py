"""Cases for a target: generated ones, and those of its author."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ... import _torch
from ..._spec.domain import Domain, check_domains, declared_domains
from ..._spec.reading import read_signature, resolve_hints
from ..._spec.signature import Signature
from ...errors import (
    ArgumentError,
    BuildError,
    DeclarationError,
    DeviceError,
    DtypeError,
    KernelError,
    TorchgraftError,
)
from ..case import Case, Linearization
from ..checks.reference import reference_outputs
from ..children import survive
from ..ended import Ended, Endless
from ..endless import endless
from ..finding import Inconclusive
from ..late import alike
from ..target import Target, contexts, differentiable, function_of
from .arguments import PRECISIONS, Arguments
from .sizes import Draw, Impossible

Call = tuple[tuple[Any, ...], dict[str, Any]]

_IN_VAIN = 60
"""Refusals, one after the other, after which no more arguments are tried."""

_REFUSING = (
    ArgumentError, DtypeError, DeviceError, ValueError, ArithmeticError, NotImplementedError,
    torch.linalg.LinAlgError,  # type: ignore[attr-defined] # It is documented, not re-exported.
)  # fmt: skip
_REFUSALS = ("not implemented for", "not differentiable with respect to")
"""Words of torch's where it has no code for a dtype, or no derivative by an argument."""

_VALUES = (ValueError, ArithmeticError, KernelError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
"""Errors that speak of values, which the reference must refuse too."""


@dataclass(frozen=True)
class Refusal:
    """Arguments that the target did not take.

    Attributes:
        case: the call.
        label: the arguments, in words.
        error: what it raised.
        sample: they were declared as a sample.
        deliberate: it said no, by an error that says that arguments are wrong; else it broke.
    """

    case: Case
    label: str
    error: Exception
    sample: bool
    deliberate: bool


class Inputs:
    """Cases for a target, without end: iterate.

    The first is the plainest, later ones are odder; between them are the samples that were declared. The same seed
    gives the same cases. Each was tried: what the target refuses is left out, and counted.

    Args:
        target: an operator, a function with jaxtyping annotations, or anything that has samples.
        seed: of all that is drawn.
        precisions: that floating tensors may have, plain ones first.
        apart: try each in a child, for it may end the process.

    Attributes:
        refused: what it did not take so far.

    Raises:
        ArgumentError: neither annotations nor samples say what the target takes.

    Example:
        >>> for case in itertools.islice(Inputs(make_target(linear), seed=0), 20):
        ...     print(case.label)
    """

    def __init__(
        self, target: Target, *, seed: int = 0, precisions: Sequence[torch.dtype] = PRECISIONS, apart: bool = False
    ) -> None:
        self.target, self.seed, self.apart = target, seed, apart
        self.refused: list[Refusal] = []
        known = signature_of(target)
        if known is None and not target.samples:
            raise ArgumentError(
                f"nothing says what {target.name} takes", argument="inputs",
                expected="inputs, or a jaxtyping annotation of each parameter", got="neither",
                hint="pass tensors to check it with",
            )  # fmt: skip
        # Arguments have the precision of parameters.
        parameters = target.origin.parameters() if target.kind == "module" else ()
        own = [parameter.dtype.to_real() for parameter in parameters if differentiable(parameter)]
        self._arguments = known and Arguments(*known, own[:1] or precisions, target.constants)

    def __iter__(self) -> Iterator[Case]:
        counter = itertools.count(self.seed)
        own = _samples(self.target, self.seed)
        for case in self._generated(self._arguments, counter) if self._arguments is not None else ():
            yield case
            yield from self._tried(itertools.islice(own, 1), counter, sample=True)
        yield from self._tried(own, counter, sample=True)

    def _generated(self, arguments: Arguments, counter: Iterator[int]) -> Iterator[Case]:
        draw, in_vain = Draw(self.seed), 0
        while in_vain < _IN_VAIN:
            if self.refused and isinstance(self.refused[-1].error, (BuildError, DeclarationError, Endless)):
                return  # A kernel that does not compile refuses all; and each call without end takes a minute.
            draw.begin()
            taken: list[Case] = []
            with contextlib.suppress(Impossible):
                args, kwargs, traits = arguments.draw(draw)
                taken += self._tried([(args, kwargs)], counter, traits=traits)
            draw.end(accepted=bool(taken))
            in_vain = 0 if taken else in_vain + 1
            yield from taken

    def _tried(
        self,
        calls: Iterable[Call],
        counter: Iterator[int],
        *,
        sample: bool = False,
        traits: frozenset[str] = frozenset(),
    ) -> Iterator[Case]:
        """The cases that the target takes."""
        for args, kwargs in calls:
            case = make_case(self.target, args, kwargs, seed=next(counter), traits=traits)
            error = attempt(case, apart=self.apart)
            if error is None:
                if sample or not _is_at_a_jump(case):
                    yield case
                continue
            label, deliberate = case.label, is_deliberate(case, error)
            if deliberate and isinstance(error, _VALUES) and _reference_takes(case):
                label, deliberate = f"{label}, of which the reference gives the value", False
            self.refused.append(Refusal(case, label, error, sample, deliberate))


def _is_at_a_jump(case: Case) -> bool:
    """Tell whether sizes that hang on values change next to the point: by chance a value is at a bound."""
    if not case.target.late:
        return False
    try:
        for sign in (1, -1):
            case.values([primal + sign * _small(case, primal) for primal in case.primals])
    except Inconclusive:
        return True
    except Exception:  # The checks report it.
        return False
    return False


def _small(case: Case, primal: Tensor) -> Tensor:
    """A change of each element, zeros too, up and down in turn, which keeps equal elements equal."""
    step = torch.finfo(primal.dtype).eps ** 0.5 * (float(primal.abs().max()) if primal.numel() else 0.0)
    return alike(case.target, step * (1 - 2 * (torch.arange(primal.numel()) % 2)).view(primal.shape), primal)


def make_case(
    target: Target, args: Sequence[Any], kwargs: Mapping[str, Any], *, seed: int, traits: frozenset[str] = frozenset()
) -> Case:
    """A case; a module gets its parameters too, and is differentiated by both; an operator gets fields one by one.

    An operator's seed is given.
    """
    if target.seed is not None:
        kwargs = {target.seed: seed, **kwargs}
    if target.kind != "module":
        return Case(target, *target.flattened(args, kwargs), seed=seed, traits=traits)
    if not any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in _torch.pytree.tree_leaves((args, kwargs))):
        given = tuple(args), dict(kwargs)
        args, kwargs = _torch.pytree.tree_map_only(differentiable, lambda leaf: leaf.detach().requires_grad_(), given)
    return Case(target, (dict(target.origin.named_parameters()), *args), kwargs, seed=seed, traits=traits)


def attempt(case: Case, *, apart: bool = False) -> Exception | None:
    """Call the target; what it raises, if it does, or its end.

    Args:
        case: the call.
        apart: it may end the process, and so may its backward: try both in a child, where there can be one.
    """

    def call() -> None:
        with torch.no_grad():
            case.call()
        with contextlib.suppress(Exception):  # The checks report what a backward raises.
            recorded = case.linearize() if apart else Linearization([], [])
            recorded.vjp([torch.ones_like(output) for output in recorded.outputs])

    try:
        survive(call, apart=apart)
    except _torch.TooMuch as stopped:
        return endless(stopped, case.label)
    except Exception as error:  # Whatever it is, the target does not take these arguments.
        return error
    return None


def is_deliberate(case: Case, error: Exception) -> bool:
    """Tell whether an error says that the arguments are wrong, rather than that the target is.

    C functions say so by a code, torch of what it has no code or derivative for, and of empty tensors in any words.
    """
    if isinstance(error, Ended):
        return False
    if isinstance(error, TorchgraftError) and not isinstance(error, _REFUSING):
        op = case.target.operator
        return isinstance(error, KernelError) and op is not None and op._record.kernels[None].trusted
    empty = any(isinstance(leaf, Tensor) and leaf.numel() == 0 for leaf in case.leaves)
    return isinstance(error, _REFUSING) or any(words in str(error) for words in _REFUSALS) or empty


def _reference_takes(case: Case) -> bool:
    """Tell whether the operator's reference gives plain numbers for these arguments, all of which it can represent."""
    op, tensors = case.target.operator, [leaf for leaf in case.leaves if isinstance(leaf, Tensor)]
    wide = (torch.float64, torch.complex128)
    plain = all(t.numel() and (t.dtype in wide or not differentiable(t)) for t in tensors)
    if op is None or op._record.reference is None or not plain:
        return False
    try:
        expected = reference_outputs(op, *case.arguments(case.primals))
    except Exception:  # The reference refuses them as well.
        return False
    return all(bool(value.isfinite().all()) for value in expected)


# -- samples --------------------------------------------------------------------------------------------------------


def _samples(target: Target, seed: int) -> Iterator[Call]:
    """Yield the calls of the target's samples, as positional and keyword arguments."""
    for function in target.samples:
        generator = torch.Generator().manual_seed(seed)
        made = function(*((generator,) if inspect.signature(function).parameters else ()))
        for call in made if isinstance(made, Iterable) and not isinstance(made, Tensor) else [made]:
            yield _as_call(target.name, call)


def _as_call(name: str, call: Any) -> Call:
    match call:
        case Tensor():
            return (call,), {}
        case tuple():
            return call, {}
        case dict():
            return (), call
    raise DeclarationError(
        "a function of samples yields something else than calls", operator=f"{name}.samples",
        expected="a tuple of arguments, a dictionary of arguments by name, or a tensor", got=type(call).__name__,
        hint="yield x, weight",
    )  # fmt: skip


# -- the signature of a target: an operator's own, or that of a function with jaxtyping annotations ------------------


def signature_of(target: Target) -> tuple[Signature, Mapping[str, Domain]] | None:
    """The signature and the domains of a target; None where annotations do not say what it takes."""
    if target.operator is not None:
        record = target.operator._record
        return record.signature, record.domains
    function, bound = _annotated(target.origin)
    if function is None:
        return None
    try:
        signature = _read(function, target.name, bound)
        domains = declared_domains(function)
        check_domains(signature, domains)
    except DeclarationError:
        return None
    shaped = all(parameter.tensor.axes is not None for _, parameter in signature.tensors)
    return (signature, domains) if shaped else None


def _annotated(origin: Any) -> tuple[Callable[..., Any] | None, int]:
    """The Python function that a user wrote, and how many of its first parameters callers do not pass."""
    if isinstance(origin, nn.Module):
        return type(origin).forward, 1
    owner = function_of(origin)
    if owner is not None:
        return getattr(owner, "forward", None), contexts(owner)
    function = inspect.unwrap(origin) if callable(origin) else None
    return (function if isinstance(function, types.FunctionType) else None), 0


def _read(function: Callable[..., Any], name: str, bound: int) -> Signature:
    """The signature without the first parameters."""
    hints = resolve_hints(function, name, None)
    parameters = list(inspect.signature(function).parameters.values())[bound:]
    if any(p.name not in hints for p in parameters):
        raise DeclarationError("has parameters without annotations", operator=name)

    def stub() -> None: ...

    stub.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    stub.__annotations__ = {**{p.name: hints[p.name] for p in parameters}, "return": hints.get("return")}
    try:
        return read_signature(stub, name, loop=False, frames=0)
    except DeclarationError:  # A return annotation that is no tensor says nothing about shapes.
        stub.__annotations__["return"] = Tensor
        return read_signature(stub, name, loop=False, frames=0)
